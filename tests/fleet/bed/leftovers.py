"""Cleanup of a test bed's folder: containers, processes, mounts, network, control groups, files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.fleet.bed.errors import BedError
from tests.fleet.bed.programs import run

PARENT = Path("/var/tmp")  # on a disk, for the engine's data; short, for the socket's path
PREFIX = "voxyard-bed-"
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Names:
    """Names of a bed's things: all of them follow from its folder, so that a later run can find them."""

    folder: Path

    @property
    def bridge(self) -> str:
        """The network device between the hosts (15 characters are allowed)."""
        return f"vxbed{self.folder.name.removeprefix(PREFIX)[:8]}"

    @property
    def cgroup(self) -> str:
        """The control group over all containers, those inside the hosts too."""
        return f"/{self.folder.name}"

    @property
    def containerd(self) -> str:
        """The namespace in containerd, which may be the machine's own."""
        return self.folder.name

    @property
    def pidfile(self) -> Path:
        """Path of dockerd's process id file."""
        return self.folder / "docker.pid"

    @property
    def socket(self) -> Path:
        """Socket that dockerd listens on."""
        return self.folder / "docker.sock"


@contextlib.contextmanager
def claimed() -> Iterator[Path]:
    """A new folder that is this process's until the block ends: the kernel knows, so it ends with the process too."""
    while True:
        folder = PARENT / f"{PREFIX}{secrets.token_hex(4)}"  # a name that containerd takes as a namespace
        folder.mkdir(mode=0o700)
        with _locked(folder, wait=True) as ours:
            if ours and folder.is_dir():  # else another run took it for a left-over, between the two lines above
                folder.chmod(0o755)  # what is in it is mounted for users who are not root
                yield folder
                return


def sweep() -> list[Path]:
    """End the beds whose process is gone; their folders."""
    swept = []
    for folder in sorted(PARENT.glob(f"{PREFIX}*")):
        with _locked(folder, wait=False) as ours:
            if ours and folder.is_dir():
                end(Names(folder))
                swept.append(folder)
    return swept


def end(names: Names) -> None:
    """End everything of this bed, whatever is left of it. Raises BedError naming what would not go."""
    _remove_containers(names)
    _stop_daemon(names)
    for pid in processes(names):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _wait_gone(lambda: not processes(names), 10)
    for mount in _mounts(names.folder):
        if run(["umount", mount], check=False).returncode != 0:
            run(["umount", "--lazy", mount])
    _remove_network(names)
    for group in _groups(names):
        # A group may hold what is still ending; the next run's sweep does not look for it, so wait here.
        _wait_gone(partial(_removed, group), 5)
    shutil.rmtree(names.folder, ignore_errors=True)
    if left := [f"process {pid}" for pid in processes(names)] + [str(group) for group in _groups(names)]:
        raise BedError(f"of the test bed {names.folder.name} is left: {', '.join(left)}")
    if names.folder.exists():
        raise BedError(f"{names.folder} cannot be removed: look for what uses it (findmnt, lsof), then delete it")


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One process of the machine at a time is in such a block; the others wait."""
    with _locked(PARENT, wait=True):
        yield


@contextlib.contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the folder's lock, or say that another holds it, or that there is no such folder any more."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def command_line(pid: int) -> str:
    """The words of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _daemon(names: Names) -> int | None:
    """The running dockerd of this bed. Its number may long be another's: the command line tells."""
    try:
        pid = int(names.pidfile.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return pid if f"{names.folder}/" in command_line(pid) else None


def _remove_containers(names: Names) -> None:
    if _daemon(names) is None:
        return
    docker = ["docker", "--host", f"unix://{names.socket}"]
    listed = run([*docker, "ps", "--all", "--quiet"], seconds=60, check=False).stdout.split()
    if listed:
        run([*docker, "rm", "--force", "--volumes", *listed], seconds=120, check=False)


def _stop_daemon(names: Names) -> None:
    pid = _daemon(names)
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    _wait_gone(lambda: _daemon(names) is None, 30)  # a zombie has no command line


def processes(names: Names) -> list[int]:
    """dockerd, containerd and its shims by their command lines, what runs in containers by its control group."""
    marks = (f"{names.folder}/", f"-namespace {names.containerd} ")
    programs = {"dockerd", "containerd", "containerd-shim-runc-v2", "docker-proxy", "containerd-shim"}
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (command := command_line(int(entry.name))):
            program = Path(command.split()[0]).name if command.split() else ""
            if program in programs and any(mark in command for mark in marks):
                found.add(int(entry.name))
    for group in _groups(names):
        with contextlib.suppress(FileNotFoundError, OSError):
            found |= {int(line) for line in (group / "cgroup.procs").read_text(encoding="utf-8").split()}
    return sorted(found - {0})


def _groups(names: Names) -> list[Path]:
    """This bed's control groups in all hierarchies, the innermost first."""
    tops = [CGROUPS / names.cgroup[1:], *CGROUPS.glob(f"*{names.cgroup}")]
    return [path for top in tops if top.is_dir() for path in [*reversed(list(_below(top))), top]]


def _below(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                yield path
                yield from _below(path)


def _removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def _mounts(folder: Path) -> list[str]:
    """Mount points in the folder, the innermost first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = [line.split()[4] for line in lines]
    return [point for point in reversed(points) if point.startswith(f"{folder}/")]


def _remove_network(names: Names) -> None:
    if run(["ip", "link", "show", names.bridge], check=False).returncode == 0:
        run(["ip", "link", "delete", names.bridge])
    rule = forwarding(names)
    while run(["iptables", "--wait", "--delete", *rule], check=False).returncode == 0:
        continue


def forwarding(names: Names) -> list[str]:
    """The rule that lets the hosts talk to each other on a machine that forwards nothing."""
    return ["FORWARD", "-i", names.bridge, "-o", names.bridge, "-j", "ACCEPT"]


def _wait_gone(gone: Callable[[], bool], seconds: float) -> None:
    """Wait until `gone()` holds, or the time is over: what is left then is named at the end."""
    limit = time.monotonic() + seconds
    while not gone() and time.monotonic() < limit:
        time.sleep(0.1)
