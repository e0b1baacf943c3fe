"""Alertmanager silences for hosts during planned work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.facts.machine import CLOCK
from fleet.inventory.hosts import Host
from fleet.lock import operator
from fleet.monitoring.role import ALERTMANAGER_PORT
from fleet.ssh.connection_pool import Session, connected
from fleet.ssh.verbs import Reply, http, reply

log = logging.getLogger("fleet")

_SECONDS = 30
LONGEST_SECONDS = 2 * 3600.0
"""A silence expires by itself after this time, in case the deploy dies."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Silence of an Alertmanager."""

    monitoring_host: str  # name of the monitoring host
    host: str  # host whose alerts are silenced
    id: str


class AlertmanagerSilencer:
    """Creates and expires silences on all hosts with the role monitoring.

    Failures are logged and never block a deploy: its alerts are then not silenced.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        connect: Callable[[Host], AbstractContextManager[Session]] = connected,
        *,
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        """`hosts`: all hosts of the inventory, not only those to be changed."""
        self._monitoring_hosts = [host for host in hosts if "monitoring" in host.roles]
        self._connect, self._longest = connect, longest_seconds
        self._told_no_monitoring = False

    @contextmanager
    def silenced(self, hosts: Sequence[str], reason: str) -> Iterator[tuple[Silence, ...]]:
        """Silence the alerts of these hosts for the duration of the block."""
        silences = self.begin(hosts, reason)
        try:
            yield silences
        finally:
            self.end(silences)

    def begin(self, hosts: Sequence[str], reason: str) -> tuple[Silence, ...]:
        """Silence the alerts of these hosts; failures are logged and left out of the result."""
        if not self._monitoring_hosts and not self._told_no_monitoring:
            log.info("alerts are not silenced: no host of the inventory has the role monitoring")
            self._told_no_monitoring = True
        return tuple(
            silence
            for monitoring_host in self._monitoring_hosts
            for silence in self._begin_on(monitoring_host, hosts, reason)
        )

    def end(self, silences: Sequence[Silence]) -> None:
        """Expire these silences; failures are logged, the silence then expires by itself."""
        for monitoring_host in self._monitoring_hosts:
            if mine := [each for each in silences if each.monitoring_host == monitoring_host.name]:
                self._end_on(monitoring_host, mine)

    def _begin_on(self, monitoring_host: Host, hosts: Sequence[str], reason: str) -> list[Silence]:
        made: list[Silence] = []
        try:
            with self._connect(monitoring_host) as session:
                now = CLOCK.read(session.run([CLOCK.command])[CLOCK.name])  # by the host's clock
                if not isinstance(now, float):
                    raise FleetError(f"its clock cannot be read: {now.reason}")
                for name in hosts:
                    silence = _make(session, name, reason, now, self._longest)
                    made.append(
                        Silence(monitoring_host.name, name, silence)
                    )  # immediately, so that it is expired later
        except FleetError as error:
            missed = ", ".join(name for name in hosts if name not in {each.host for each in made})
            log.warning("alerts of %s are not silenced on %s: %s", missed, monitoring_host.name, error)
        return made

    def _end_on(self, monitoring_host: Host, silences: Sequence[Silence]) -> None:
        left = {each.id: each.host for each in silences}
        try:
            with self._connect(monitoring_host) as session:
                for silence in silences:
                    _expire(session, silence.id)
                    del left[silence.id]
        except FleetError as error:
            log.warning(
                "alerts of %s stay silenced on %s for up to %.0f minutes: %s. To expire it there: docker exec "
                "voxyard-alertmanager-1 amtool --alertmanager.url=http://127.0.0.1:%d silence expire %s",
                ", ".join(left.values()),
                monitoring_host.name,
                self._longest / 60,
                error,
                ALERTMANAGER_PORT,
                " ".join(left),
            )


def _make(session: Session, name: str, reason: str, now: float, seconds: float) -> str:
    """Create a silence of all alerts of a host (label instance); returns its id."""
    begin = datetime.fromtimestamp(now, UTC)
    document = {
        "matchers": [{"name": "instance", "value": name, "isRegex": False, "isEqual": True}],
        "startsAt": begin.isoformat(timespec="milliseconds"),
        "endsAt": (begin + timedelta(seconds=seconds)).isoformat(timespec="milliseconds"),
        "createdBy": operator(),
        "comment": reason,
    }
    found = _ask(session, "POST", "/api/v2/silences", document)
    try:
        if found.good:
            return str(found.document()["silenceID"])
    except (ValueError, LookupError, TypeError):
        pass  # reported below
    raise FleetError(f"Alertmanager answered {found.status}, expected a silence id: {found.body.strip()[:300]}")


def _expire(session: Session, silence: str) -> None:
    found = _ask(session, "DELETE", f"/api/v2/silence/{silence}")
    if not found.good and found.status != 404:  # 404: already expired
        raise FleetError(f"Alertmanager answered {found.status} to expiring silence {silence}: {found.body[:300]}")


def _ask(session: Session, method: str, path: str, document: object = None) -> Reply:
    """Response of Alertmanager on the host's loopback. Raises HostFailedError where nothing answers."""
    command = http("silence", "127.0.0.1", ALERTMANAGER_PORT, path, method, document=document, seconds=_SECONDS)
    try:
        return reply(session.run([command])[command.name])
    except ValueError as error:
        raise HostFailedError(
            f"Alertmanager: {error}: check that the monitoring containers run: {fab()} status"
        ) from None
