#!/usr/bin/python3
"""Kills the logins of a host, with `cut.py dies` what they have started, too."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

LOGIN = "sshd: voxyard"  # sshd's processes of a login are called so; the one that listens is not


def processes() -> Iterator[tuple[int, str]]:
    """All process ids with their command lines."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                yield int(entry.name), words


def parent(pid: int) -> int:
    """The process that started it; 0 where it has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    return 0


def end(pids: list[int]) -> None:
    """At once, without a chance to say goodbye. What belongs to another user goes with what is ours."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def cut(*, with_commands: bool) -> None:
    """End every login, and first, with `with_commands`, what it has started."""
    logins = [pid for pid, words in processes() if words.startswith(LOGIN)]
    if with_commands:
        # Stopped at first: a shell whose command ends would go on to its next one.
        started = [pid for pid, _ in processes() if pid != os.getpid() and descends(pid, logins)]
        for pid in started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP)
        end(started)
    end(logins)


def descends(pid: int, logins: list[int]) -> bool:
    """True where a login started the process, or started what started it."""
    if pid in logins:
        return False
    while pid > 1:
        pid = parent(pid)
        if pid in logins:
            return True
    return False


signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the kernel's word to a group whose parent has just been ended
cut(with_commands=sys.argv[1] == "dies")
