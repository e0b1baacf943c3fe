"""Logins at a real sshd: accepted keys, trusted host keys, and the error of each failure."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from eventually import PATIENCE, eventually
from free_ports import free_port
from ssh_server import SshServer, make_key, ssh_agent, ssh_server

from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host, Jump
from fleet.ssh import connection, login_failure, route, rsync
from fleet.ssh.command_batch import Command, verb
from fleet.ssh.connection_pool import connected, on_every_host
from fleet.ssh.route import Hop, Route

pytestmark = pytest.mark.needs("ssh", "ssh-agent", "sshd", "rsync")

ROOT = Path(__file__).resolve().parents[4]
# The sshd of this login, killed from within.
CUT = """
p=$$
while case "$(ps -o comm= -p $p)" in sshd*) false;; esac; do p=$(ps -o ppid= -p $p | tr -d " "); done
kill -9 $p
sleep 5
"""


def set_connect_seconds(patch: pytest.MonkeyPatch, seconds: int) -> None:
    for module in (route, connection):
        patch.setattr(module, "CONNECT_SECONDS", seconds)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer for a handshake than a network may."""
    set_connect_seconds(monkeypatch, int(PATIENCE))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """An sshd that knows one key."""
    with ssh_server(tmp_path_factory.mktemp("sshd")) as started:
        yield started


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA's key."""
    path = tmp_path_factory.mktemp("ca") / "ca"
    make_key(path)
    return path


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory, authority: Path) -> Iterator[SshServer]:
    """An sshd with a certificate of the CA."""
    with ssh_server(tmp_path_factory.mktemp("certified"), authority=authority) as started:
        yield started


def ask(host: Host, text: str = "echo on") -> str:
    with connected(host) as session:
        return session.run([Command("a", text, seconds=30)])["a"].out


def refusal(host: Host) -> str:
    with pytest.raises(HostFailedError) as caught:
        ask(host)
    return str(caught.value)


def test_the_state_of_a_host_is_where_the_inventory_says(server: SshServer, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "state")
    with connected(replace(server.host(), state_dir=elsewhere)) as session:
        batch = session.run([Command("state", verb("fact_state"))])["state"].out
        alone = session.send(Command("state", verb("fact_state")), [b""]).out
    assert batch.splitlines()[0] == alone.splitlines()[0] == elsewhere


# -- keys of the operator's ----------------------------------------------------------------------------------


