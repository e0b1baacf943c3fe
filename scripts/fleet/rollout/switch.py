"""The services of one host are made to run as a release says: stopped, started, judged; or as they were before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fleet.batch import Answer, Command
from fleet.errors import FleetError, HostFailedError
from fleet.release.manifest import Manifest, ServiceEntry
from fleet.release.release import ENVIRONMENT_FILE
from fleet.remote import Session
from fleet.rollout import commands
from fleet.rollout.change import Start
from fleet.rollout.gate import Clock, pass_gate

log = logging.getLogger("fleet")


def _go_on() -> None:
    """What is called before a step where nobody wants to stop."""


@dataclass(slots=True)
class Switch:
    """The services of one host on the way to a release; it knows which it has touched."""

    host: str
    session: Session
    clock: Clock = field(default_factory=Clock)
    check: Callable[[], None] = _go_on  # before each step; may raise to stop
    touched: dict[str, ServiceEntry] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)  # what was verified, in words
    secrets: tuple[str, ...] = ()  # names of those that may have been replaced

    def carry_out(self, release: Manifest, starts: Iterable[Start], removals: Iterable[ServiceEntry]) -> None:
        """Stop what the release has no more, then each service in its order: stop, start, gate.

        Two copies of a service do not fit into the memory of a GPU, so the old one ends first. Raises
        HostFailedError at the first that is not well.
        """
        for entry in removals:
            self._stop(entry, remove=True)
        for each in starts:
            if each.wait_only:
                log.info("%s: waiting for %s", self.host, each.service.name)
            else:
                self._stop(each.service)
                self._start(release, each.service)
            self._gate(each.service)

    def back_to(self, before: Manifest | None) -> str:
        """Make what was touched run as the release `before` says, from what is on the host; in words, how that ended.

        Without one, what was started is taken away.
        """
        if not self.touched:
            return "nothing that runs was touched"
        try:
            self._back_to(before)
        except FleetError as error:
            return f"going back failed too: {error}"
        if before is None:
            return "what was started is taken away again: there was no release before"
        return f"rolled back to release {before.id}"

    def _back_to(self, before: Manifest | None) -> None:
        if self.secrets:
            self._must("put back its secrets", commands.restore_secrets(self.secrets))
        touched = list(self.touched.values())
        for entry in reversed(touched):
            if before is None or before.service(entry.name) is None:
                self._stop(entry, remove=True)
        if before is None:
            return
        for service in [each for each in before.services if each.name in self.touched]:
            log.info("%s: going back to %s of release %s", self.host, service.name, before.id)
            self._stop(service)
            self._start(before, service)
            self._gate(service)

    def _stop(self, service: ServiceEntry, *, remove: bool = False) -> None:
        self.check()
        log.info("%s: stopping %s (it has %d s)", self.host, service.name, service.stop_seconds)
        self.touched.setdefault(service.name, service)
        self._must(f"stop {service.name}", commands.stop(service.name, service.stop_seconds, remove=remove))

    def _start(self, release: Manifest, service: ServiceEntry) -> None:
        self.check()
        log.info("%s: starting %s", self.host, service.name)
        command = commands.start(release.id, release.compose_files, ENVIRONMENT_FILE, service.name)
        self._must(f"start {service.name}", command)

    def _gate(self, service: ServiceEntry) -> None:
        self.check()
        log.info("%s: waiting until %s is well (at most %d s)", self.host, service.name, service.healthy_seconds)
        verified = pass_gate(self.host, self.session, service, self.clock)
        for line in verified:
            log.info("%s: %s: %s", self.host, service.name, line)
        self.limits += [f"{service.name}: {line}" for line in verified]

    def _must(self, what: str, command: Command) -> Answer:
        answer = self.session.run([command])[command.name]
        if not answer.ok:
            raise HostFailedError(f"{self.host} could not {what}: {answer.said}")
        return answer
