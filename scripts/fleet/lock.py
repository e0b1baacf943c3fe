"""Deployment lock: a file on the host with owner, time and reason; one change at a time."""

from __future__ import annotations

import getpass
import json
import logging
import platform
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fleet.errors import HostFailedError
from fleet.facts.fact import Fact, Unknown
from fleet.ssh.command_batch import Command
from fleet.ssh.connection_pool import Session

log = logging.getLogger("fleet")

_HOME = '"$HOME/.voxyard"'
_HELD = 75  # EX_TEMPFAIL: the lock is taken


class HostLockedError(HostFailedError):
    """Refusal: somebody else holds the lock of the host."""


@dataclass(frozen=True, slots=True)
class Lock:
    """Lock on a host, with its owner. Both times are the host's own, in seconds since the epoch."""

    owner: str  # user@machine
    reason: str
    at: int
    now: int  # when it was read
    token: str

    @property
    def age(self) -> str:
        """Age of the lock as text."""
        seconds = max(0, self.now - self.at)
        for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
            if seconds >= 2 * size:
                return f"{seconds // size} {unit}"
        return f"{seconds} s"

    def __str__(self) -> str:
        return f"{self.owner} for {self.age} ({self.reason})"


@contextmanager
def locked(session: Session, host: str, reason: str) -> Iterator[None]:
    """Holds the lock of `host` (a name, for messages) until the block ends.

    Raises HostLockedError where it is taken, with owner, age, reason and fix, HostFailedError where the host cannot be
    locked. When the connection is lost at the end, the lock stays on the host.
    """
    token = secrets.token_hex(8)
    take = take_command(operator(), reason, token)
    answer = session.run([take])[take.name]
    if answer.code == _HELD:
        raise HostLockedError(refusal(host, _parse(answer.out)))
    if not answer.ok:
        raise HostFailedError(f"{host} could not be locked: {answer.message}")
    try:
        yield
    finally:
        _give_back(session, host, token)


def read_lock(session: Session) -> Lock | None:
    """The lock of the host, None where it is free. Raises HostFailedError when the connection breaks."""
    found = LOCK.among(session.run([LOCK.command]))
    return None if isinstance(found, Unknown) else found


def break_lock(session: Session, host: str) -> Lock | None:
    """Removes the lock; its former owner, None where it was free. Raises HostFailedError."""
    command = break_command(secrets.token_hex(8))
    answer = session.run([command])[command.name]
    if not answer.ok:
        raise HostFailedError(f"the lock of {host} could not be broken: {answer.message}")
    return _parse(answer.out) if answer.out.strip() else None


def operator() -> str:
    """Name of the operator for a lock and the audit log: user@machine."""
    return f"{getpass.getuser()}@{platform.node()}"


def take_command(owner: str, reason: str, token: str) -> Command:
    """Command that creates the lock file atomically; prints an existing one and exits with 75."""
    content = json.dumps({"owner": owner, "reason": reason, "token": token})
    partial = shlex.quote(f".lock.{token}")
    lines = [
        "set -eu",
        "umask 077",
        f"mkdir -p {_HOME}",
        f"cd {_HOME}",
        f"printf '%s\\n' {shlex.quote(content)} > {partial}",
        f"if ln {partial} lock 2>/dev/null; then rm -f {partial}; exit 0; fi",  # link creation is atomic
        f"rm -f {partial}",
        f"if [ -e lock ]; then {_printed('lock')}; exit {_HELD}; fi",
        "echo 'no lock file can be made in ~/.voxyard' >&2; exit 1",
    ]
    return Command("lock", "\n".join(lines))


def give_back_command(token: str) -> Command:
    """Command that removes the lock file of this token only."""
    text = f"cd {_HOME} && if grep -qs {shlex.quote(token)} lock; then rm -f lock; fi"
    return Command("give-lock-back", text)


def break_command(token: str) -> Command:
    """Command that removes the lock file of any owner and prints it; no output where there is none."""
    away = shlex.quote(f".lock.{token}.broken")
    lines = [
        f"cd {_HOME} 2>/dev/null || exit 0",
        f'said=$(mv -T lock {away} 2>&1) || {{ [ -e lock ] || exit 0; echo "$said" >&2; exit 1; }}',
        f"{_printed(away)}; rm -f {away}",
    ]
    return Command("break-lock", "\n".join(lines))


def _give_back(session: Session, host: str, token: str) -> None:
    command = give_back_command(token)
    try:
        answer = session.run([command])[command.name]
        said = None if answer.ok else answer.message
    except HostFailedError as error:
        said = str(error)
    if said is not None:
        log.warning("%s: could not release the lock (%s); break it with: fab unlock --host %s", host, said, host)


def refusal(host: str, lock: Lock) -> str:
    """Error message for a host that is locked by somebody else."""
    return (
        f"{host} is locked by {lock}: wait until that change has ended; "
        f"if it is not running any more, break the lock with: fab unlock --host {host}"
    )


def _printed(file: str) -> str:
    """Shell command that prints a lock file, its time and the time now; nothing where it has just gone."""
    return f"{{ cat; echo; date -r /dev/stdin +%s; date +%s; }} < {file}"


def _parse(text: str) -> Lock:
    """Parse a lock file; an unreadable file still counts as a lock."""
    body, at, now = text.rstrip("\n").rsplit("\n", 2)
    try:
        found = json.loads(body)
        return Lock(str(found["owner"]), str(found["reason"]), int(at), int(now), str(found["token"]))
    except (ValueError, LookupError, TypeError):
        said = f"the lock file cannot be read: {body.strip()[:100]!r}"
        return Lock("somebody", said, int(at), int(now), "")


LOCK: Fact[Lock | None] = Fact(
    "lock",
    f"cd {_HOME} 2>/dev/null && [ -e lock ] && {_printed('lock')} || true",
    lambda t: _parse(t) if t.strip() else None,
)
