"""Directories between here and a host: rsync over SSH, which logs in as the connections do."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host
from fleet.ssh.route import bracketed, route_to

STALL_SECONDS = 600  # without a byte: checksums of a large corpus take long; ssh itself hears of a dead host sooner
VANISHED = 24  # files that were there when the list was made, and were gone when they were to be sent
BUSY = 75  # EX_TEMPFAIL: somebody else sends there
_BUSY = "voxyard-sends-here-already"
_LOST = (10, 12, 30, 35, 255)  # rsync's codes for a connection that broke or was never made; the last one is ssh's


@dataclass(frozen=True, slots=True)
class RsyncResult:
    """Result of rsync: its exit code, and its output."""

    code: int
    out: str
    err: str


def push_command(host: Host, source: Path, target: str, *, link_to: str | None, lock: str) -> list[str]:
    """Makes the directory `target`, below the login's home, hold what `source` holds: contents by checksum.

    A file appears under its name only when it is whole. What `link_to` (another directory beside it) holds already is
    linked. One at a time: who comes second gets the code BUSY.
    """
    options = ["--delete", "--delay-updates", f"--rsync-path={_locked(lock)}"]
    if link_to is not None:
        options.append(f"--link-dest={link_to}")
    return [*_rsync(), *options, f"{source}/", f"{host.user}@{bracketed(host.address)}:{target}/"]


def compare_command(host: Host, source: Path, target: str) -> list[str]:
    """Prints, without changing it, what differs between `target` on the host and `source`: a line a file."""
    there = f"{host.user}@{bracketed(host.address)}:{target}/"
    return [*_rsync(), "--dry-run", "--delete", "--itemize-changes", f"{source}/", there]


def pull_command(host: Host, source: str, target: Path, *, exclude: Sequence[str] = ()) -> list[str]:
    """Fetches what the directory `source`, below the login's home, holds into `target`; nothing is removed here."""
    left_out = [f"--exclude={pattern}" for pattern in exclude]
    there = f"{host.user}@{bracketed(host.address)}:{source}/"
    # Links stay what they are: `best` names a checkpoint beside it.
    return [*_rsync(links="--links"), "--delay-updates", *left_out, there, f"{target}/"]


def run(host: Host, command: Sequence[str], *, allowed: Sequence[int] = ()) -> RsyncResult:
    """Run rsync; with a terminal to look at, it shows how far it is.

    Raises HostFailedError, with rsync's own words, for an exit code other than 0 and those that are `allowed`.
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
        raise FleetError("rsync is not installed here: it brings corpora to hosts (apt-get install rsync)") from None
    out, err = ((part or b"").decode(errors="replace") for part in (done.stdout, done.stderr))
    if done.returncode != 0 and done.returncode not in allowed:
        raise HostFailedError(_failure_message(host, done.returncode, via + err))
    return RsyncResult(done.returncode, out, err)


def _failure_message(host: Host, code: int, err: str) -> str:
    said = " ".join(err.split())[-500:] or f"exit code {code}"
    if code == BUSY or _BUSY in said:
        return f"{host.name}: somebody else sends this corpus there now: wait for it, then run the same command again"
    if "flock: not found" in said or "flock: command not found" in said:
        return f"{host.name} has no flock: apt-get install util-linux there ({said})"
    if "rsync: not found" in said or "rsync: command not found" in said or "failed to execute rsync" in said:
        return f"{host.name} has no rsync: apt-get install rsync there ({said})"
    if "Host key verification failed" in said or "host key" in said.lower():
        return f"{host.name}: its host key is not known or not the known one, so nothing was sent: {said}"
    advice = ": run the same command again, it goes on where it was" if code in _LOST else ""
    return f"{host.name}: rsync failed ({said}){advice}"


def _rsync(*, links: str = "--copy-links") -> list[str]:
    return [
        "rsync",
        "--recursive",
        links,
        "--checksum",
        "--chmod=Du=rwx,Dgo=,Fu=rw,Fgo=",
        "--partial-dir=.rsync-partial",
        "-s",  # names with spaces and signs are names
        f"--timeout={STALL_SECONDS}",
    ]


def _locked(lock: str) -> str:
    """The rsync of the host, beside which no other writes there: the lock is the kernel's, and ends with it.

    The rsync here may hear of the end before it hears of the exit code, so who is refused is told in words too.
    """
    script = (
        f'flock -n -E {BUSY} "$0" rsync "$@" || {{ code=$?; [ $code -ne {BUSY} ] || echo {_BUSY} >&2; exit $code; }}'
    )
    return f"sh -c {shlex.quote(script)} {shlex.quote(lock)}"
