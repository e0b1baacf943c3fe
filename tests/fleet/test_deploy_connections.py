"""Connections to real SSH servers: host keys are checked, failures are isolated, timeouts hold."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from eventually import PATIENCE
from ssh_server import SshServer, free_port, ssh_server

from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host
from fleet.ssh.command_batch import Command
from fleet.ssh.connection_pool import connected, on_every_host

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """An sshd of our own, on loopback; Debian: openssh-server."""
    with ssh_server(tmp_path_factory.mktemp("sshd")) as started:
        yield started


def ask(host: Host, text: str = "echo on") -> str:
    with connected(host) as session:
        return session.run([Command("a", text, seconds=30)])["a"].out


def test_a_batch_runs_on_one_connection(server: SshServer) -> None:
    with connected(server.host()) as session:
        first = session.run([Command("a", 'echo "$SSH_CONNECTION"'), Command("b", "echo $PPID; exit 4")])
        second = session.run([Command("a", 'echo "$SSH_CONNECTION"')])
    assert first["a"].out == second["a"].out
    assert first["b"].code == 4


def test_what_is_sent_arrives_and_the_answer_comes_back(server: SshServer) -> None:
    data = [os.urandom(1 << 20) for _ in range(8)]
    with connected(server.host()) as session:
        answer = session.send(Command("a", "wc -c; echo done >&2; exit 5"), data)
    assert (answer.out.strip(), answer.err, answer.code) == (str(8 << 20), "done\n", 5)


def test_a_command_that_does_not_read_to_the_end_is_an_answer(server: SshServer) -> None:
    with connected(server.host()) as session:
        answer = session.send(Command("a", "echo no space left >&2; exit 1"), [b"x" * (1 << 20)] * 32)
    assert (answer.err, answer.code) == ("no space left\n", 1)


def test_the_command_that_adds_a_key_is_right(server: SshServer, tmp_path: Path) -> None:
    file = tmp_path / "known hosts"
    file.touch()
    host = replace(server.host(), known_hosts=file)
    with pytest.raises(HostFailedError) as caught:
        ask(host)
    command = str(caught.value).rpartition("then add it: ")[2]
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert ask(host) == "on\n"


def test_a_missing_known_hosts_file_is_named(server: SshServer, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="no such file, named as known_hosts of here"):
        ask(replace(server.host(), known_hosts=tmp_path / "none"))


def test_failures_stand_beside_successes_in_the_given_order(server: SshServer) -> None:
    good = server.host()
    down = replace(good, name="down", port=free_port())
    lost = replace(good, name="lost", address="no-such-host.invalid")
    result = on_every_host([down, good, lost], ask)
    assert result.succeeded == {"here": "on\n"}
    assert list(result.failed) == ["down", "lost"]
    assert "cannot be reached" in str(result.failed["down"])
    assert "correct it in the inventory" in str(result.failed["lost"])


def test_a_server_that_never_answers_does_not_hold_up_the_others(server: SshServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = replace(server.host(), name="mute", port=int(silent.getsockname()[1]))
        result = on_every_host([mute, server.host()], ask)
    assert result.succeeded == {"here": "on\n"}
    assert "cannot be reached" in str(result.failed["mute"])


def test_hosts_are_looked_at_side_by_side_but_not_all_at_once(server: SshServer) -> None:
    hosts = [replace(server.host(), name=f"host-{number}") for number in range(6)]
    three, ended = threading.Barrier(3), threading.Semaphore(3)

    def look(host: Host) -> str:
        assert ended.acquire(blocking=False), "a fourth one began before one of three had ended"
        three.wait(PATIENCE)
        said = ask(host)
        ended.release()
        return said

    result = on_every_host(hosts, look, parallel=3)
    assert (list(result.succeeded.values()), result.failed) == (["on\n"] * 6, {})


def test_a_session_that_is_cut_off_is_an_error_message(server: SshServer) -> None:
    with pytest.raises(HostFailedError, match="here ended the session before it ran a"):
        ask(server.host(), "kill -9 $(ps -o ppid= -p $PPID)")  # the shell that runs the batch


# -- the tasks, as they are typed ----------------------------------------------------------------------------


@pytest.fixture
def inventory(server: SshServer, tmp_path: Path) -> Path:
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
    ],
)
def test_wrong_use_is_exit_code_2_and_a_sentence(arguments: list[str], said: str) -> None:
    done = fab(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
