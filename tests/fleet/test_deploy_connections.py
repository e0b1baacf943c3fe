"""Connections to real SSH servers: host keys are checked, failures stand beside successes, nothing waits for long."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fleet.batch import Command
from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host, Jump
from fleet.remote import connected, on_every_host

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Server:
    """An sshd on this machine, with a key for us."""

    folder: Path
    port: int

    def host(self) -> Host:
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        key, known = self.folder / "user", self.folder / "known_hosts"
        return Host("here", "127.0.0.1", user, port=self.port, identity_file=key, known_hosts=known)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def make_key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An sshd of our own, on loopback; Debian: openssh-server."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no sshd here: apt-get install openssh-server")
    folder, port = tmp_path_factory.mktemp("sshd"), free_port()
    host_key, user_key = make_key(folder / "host"), make_key(folder / "user")
    (folder / "authorized_keys").write_text(user_key)
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "authorized_keys",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
    }
    (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    with subprocess.Popen([program, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 30
        while not accepts(port):
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield Server(folder, port)
        process.terminate()


def accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def ask(host: Host, text: str = "echo on") -> str:
    with connected(host) as session:
        return session.run([Command("a", text, seconds=30)])["a"].out


def test_a_batch_runs_on_one_connection(server: Server) -> None:
    with connected(server.host()) as session:
        first = session.run([Command("a", 'echo "$SSH_CONNECTION"'), Command("b", "echo $PPID; exit 4")])
        second = session.run([Command("a", 'echo "$SSH_CONNECTION"')])
    assert first["a"].out == second["a"].out
    assert first["b"].code == 4


def test_what_is_sent_arrives_and_the_answer_comes_back(server: Server) -> None:
    data = [os.urandom(1 << 20) for _ in range(8)]
    with connected(server.host()) as session:
        answer = session.send(Command("a", "wc -c; echo done >&2; exit 5"), data)
    assert (answer.out.strip(), answer.err, answer.code) == (str(8 << 20), "done\n", 5)


def test_a_command_that_does_not_read_to_the_end_is_an_answer(server: Server) -> None:
    with connected(server.host()) as session:
        answer = session.send(Command("a", "echo no space left >&2; exit 1"), [b"x" * (1 << 20)] * 32)
    assert (answer.err, answer.code) == ("no space left\n", 1)


def test_an_unknown_host_key_is_refused_with_how_to_add_it(server: Server, tmp_path: Path) -> None:
    empty = tmp_path / "known hosts"
    empty.touch()
    with pytest.raises(HostFailedError) as caught:
        ask(replace(server.host(), known_hosts=empty))
    said = str(caught.value)
    shown = subprocess.run(["ssh-keygen", "-lf", server.folder / "host.pub"], capture_output=True, text=True).stdout
    assert shown.split()[1] in said
    assert f"ssh-keyscan -p {server.port} 127.0.0.1 >> '{empty}'" in said
    assert empty.read_text() == ""


def test_the_command_that_adds_a_key_is_right(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.touch()
    host = replace(server.host(), known_hosts=file)
    with pytest.raises(HostFailedError) as caught:
        ask(host)
    command = str(caught.value).rpartition("then add it: ")[2]
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert ask(host) == "on\n"


def test_a_changed_host_key_is_refused(server: Server, tmp_path: Path) -> None:
    other = tmp_path / "known_hosts"
    other.write_text(f"[127.0.0.1]:{server.port} {make_key(tmp_path / 'other')}")
    with pytest.raises(HostFailedError, match=r"the host key of \[127.0.0.1\]:\d+ has changed: .* Somebody may stand"):
        ask(replace(server.host(), known_hosts=other))


def test_the_key_of_a_jump_host_is_checked_too(server: Server, tmp_path: Path) -> None:
    jump = Jump("127.0.0.1", server.port)
    assert ask(replace(server.host(), jump=(jump,))) == "on\n"
    empty = tmp_path / "known_hosts"
    empty.touch()
    with pytest.raises(HostFailedError, match="is not known"):
        ask(replace(server.host(), jump=(jump,), known_hosts=empty))


def test_the_users_ssh_configuration_has_no_part_in_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fabric makes the connections of a ProxyJump itself, and they accept any host key."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(f"Host *\n  StrictHostKeyChecking no\n  ProxyJump localhost:{free_port()}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ask(server.host()) == "on\n"
    with pytest.raises(HostFailedError, match=r"ssh-keyscan .* >> ~/\.ssh/known_hosts"):
        ask(replace(server.host(), known_hosts=None))


def test_a_missing_known_hosts_file_is_named(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="no such file, named as known_hosts of here"):
        ask(replace(server.host(), known_hosts=tmp_path / "none"))


def test_a_refused_login_says_what_to_do(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    make_key(tmp_path / "stranger")
    with pytest.raises(HostFailedError, match=r"refuses the login .*authorized_keys"):
        ask(replace(server.host(), identity_file=tmp_path / "stranger"))


def test_failures_stand_beside_successes_in_the_given_order(server: Server) -> None:
    good = server.host()
    down = replace(good, name="down", port=free_port())
    lost = replace(good, name="lost", address="no-such-host.invalid")
    result = on_every_host([down, good, lost], ask)
    assert result.succeeded == {"here": "on\n"}
    assert list(result.failed) == ["down", "lost"]
    assert "cannot be reached" in str(result.failed["down"])
    assert "correct it in the inventory" in str(result.failed["lost"])


def test_a_server_that_never_answers_does_not_hold_up_the_others(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = replace(server.host(), name="mute", port=int(silent.getsockname()[1]))
        result = on_every_host([mute, server.host()], ask)
    assert result.succeeded == {"here": "on\n"}
    assert "cannot be reached" in str(result.failed["mute"])


def test_hosts_are_looked_at_side_by_side_but_not_all_at_once(server: Server) -> None:
    hosts = [replace(server.host(), name=f"host-{number}") for number in range(6)]
    spans = on_every_host(hosts, lambda host: (time.monotonic(), ask(host, "sleep 0.5"), time.monotonic()), parallel=3)
    starts_and_ends = [(start, end) for start, _, end in spans.succeeded.values()]
    together = [sum(start <= moment < end for start, end in starts_and_ends) for moment, _ in starts_and_ends]
    assert max(together) == 3


def test_a_session_that_is_cut_off_is_a_sentence(server: Server) -> None:
    with pytest.raises(HostFailedError, match="here ended the session before it ran a"):
        ask(server.host(), "kill -9 $(ps -o ppid= -p $PPID)")  # the shell that runs the batch


def test_a_connection_that_broke_is_not_opened_anew_in_silence(server: Server) -> None:
    """What an old command still does on the host would go on beside the new one."""
    up = 'case "$(ps -o comm= -p $p)" in sshd*) break;; esac; p=$(ps -o ppid= -p $p | tr -d " ")'
    with connected(server.host()) as session:
        for text in (f"p=$$; while :; do {up}; done; kill -9 $p; sleep 5", "true"):
            with pytest.raises(HostFailedError, match="the connection to here broke"):
                session.run([Command("a", text, seconds=30)])
        with pytest.raises(HostFailedError, match="the connection to here broke"):
            session.send(Command("a", "cat"), [b"x"])


# -- the tasks, as they are typed ----------------------------------------------------------------------------


@pytest.fixture
def inventory(server: Server, tmp_path: Path) -> Path:
    """The server as `here`, and a host that is down."""
    host = server.host()
    path = tmp_path / "hosts.yaml"
    path.write_text(
        f"defaults: {{user: {host.user}, identity_file: {host.identity_file}, known_hosts: {host.known_hosts}}}\n"
        f"hosts:\n  here: {{address: 127.0.0.1, port: {host.port}}}\n"
        f"  down: {{address: 127.0.0.1, port: {free_port()}}}\n"
    )
    return path


def fab(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("fab")), "--search-root", str(ROOT / "scripts"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_a_host_that_is_down_is_reported_beside_the_others(inventory: Path) -> None:
    done = fab("check", "--inventory", str(inventory), "--json")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    here, down = document["hosts"]
    assert (here["name"], here["error"]) == ("here", None)
    assert (down["name"], down["ok"], down["findings"]) == ("down", False, [])
    assert "cannot be reached" in down["error"]
    assert document["ok"] is False


def test_the_table_goes_to_standard_output_and_has_a_row_a_host(inventory: Path) -> None:
    for task in ("check", "status"):
        done = fab(task, "--inventory", str(inventory))
        assert done.returncode == 1
        assert {"here", "down"} <= {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "--no-such-option"], "No idea what '--no-such-option' is!"),
        (["chekc"], "No idea what 'chekc' is!"),
        (["check", "--inventory", "/no/such/file"], "no such inventory"),
        (["check", "--inventory", "deploy/hosts.example.yaml", "--host", "nobody"], "no host nobody"),
        (["status", "--inventory"], "needed value"),
        (["status", "--inventory", "deploy/hosts.example.yaml", "--host", "gpu-01,nobody"], "no host nobody"),
        (["deploy", "--inventory", "deploy/hosts.example.yaml", "--image", "x"], "expected ROLE=REFERENCE"),
        (["plan", "--inventory", "deploy/hosts.example.yaml", "--image", "grafana=x"], "expected ROLE=REFERENCE"),
        (["unlock", "--inventory", "deploy/hosts.example.yaml"], "name the hosts whose lock"),
        (["drain", "--inventory", "deploy/hosts.example.yaml"], "name the hosts that are to be drained"),
    ],
)
def test_wrong_use_is_exit_code_2_and_a_sentence(arguments: list[str], said: str) -> None:
    done = fab(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_list_of_tasks_says_what_each_does() -> None:
    listed = fab("--list").stdout
    for task in ("check", "deploy", "drain", "plan", "rollback", "status", "unlock"):
        assert f"\n  {task} " in listed