def test_a_key_of_the_agent_opens_without_identity_file(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ssh_agent(tmp_path, server.folder / "user") as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        assert ask(server.host(identity_file=None)) == "on\n"


def with_home(home: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Python as a user whose home is there: ssh believes the passwd database, not the environment."""
    if os.geteuid() != 0:
        pytest.skip("another home for ssh needs root: run the tests as root")
    me = pwd.getpwuid(os.geteuid())
    place = ":".join([me.pw_name, "x", str(me.pw_uid), str(me.pw_gid), "", str(home), "/bin/sh"])
    (home / "passwd").write_text(place + "\n")
    script = 'mount --bind "$1" /etc/passwd && shift && exec "$@"'
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        str(home / "passwd"),
        sys.executable,
        "-c",
        program,
        *words,
    ]
    environment = {key: value for key, value in os.environ.items() if key != "SSH_AUTH_SOCK"}
    environment |= {"PYTHONPATH": str(ROOT / "scripts"), "HOME": str(home)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


ASK_ALL = """
import sys
from pathlib import Path
from typing import Any
from fleet.ssh.command_batch import Command
from fleet.inventory.hosts import load
from fleet.ssh.connection_pool import connected
for host in load(Path(sys.argv[1])).hosts:
    with connected(host) as session:
        print(session.run([Command("a", "echo on")])["a"].out, end="")
"""


def example(server: SshServer, path: Path, **more: object) -> Path:
    """The example's own defaults, for one host."""
    document = yaml.safe_load((ROOT / "deploy/hosts.example.yaml").read_text())
    document["defaults"] |= {"user": server.host().user, **more}
    document["hosts"] = {"here": {"address": "127.0.0.1", "port": server.port}}
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_example_as_shipped_logs_in_with_the_keys_and_known_hosts_of_the_home(
    server: SshServer, tmp_path: Path
) -> None:
    home = tmp_path / ".ssh"
    home.mkdir(mode=0o700)
    server.let_in(make_key(home / "id_ed25519"))
    (home / "known_hosts").write_text(server.line)
    (home / "config").write_text("Host *\n  ProxyCommand false\n")
    done = with_home(tmp_path, ASK_ALL, str(example(server, tmp_path / "hosts.yaml")))
    assert (done.returncode, done.stdout) == (0, "on\n"), done.stderr


@pytest.mark.slow
def test_with_ssh_config_the_operators_jump_hosts_are_used_and_checked_all_the_same(
    server: SshServer, tmp_path: Path
) -> None:
    home = tmp_path / ".ssh"
    home.mkdir(mode=0o700)
    server.let_in(make_key(home / "id_ed25519"))
    with ssh_server(tmp_path) as bastion:
        bastion.let_in((home / "id_ed25519.pub").read_text())
        (home / "config").write_text(
            f"Host bastion\n  HostName 127.0.0.1\n  Port {bastion.port}\n"
            "Host 127.0.0.1\n  ProxyJump bastion\nHost *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
        )
        inventory = example(server, tmp_path / "hosts.yaml", ssh_config=True, known_hosts="known")
        (tmp_path / "known").write_text(server.line)
        refused = with_home(tmp_path, ASK_ALL, str(inventory))
        (tmp_path / "known").write_text(server.line + bastion.line)
        done = with_home(tmp_path, ASK_ALL, str(inventory))
    assert refused.returncode == 1
    assert f"host key is known for {bastion.name}" in refused.stderr
    assert (done.returncode, done.stdout) == (0, "on\n"), done.stderr


@pytest.mark.parametrize("more", ["", "  ForkAfterAuthentication yes\n"])
def test_a_host_may_be_an_alias_of_ssh_config_with_its_user_and_port(
    server: SshServer, tmp_path: Path, more: str
) -> None:
    home = tmp_path / ".ssh"
    home.mkdir(mode=0o700)
    server.let_in(make_key(home / "id_ed25519"))
    (home / "known_hosts").write_text(server.line)
    user = server.host().user
    (home / "config").write_text(f"Host lab-gpu\n  HostName 127.0.0.1\n  Port {server.port}\n  User {user}\n{more}")
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text("defaults: {ssh_config: true}\nhosts: {here: {address: lab-gpu, roles: [trainer], gpus: 2}}\n")
    done = with_home(tmp_path, ASK_ALL, str(inventory))
    assert (done.returncode, done.stdout) == (0, "on\n"), done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (  # elpy1/ssh-over-ssm
            "ProxyCommand sh -c 'echo no tunnel >&2; false'",
            "the ProxyCommand or ProxyJump of ~/.ssh/config fails: see what ssh -p {port} {user}@lab-gpu says",
        ),
        (
            "UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no",
            "then add it: ssh -p {port} {user}@lab-gpu -o StrictHostKeyChecking=ask -o UserKnownHostsFile=~/.ssh/",
        ),
        ("HostKeyAlias lab", "the host key of lab is not known"),
        ("HostName 127.0.0.1", "the host key of [127.0.0.1]:{port} is not known"),
    ],
)
def test_what_of_ssh_config_keeps_from_a_host_is_told_with_a_way_that_reads_it(
    server: SshServer, tmp_path: Path, settings: str, said: str
) -> None:
    (tmp_path / ".ssh").mkdir(mode=0o700)
    user = server.host().user
    (tmp_path / ".ssh/config").write_text(f"Host lab-gpu\n  {settings}\n  HostName 127.0.0.1\n  Port {server.port}\n")
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text(
        f"hosts: {{here: {{address: lab-gpu, user: {user}, port: {server.port}, ssh_config: true}}}}\n"
    )
    done = with_home(tmp_path, ASK_ALL, str(inventory))
    assert said.format(port=server.port, user=user) in done.stderr


