"""Hosts of a cluster on one machine: namespaces (network, process, mount, host name) on a bridge of their own.

Each host has an address, a /tmp, a /dev/shm and processes of its own; its cable can be pulled. The bridge is in a
namespace too, so nothing of the machine's own network changes.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

NETWORK = "10.77.0."
# A host's own: mounts of /tmp/voxyard-ray-* and /dev/shm, and its name.
_ENTER = 'hostname "$1"; mount -t tmpfs -o size=2g shm /dev/shm; shift; exec "$@"'


class ClusterHosts:
    """So many hosts, numbered from 0; use it as a context manager. Needs root and iproute2."""

    def __init__(self, count: int) -> None:
        self._names = [f"vx{os.getpid() % 100_000}-{number}" for number in range(count)]
        self._switch = f"vx{os.getpid() % 100_000}-sw"
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "bridge0", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge0", "up")
        for number, name in enumerate(self._names):
            _ip("netns", "add", name)
            _ip(
                "-n",
                self._switch,
                "link",
                "add",
                f"port{number}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                name,
            )
            _ip("-n", self._switch, "link", "set", f"port{number}", "master", "bridge0", "up")
            _ip("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._processes:
            self.kill(process)
        for name in (*self._names, self._switch):
            _ip("netns", "del", name)

    def name(self, number: int) -> str:
        """Name of a host's network namespace."""
        return self._names[number]

    def address(self, number: int) -> str:
        """IP address of a host."""
        return f"{NETWORK}{10 + number}"

    def start(
        self,
        number: int,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """A process on a host, the first of a process namespace of its own: with it all that it starts is killed."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                [
                    *("ip", "netns", "exec", self._names[number]),
                    *("unshare", "--pid", "--mount", "--uts", "--fork", "--kill-child=KILL", "--mount-proc"),
                    *("sh", "-c", _ENTER, "sh", f"host{number}", *map(str, command)),
                ],
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def inside(self, process: subprocess.Popen[bytes]) -> list[int]:
        """Process ids, as the machine counts them, of all that a started process runs; the oldest first."""
        found, wanted = [], [process.pid]
        while wanted:
            children = _children(wanted.pop())
            found += children
            wanted += children
        return sorted(found)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a started process with all that it runs, as a host that loses its power."""
        if process.poll() is None:
            process.kill()  # unshare: its child is killed with it, and with that its process namespace
            process.wait(30)

    def freeze(self, process: subprocess.Popen[bytes], stop: bool = True) -> None:
        """Stop all that a started process runs, or let it go on."""
        for pid in self.inside(process):
            os.kill(pid, signal.SIGSTOP if stop else signal.SIGCONT)

    def cut(self, number: int) -> None:
        """Pull a host's cable."""
        _ip("-n", self._switch, "link", "set", f"port{number}", "down")

    def mend(self, number: int) -> None:
        """Put it back."""
        _ip("-n", self._switch, "link", "set", f"port{number}", "up")

    def run(self, number: int, command: Sequence[str | Path], seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command on a host's network to its end."""
        return subprocess.run(
            ["ip", "netns", "exec", self._names[number], *map(str, command)],
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip


def _children(pid: int) -> list[int]:
    try:
        listed = [task.joinpath("children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:  # it has ended
        return []
    return [int(child) for each in listed for child in each.split()]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
