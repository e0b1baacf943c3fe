"""rsync over SSH: pushes and pulls directories, with the same login as all connections."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host
from fleet.inventory.types import bracketed
from fleet.ssh.command_batch import decoded
from fleet.ssh.route import route_to

STALL_SECONDS = 600  # without a byte: checksums of a large corpus take long; a dead host is detected earlier by ssh
VANISHED = 24  # source files removed between listing and sending
BUSY = 75  # EX_TEMPFAIL: another transfer holds the lock
_BUSY = "voxyard-sends-here-already"
_LOST = (10, 12, 30, 35, 255)  # rsync's exit codes for connection errors; the last one is ssh's


@dataclass(frozen=True, slots=True)
class RsyncResult:
    """Result of rsync: exit code and output."""

    code: int
    out: str
    err: str


def push_command(host: Host, source: Path, target: str, *, link_to: str | None, lock: str) -> list[str]:
    """Command that mirrors `source` to the directory `target` below the login's home, compared by checksum.

    A file gets its name only when it is complete. Files that `link_to` (a sibling directory) has are hard-linked.
    One transfer at a time: a second one exits with BUSY.
    """
    options = ["--delete", "--delay-updates", f"--rsync-path={_locked(lock)}"]
    if link_to is not None:
        options.append(f"--link-dest={link_to}")
    return [*_rsync(), *options, f"{source}/", f"{host.user}@{bracketed(host.address)}:{target}/"]


def compare_command(host: Host, source: Path, target: str) -> list[str]:
    """Command that lists the differences of `target` on the host from `source`, a line per file; changes nothing."""
    there = f"{host.user}@{bracketed(host.address)}:{target}/"
    return [*_rsync(), "--dry-run", "--delete", "--itemize-changes", f"{source}/", there]


def pull_command(host: Host, source: str, target: Path, *, exclude: Sequence[str] = ()) -> list[str]:
    """Command that copies the directory `source` below the login's home into `target`; removes nothing."""
    left_out = [f"--exclude={pattern}" for pattern in exclude]
    there = f"{host.user}@{bracketed(host.address)}:{source}/"
    # Keep symbolic links: `best` points to a checkpoint beside it.
    return [*_rsync(links="--links", others=False), "--delay-updates", *left_out, there, f"{target}/"]


def run(host: Host, command: Sequence[str], *, allowed: Sequence[int] = ()) -> RsyncResult:
    """Run rsync; shows progress on a terminal.

    Raises HostFailedError, with rsync's message, for an exit code other than 0 and `allowed`.
    """
    words = list(command)
    watched = sys.stderr.isatty() and "--dry-run" not in words
    if watched:
        words.insert(1, "--info=progress2")
    try:
        with route_to(host) as route:
            words.insert(1, f"--rsh={shlex.join(route.command)}")
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr if watched else subprocess.PIPE,
                stderr=subprocess.PIPE,
                check=False,
            )
            via = route.words()
    except FileNotFoundError:
        raise FleetError("rsync is not installed on this machine: apt-get install rsync") from None
    out, err = (decoded(part or b"") for part in (done.stdout, done.stderr))
    if done.returncode != 0 and done.returncode not in allowed:
        raise HostFailedError(_failure_message(host, done.returncode, via + err))
    return RsyncResult(done.returncode, out, err)


def _failure_message(host: Host, code: int, err: str) -> str:
    said = " ".join(err.split())[-500:] or f"exit code {code}"
    if code == BUSY or _BUSY in said:
        return f"{host.name}: another transfer of this corpus is running: wait for it, then run the same command again"
    if "flock: not found" in said or "flock: command not found" in said:
        return f"{host.name} has no flock: apt-get install util-linux there ({said})"
    if "rsync: not found" in said or "rsync: command not found" in said or "failed to execute rsync" in said:
        return f"{host.name} has no rsync: apt-get install rsync there ({said})"
    if "Host key verification failed" in said or "host key" in said.lower():
        return f"{host.name}: its host key is unknown or has changed, nothing was sent: {said}"
    if "is your shell clean" in said:
        return (
            f"{host.name}: its login prints something, which rsync takes for an answer ({said}): let ~/.bashrc there "
            f"print nothing without a terminal, so that `ssh {host.user}@{host.address} true` is silent"
        )
    advice = ": run the same command again, it continues where it stopped" if code in _LOST else ""
    return f"{host.name}: rsync failed ({said}){advice}"


def _rsync(*, links: str = "--copy-links", others: bool = True) -> list[str]:
    """`others`: containers, which are another user, can read the files; on a host ~/.voxyard is the login's alone."""
    return [
        "rsync",
        "--recursive",
        links,
        "--checksum",
        "--chmod=Du=rwx,Dgo=rx,Fu=rw,Fgo=r" if others else "--chmod=Du=rwx,Dgo=,Fu=rw,Fgo=",
        "--partial-dir=.rsync-partial",
        "-s",  # protects names with spaces and special characters
        f"--timeout={STALL_SECONDS}",
    ]


def _locked(lock: str) -> str:
    """Remote rsync command under a kernel file lock, which ends with the process.

    The local rsync may see the end before the exit code, so a refusal is also printed as text.
    """
    script = (
        f'flock -n -E {BUSY} "$0" rsync "$@" || {{ code=$?; [ $code -ne {BUSY} ] || echo {_BUSY} >&2; exit $code; }}'
    )
    return f"/bin/sh -c {shlex.quote(script)} {shlex.quote(lock)}"