def test_a_certificate_of_the_operator_lets_in(authority: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    make_key(tmp_path / "operator")
    with ssh_server(folder, TrustedUserCAKeys=str(authority.with_suffix(".pub"))) as trusting:
        host = trusting.host(identity_file=tmp_path / "operator")
        assert "rejects the login" in refusal(host)
        sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "me", "-n", host.user, str(tmp_path / "operator.pub")]
        subprocess.run(sign, check=True)
        assert ask(host) == "on\n"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"PubkeyAuthentication": "no", "KbdInteractiveAuthentication": "no", "PasswordAuthentication": "yes"},
            "asks for password, which nobody types",
        ),
        (
            {"AuthenticationMethods": "publickey,password", "PasswordAuthentication": "yes"},
            "asks for password, which nobody types",
        ),
    ],
)
def test_a_login_that_somebody_has_to_type_is_refused_with_the_way(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    with ssh_server(tmp_path, **settings) as asking:
        found = refusal(asking.host())
    assert said in found
    assert "PubkeyAuthentication and AuthenticationMethods in its sshd_config" in found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("Permission denied (gssapi-with-mic,password).", "it takes Kerberos tickets: kinit, with ssh_config: true"),
        (
            "Permission denied (publickey,gssapi-with-mic).",
            "authorized_keys there, and load the key into your SSH agent "
            "or name it as identity_file; or it takes Kerberos tickets",
        ),
        ("Permission denied (keyboard-interactive).", "it asks for keyboard-interactive, which nobody types"),
        (
            "Could not resolve hostname lab-gpu: Name or service not known",
            "set ssh_config: true where ~/.ssh/config names",
        ),
        ("connect to host lab port 22: Connection refused", "sshd runs on port 22, or give its port in the inventory"),
        (  # davidmerfield/blot#1863
            "kex_exchange_identification: Connection closed by remote host\nConnection closed by 192.0.2.1 port 22",
            "something there closes connections at once: MaxStartups of its sshd, fail2ban, a firewall",
        ),
        (  # gokrazy/breakglass#9
            "Unable to negotiate with 192.0.2.1 port 22: no matching host key type found. Their offer: ssh-rsa",
            "its sshd is too old for this ssh: update it, or allow what it offers in ~/.ssh/config",
        ),
        ("Connection timed out during banner exchange", "what listens on port 22 does not answer as sshd"),
        (
            '"System is booting up. Unprivileged users are not permitted to log in yet."\nConnection closed by lab',
            "the host is starting or going down",
        ),
        ("Your account has expired; please contact your system administrator", "chage --list shows the dates"),
        (  # openssl/openssl#18279
            'Load key "/home/ops/.ssh/id_ecdsa.pub": error in libcrypto\nops@lab: Permission denied (publickey).',
            "ssh cannot read /home/ops/.ssh/id_ecdsa.pub (error in libcrypto): name the private key",
        ),
    ],
)
def test_the_words_of_ssh_become_a_way(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.setattr(login_failure, "_verbose_login", lambda *_: "")
    route = Route(server.host(port=22), tmp_path, (Hop(0, "lab", "ops", 22),))
    route.log(route.hops[0]).write_text(words)
    assert said in str(login_failure.login_failure(route))


@pytest.mark.parametrize(
    ("at_length", "said"),
    [
        (  # Poeschl/Hassio-Addons#392
            "debug1: send_pubkey_test: no mutual signature algorithm\r\n",
            "host and ssh agree on no signature for an RSA key: use another one (ssh-keygen -t ed25519)",
        ),
        (  # a login as root, say
            "Server accepts key: /k ED25519 SHA256:x explicit\r\ndebug1: Authentications that can continue: publickey",
            "it knows the key /k and forbids the login: see PermitRootLogin, AllowUsers",
        ),
        (
            "Server accepts key: /k ED25519 SHA256:x explicit\r\ndebug1: No more authentication methods to try.",
            "it accepts the key /k, which needs its passphrase: ssh-add /k",
        ),
    ],
)
def test_what_becomes_of_a_key_is_told(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_length: str, said: str
) -> None:
    monkeypatch.setattr(login_failure, "_verbose_login", lambda *_: at_length)
    route = Route(server.host(port=22), tmp_path, (Hop(0, "lab", "ops", 22),))
    route.log(route.hops[0]).write_text("ops@lab: Permission denied (publickey).")
    assert said in str(login_failure.login_failure(route))


def test_a_reason_that_ssh_tells_only_when_asked_for_more_is_told(tmp_path: Path) -> None:
    with ssh_server(tmp_path, Ciphers="aes256-cbc") as old:
        assert "no matching cipher found. Their offer: aes256-cbc): its sshd is too old" in refusal(old.host())


def test_a_key_that_wants_its_passphrase_is_named(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    server.let_in(make_key(tmp_path / "locked", passphrase="not for programs"))
    key = tmp_path / "locked"
    said = refusal(server.host(identity_file=key))
    assert "rejects the login" in said
    assert f"it accepts the key {key}, which needs its passphrase: ssh-add {key}" in said


@pytest.mark.parametrize("public_half", [True, False])
def test_a_key_that_others_may_read_is_named_with_the_command_that_closes_it(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, public_half: bool
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    key = tmp_path / "open key"
    server.let_in(make_key(key))
    key.chmod(0o644)
    if not public_half:
        key.with_name(f"{key.name}.pub").unlink()
    said = refusal(server.host(identity_file=key))
    assert f"ignores {key}, which others can read (mode 0644): chmod 600 '{key}'" in said
    assert "ssh-add" not in said
    key.chmod(0o600)
    assert ask(server.host(identity_file=key)) == "on\n"


def test_a_unknown_user_is_rejected_with_the_message_of_ssh(server: SshServer, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    said = refusal(server.host(identity_file=tmp_path / "stranger"))
    assert ": Permission denied (publickey" in said
    assert "authorized_keys" in said


def test_an_agent_with_too_many_keys_is_the_reason_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_key(tmp_path / "another")
    (tmp_path / "sshd").mkdir()
    with ssh_server(tmp_path / "sshd", MaxAuthTries="1") as strict, ssh_agent(tmp_path, tmp_path / "another") as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        said = refusal(strict.host(identity_file=None))
    assert "offers too many keys: name the right one as identity_file" in said


# -- keys of the hosts ---------------------------------------------------------------------------------------


def test_a_host_of_a_ca_is_believed_beside_hosts_with_keys_of_their_own(
    server: SshServer, certified: SshServer, authority: Path, tmp_path: Path
) -> None:
    known = tmp_path / "known"
    known.write_text(f"@cert-authority * {authority.with_suffix('.pub').read_text()}{server.line}")
    hosts = [server.host(name="plain", known_hosts=known), certified.host(name="ca", known_hosts=known)]
    assert on_every_host(hosts, ask).succeeded == {"plain": "on\n", "ca": "on\n"}


def test_a_host_whose_ca_nobody_named_is_refused(certified: SshServer, tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    assert "is not known; it offers ssh-ed25519" in refusal(certified.host(known_hosts=tmp_path / "known"))


def test_a_revoked_key_is_refused_and_the_others_are_not(
    server: SshServer, certified: SshServer, tmp_path: Path
) -> None:
    known = tmp_path / "known"
    known.write_text(f"@revoked * {certified.host_key}{certified.line}{server.line}")
    assert "is revoked" in refusal(certified.host(known_hosts=known))
    assert ask(server.host(known_hosts=known)) == "on\n"


def test_an_unknown_key_is_shown_with_how_to_compare_and_add_it(server: SshServer, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.touch()
    said = refusal(server.host(known_hosts=known))
    shown = subprocess.run(["ssh-keygen", "-lf", server.folder / "host.pub"], capture_output=True, text=True).stdout
    assert f"it offers ssh-ed25519 {shown.split()[1]} (No ED25519 host key is known" in said
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on its console" in said
    assert said.endswith(f"then add it: ssh-keyscan -p {server.port} 127.0.0.1 >> {known}")
    subprocess.run(["sh", "-c", said.rpartition("then add it: ")[2]], check=True, capture_output=True)
    assert ask(server.host(known_hosts=known)) == "on\n"


def test_a_changed_key_is_shown_beside_the_known_one(server: SshServer, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text(f"# ours\n{server.name} {make_key(tmp_path / 'other')}")
    said = refusal(server.host(known_hosts=known))
    shown = subprocess.run(["ssh-keygen", "-lf", server.folder / "host.pub"], capture_output=True, text=True).stdout
    assert f"known is line 2 of {known}, it offers ED25519 {shown.split()[1]}. This may be a man-in-the-middle" in said
    assert f"ssh-keygen -f {known} -R '{server.name}' && ssh-keyscan -p {server.port} 127.0.0.1 >> {known}" in said


@pytest.mark.parametrize(("name", "said"), [(".", "is a directory"), ("none", "no such file")])
def test_what_is_no_file_of_known_hosts_is_reported(server: SshServer, tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(FleetError, match=f"{said}, named as known_hosts of here in the inventory"):
        ask(server.host(known_hosts=tmp_path / name))


# -- jump hosts ----------------------------------------------------------------------------------------------


def test_every_hop_is_checked_and_the_one_to_blame_is_named(
    server: SshServer, certified: SshServer, authority: Path, tmp_path: Path
) -> None:
    certified.let_in((server.folder / "user.pub").read_text())
    jump = (Jump("127.0.0.1", certified.port),)
    known = tmp_path / "known"
    known.write_text(server.line)
    assert f"the host key of {certified.name} is not known" in refusal(server.host(jump=jump, known_hosts=known))
    known.write_text(certified.line)
    said = refusal(server.host(jump=jump, known_hosts=known))
    assert f"the host key of {server.name} is not known" in said
    assert f"then add it: ssh -p {certified.port} " in said
    known.write_text(server.line + certified.line)
    assert ask(server.host(jump=jump, known_hosts=known), 'echo "$SSH_CONNECTION"').endswith(f" {server.port}\n")
    down = server.host(jump=jump, known_hosts=known, port=free_port())
    assert refusal(down).startswith(f"{down.user}@127.0.0.1:{down.port} cannot be reached (")
    closed = server.host(jump=(Jump("127.0.0.1", free_port()),), known_hosts=known)
    assert "cannot be reached (jump host of here)" in refusal(closed)


@pytest.mark.parametrize("settings", [{"AllowTcpForwarding": "no"}, {"PermitOpen": "192.0.2.1:22"}])
def test_a_jump_host_that_forbids_forwarding_is_the_one_to_blame(
    server: SshServer, tmp_path: Path, settings: dict[str, Any]
) -> None:
    with ssh_server(tmp_path, **settings) as bastion:
        bastion.let_in((server.folder / "user.pub").read_text())
        known = tmp_path / "known"
        known.write_text(server.line + bastion.line)
        said = refusal(server.host(jump=(Jump("127.0.0.1", bastion.port),), known_hosts=known))
    assert f"127.0.0.1:{bastion.port} (jump host of here) forbids forwarding to" in said
    assert "AllowTcpForwarding" in said


def test_rsync_goes_the_same_way_and_is_checked_on_it(server: SshServer, certified: SshServer, tmp_path: Path) -> None:
    certified.let_in((server.folder / "user.pub").read_text())
    (tmp_path / "there").mkdir()
    (tmp_path / "there/log").write_text("step 6")
    known = tmp_path / "known"
    known.write_text(server.line)
    host = server.host(jump=(Jump("127.0.0.1", certified.port),), known_hosts=known)
    command = rsync.pull_command(host, str(tmp_path / "there"), tmp_path / "out")
    with pytest.raises(HostFailedError, match=r"host key is unknown or has changed.*is known for"):
        rsync.run(host, command)
    known.write_text(server.line + certified.line)
    rsync.run(host, command)
    assert (tmp_path / "out/log").read_text() == "step 6"


# -- while it stands -----------------------------------------------------------------------------------------


def test_what_is_sent_arrives_on_the_one_connection_and_need_not_be_read(server: SshServer) -> None:
    where = Command("a", 'echo "$SSH_CONNECTION"')
    with connected(server.host()) as session:
        first = session.run([where])
        answer = session.send(Command("b", "wc -c; echo done >&2; exit 5"), [bytes(1 << 20)] * 8)
        full = session.send(Command("c", "echo no space left >&2; exit 1"), [bytes(1 << 20)] * 8)
        assert session.run([where]) == first
    assert (answer.out.strip(), answer.err, answer.code) == (str(8 << 20), "done\n", 5)
    assert (full.err, full.code) == ("no space left\n", 1)


def test_a_server_that_never_answers_does_not_hold_up_the_others(
    server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_connect_seconds(monkeypatch, 10)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = server.host(name="mute", port=int(silent.getsockname()[1]))
        result = on_every_host([mute, server.host()], ask)
    assert result.succeeded == {"here": "on\n"}
    assert "cannot be reached" in str(result.failed["mute"])


def test_verbs_of_the_host_script_come_through_with_their_arguments(server: SshServer) -> None:
    evil = """"$HOME" `id` $(id) ; * -"""
    with connected(server.host()) as session:
        seen = session.run([Command("verb", verb("fact_programs", "sh", evil)), Command("plain", "echo on")])
        (ended,) = session.run([Command("file", verb("release_file", evil, evil))]).values()
        sent = session.send(Command("verb", verb("fact_programs", "cat")), [b"not read"])
    assert (seen["verb"].out, seen["plain"].out, sent.out) == ("sh\n", "on\n", "cat\n")
    assert ended.code == 1
    assert f"releases/{evil}/{evil}" in ended.err


def test_the_exit_code_of_ssh_itself_is_a_commands_own_too(server: SshServer) -> None:
    with connected(server.host()) as session:
        assert session.run([Command("a", "echo no >&2; exit 255")])["a"].code == 255
        answer = session.send(Command("a", "cat; exit 255"), [b"x"])
    assert (answer.out, answer.err, answer.code) == ("x", "", 255)


@pytest.mark.parametrize("sending", [False, True])
def test_a_connection_that_is_cut_is_no_exit_code(server: SshServer, sending: bool) -> None:
    command = Command("a", CUT, seconds=30)
    with connected(server.host()) as session:
        for _ in range(2):  # nor is another one opened in silence
            with pytest.raises(
                HostFailedError, match=r"the connection to here was lost \(.*\): run the same command again"
            ):
                session.send(command, [bytes(1 << 20)] * 8) if sending else session.run([command])


def test_an_interrupt_while_a_connection_ends_leaves_nothing_of_it(
    server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters: list[subprocess.Popen[bytes]] = []

    def interrupted(master: subprocess.Popen[bytes]) -> None:
        masters.append(master)
        raise KeyboardInterrupt

    monkeypatch.setattr("fleet.ssh.connection._terminate", interrupted)
    with pytest.raises(KeyboardInterrupt), connected(server.host()) as session:
        session.run([Command("there", "true")])
    (master,) = masters
    master.wait(PATIENCE)


def test_a_command_that_is_killed_is_an_answer(server: SshServer) -> None:
    with connected(server.host()) as session:
        assert session.send(Command("a", "kill -9 $$"), [b"x"]).code == 137


def test_what_does_not_answer_in_time_is_reported_as_hanging(
    server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BATCH_GRACE_SECONDS", -0.7)
    with connected(server.host()) as session:
        with pytest.raises(HostFailedError, match=r"here did not answer within 0.3 s: log in and check"):
            session.run([Command("a", "sleep 60", seconds=1)])
        monkeypatch.setattr(connection, "STALL_SECONDS", 0.3)
        with pytest.raises(HostFailedError, match=r"here accepted no data for 0.3 s: log in and check"):
            session.send(Command("a", "sleep 60"), [bytes(8 << 20)])
        assert session.send(Command("a", "cat"), [b"still there"]).out == "still there"


def test_a_login_shell_that_runs_nothing_is_named_with_the_login_that_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_CUT_SECONDS", 0.1)  # the connection stays: nothing is to be waited for
    with ssh_server(tmp_path, ForceCommand="exit 1") as mute:
        said = refusal(mute.host())
    assert said.endswith(f"The login shell must run commands: ssh -p {mute.port} {mute.host().user}@127.0.0.1 true")


def test_an_sshd_that_allows_no_session_of_a_connection_is_named_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_CUT_SECONDS", 0.1)
    with ssh_server(tmp_path, MaxSessions="0") as forwards_only:  # after coollabsio/coolify#4173
        said = refusal(forwards_only.host())
    assert "refused by peer" in said
    assert said.endswith("Its sshd allows too few sessions of one connection: MaxSessions 10 in its sshd_config")


OPERATOR = """
import os, signal, sys
from pathlib import Path
from typing import Any
from fleet.ssh.command_batch import Command
from fleet.inventory.hosts import load
from fleet.ssh.connection_pool import connected
signal.signal(signal.SIGINT, lambda *_: None)
(host,) = load(Path(sys.argv[1])).hosts
with connected(host) as session:
    print(session._way.folder, session._master.pid, flush=True)
    command = Command("a", f"touch {session._way.folder}/began; sleep 0.5; echo to its end")
    print(session.run([command])["a"].out, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def operator(server: SshServer, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with an open connection, in a group of its own, as at a terminal."""
    host = server.host()
    keys = {"identity_file": str(host.identity_file), "known_hosts": str(host.known_hosts)}
    words = [sys.executable, "-c", OPERATOR, str(example(server, tmp_path / "hosts.yaml", **keys))]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environment, process_group=0) as process:
        yield process
        process.kill()


def test_a_ctrl_c_at_the_terminal_does_not_reach_the_connection(operator: subprocess.Popen[str]) -> None:
    assert operator.stdout is not None
    folder, _ = operator.stdout.readline().split()
    while not (Path(folder) / "began").exists():
        assert operator.poll() is None
        time.sleep(0.02)
    os.killpg(operator.pid, signal.SIGINT)
    assert operator.stdout.readline() == "to its end\n"


def test_nothing_is_left_of_a_connection_whose_process_was_killed(operator: subprocess.Popen[str]) -> None:
    assert operator.stdout is not None
    folder, master = operator.stdout.readline().split()
    operator.kill()
    left = (Path(folder), Path(f"/proc/{master}/fd"))
    eventually(lambda: not any(each.exists() for each in left), f"{folder} and process {master} are gone")
