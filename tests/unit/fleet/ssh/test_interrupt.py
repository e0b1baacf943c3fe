"""Ctrl-C while hosts are only read: ends immediately, with a message, without leftovers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from invoke.exceptions import Exit
from ssh_server import SshServer, ssh_server

from fleet.inventory.hosts import Host
from fleet.ssh.connection_pool import GroupResult, on_every_host
from fleet.ssh.exchange import exchange
from fleet.ssh.interrupt import reading
from tasks.base import reporting_errors

ROOT = Path(__file__).resolve().parents[4]
HANGS = 60.0  # seconds
IMAGE = '[{"Id": "sha256:0a", "RootFS": {"Layers": ["sha256:0b"]}, "Size": 1}]'


@pytest.fixture
def known() -> Iterator[threading.Event]:
    """Set by a test when Ctrl-C is to be typed."""
    typed = threading.Event()

    def type_it() -> None:
        if typed.wait(HANGS):
            os.kill(os.getpid(), signal.SIGINT)

    operator = threading.Thread(target=type_it)
    operator.start()
    yield typed
    operator.join()


def test_what_is_known_by_then_is_kept_and_who_had_not_answered_is_reported(known: threading.Event) -> None:
    before = signal.getsignal(signal.SIGINT)
    hosts = [Host(name, "192.0.2.1", "voxyard") for name in ("quick", "hangs", "waits")]
    found: list[GroupResult[bytes]] = []

    def work(host: Host) -> bytes:
        if host.name == "quick":
            return exchange(["echo", "on"], (), stall_seconds=HANGS, seconds=HANGS).out
        known.set()
        return exchange(["sleep", "60"], (), stall_seconds=HANGS, seconds=HANGS).out

    with pytest.raises(Exit) as ended, reporting_errors(), reading():
        found.append(on_every_host(hosts, work, parallel=1, keep=True))
    (result,) = found
    assert result.succeeded == {"quick": b"on\n"}
    assert {name: str(error) for name, error in result.failed.items()} == {
        "hangs": "interrupted before it had answered",
        "waits": "interrupted before it was contacted",
    }
    assert (str(ended.value), ended.value.code) == ("interrupted by Ctrl-C: nothing was changed", 130)
    assert signal.getsignal(signal.SIGINT) == before
    assert exchange(["echo", "on"], (), stall_seconds=HANGS, seconds=HANGS).out == b"on\n"


def test_work_in_several_steps_does_not_go_on_with_the_hosts_that_had_answered(known: threading.Event) -> None:
    def work(host: Host) -> bytes:
        known.set()
        return exchange(["sleep", "60"], (), stall_seconds=HANGS, seconds=HANGS).out

    steps: list[str] = []

    def two_steps() -> None:
        with reporting_errors(), reading():
            on_every_host([Host("hangs", "192.0.2.1", "voxyard")], work)
            steps.append("the second")

    with pytest.raises(Exit) as ended:
        two_steps()
    assert (ended.value.code, steps) == (130, [])


# -- the tasks, as they are typed ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """An sshd whose sessions do nothing; `folder`/began names the process of the last one."""
    folder = tmp_path_factory.mktemp("sshd")
    docker = folder / "bin/docker"  # that of the operator's machine: it has every image
    docker.parent.mkdir()
    docker.write_text(f"#!/bin/sh\ncase $* in *.Config.Env*) echo [];; run*) echo {{}};; *) echo '{IMAGE}';; esac\n")
    docker.chmod(0o755)
    command = f"echo $$ > {folder}/.began; mv {folder}/.began {folder}/began; exec sleep 300"
    with ssh_server(folder, ForceCommand=command) as server:
        yield server


@pytest.mark.needs("ssh", "sshd")
@pytest.mark.parametrize("task", ["check", "status", "runs", "plan", "deploy", "logs --host here --service bark"])
def test_ctrl_c_ends_a_task_that_reads_a_host_whose_session_hangs(hanging: SshServer, task: str) -> None:
    began = hanging.folder / "began"
    with typed(task, hanging, hanging.port) as (fab, folder):
        while not began.exists():
            assert fab.poll() is None, fab.communicate()
            time.sleep(0.02)
        session = int(began.read_text())
        began.unlink()
        try:
            assert_ends_at_ctrl_c(fab, folder)
        finally:
            with suppress(ProcessLookupError):
                os.kill(session, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.needs("ssh", "ssh-keygen")
def test_ctrl_c_ends_a_task_that_waits_for_a_port_where_nobody_speaks(hanging: SshServer) -> None:
    mute = socket.create_server(("127.0.0.1", 0))
    with mute, typed("check", hanging, mute.getsockname()[1]) as (fab, folder):
        mute.settimeout(HANGS)
        connection, _ = mute.accept()
        with connection:
            assert_ends_at_ctrl_c(fab, folder)


@contextmanager
def typed(task: str, server: SshServer, port: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A task of fab, and the folder of its temporary files."""
    host = server.host(port=port)
    with tempfile.TemporaryDirectory(prefix="fab-") as folder:
        inventory = Path(folder) / "hosts.yaml"
        inventory.write_text(
            f"defaults: {{user: {host.user}, identity_file: {host.identity_file}, known_hosts: {host.known_hosts}}}\n"
            f"hosts:\n  here: {{address: 127.0.0.1, port: {host.port}, roles: [trainer]}}\n"
        )
        words = [str(Path(sys.executable).with_name("fab")), "--search-root", str(ROOT / "scripts"), *task.split()]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [*words, "--inventory", inventory],
            stdout=pipe,
            stderr=pipe,
            text=True,
            cwd=ROOT,
            env=os.environ | {"TMPDIR": folder, "PATH": f"{server.folder}/bin:{os.environ['PATH']}"},
            process_group=0,
        ) as fab:
            try:
                yield fab, folder
            finally:
                fab.kill()


def assert_ends_at_ctrl_c(fab: subprocess.Popen[str], folder: str) -> None:
    """With a sentence, the shell's exit code, and no process or file of the connection left."""
    os.killpg(fab.pid, signal.SIGINT)
    _, said = fab.communicate()
    assert (fab.returncode, said.splitlines()[-1]) == (130, "interrupted by Ctrl-C: nothing was changed"), said
    assert "Traceback" not in said
    assert [path.name for path in Path(folder).iterdir()] == ["hosts.yaml"]
    assert processes_with(folder) == []


def processes_with(text: str) -> list[str]:
    """The command lines that name `text`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if text in line]
