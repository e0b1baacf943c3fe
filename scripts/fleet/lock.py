"""Deployment lock: a file on the host with owner, time and reason; one change at a time."""

from __future__ import annotations

import getpass
import json
import logging
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fleet.command_line import fab
from fleet.errors import HostFailedError
from fleet.facts.fact import Fact, Unknown
from fleet.ssh.command_batch import Command, verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must

log = logging.getLogger("fleet")

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
    content = json.dumps({"owner": operator(), "reason": reason, "token": token})
    take = Command("lock", verb("lock_take", content, token))
    answer = must(session, host, "be locked", take, other=_HELD)
    if answer.code == _HELD:
        raise HostLockedError(refusal(host, _parse(answer.out)))
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
    command = Command("break-lock", verb("lock_break", secrets.token_hex(8)))
    answer = must(session, host, "break its lock", command)
    return _parse(answer.out) if answer.out.strip() else None


def operator() -> str:
    """Name of the operator for a lock and the audit log: user@machine."""
    return f"{getpass.getuser()}@{platform.node()}"


def _give_back(session: Session, host: str, token: str) -> None:
    command = Command("give-lock-back", verb("lock_give_back", token))
    try:
        answer = session.run([command])[command.name]
        said = None if answer.ok else answer.message
    except HostFailedError as error:
        said = str(error)
    if said is not None:
        log.warning("%s: could not release the lock (%s); break it with: %s unlock --host %s", host, said, fab(), host)


def refusal(host: str, lock: Lock) -> str:
    """Error message for a host that is locked by somebody else."""
    return (
        f"{host} is locked by {lock}: wait until that change has ended; "
        f"if it is not running any more, break the lock with: {fab()} unlock --host {host}"
    )


def _parse(text: str) -> Lock:
    """Parse a lock file; an unreadable file still counts as a lock."""
    body, at, now = text.rstrip("\n").rsplit("\n", 2)
    try:
        found = json.loads(body)
        return Lock(str(found["owner"]), str(found["reason"]), int(at), int(now), str(found["token"]))
    except (ValueError, LookupError, TypeError):
        said = f"the lock file cannot be read: {body.strip()[:100]!r}"
        return Lock("somebody", said, int(at), int(now), "")


LOCK: Fact[Lock | None] = Fact("lock", verb("lock_show"), lambda t: _parse(t) if t.strip() else None)
