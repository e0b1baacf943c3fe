#!/usr/bin/python3
"""Kills the logins of a host: cut.py now|dies, or when FILE-PATTERN COMMAND-PATTERN MARK SECONDS."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LOGIN = "sshd: voxyard"  # sshd's processes of a login are called so; the one that listens is not
EVERY = 0.003  # seconds between two looks


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


def cut(*, with_commands: bool) -> int:
    """End every login, and first, with `with_commands`, what it has started; how many processes of sshd."""
    logins = [pid for pid, words in processes() if words.startswith(LOGIN)]
    if with_commands:
        # Stopped at first: a shell whose command ends would go on to its next one.
        started = [pid for pid, _ in processes() if pid != os.getpid() and descends(pid, logins)]
        for pid in started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP)
        end(started)
    end(logins)
    return len(logins)


def descends(pid: int, logins: list[int]) -> bool:
    """True where a login started the process, or started what started it."""
    if pid in logins:
        return False
    while pid > 1:
        pid = parent(pid)
        if pid in logins:
            return True
    return False


def comes(files: str, commands: str) -> bool:
    """True where a file or a process of such a name is there, and a login that can be cut."""
    if not any(words.startswith(LOGIN) for _, words in processes()):
        return False
    if files and any(Path("/").glob(files.lstrip("/"))):
        return True
    return bool(commands) and any(
        fnmatch.fnmatchcase(words, commands) for pid, words in processes() if pid != os.getpid()
    )


def main(words: list[str]) -> None:
    """Do what the command line says."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the kernel's word to a group whose parent has just been ended
    if words[0] != "when":
        cut(with_commands=words[0] == "dies")
        return
    files, commands, rest, mark, seconds = words[1:]
    end_of_time = time.monotonic() + float(seconds)
    while not comes(files, commands):
        if time.monotonic() > end_of_time or Path(f"{mark}.over").exists():
            return
        time.sleep(EVERY)
    Path(mark).write_text(str(cut(with_commands=rest == "dies")), encoding="utf-8")


main(sys.argv[1:])
