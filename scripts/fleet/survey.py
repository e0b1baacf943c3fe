"""All hosts looked at side by side: facts, what they are to run, and what speaks against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.assignment import Assignment, assign
from fleet.fact import Unknown
from fleet.facts import HostFacts, collect
from fleet.finding import Finding
from fleet.inventory import Host
from fleet.preflight import Needs, preflight
from fleet.remote import GroupResult, connected, on_every_host


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One host, what is known of it, and the judgement."""

    host: Host
    facts: HostFacts
    assignment: Assignment
    findings: tuple[Finding, ...]

    @property
    def address(self) -> str:
        """Where its exporter listens: as the inventory says, else the address that the login reached."""
        if self.host.exporter_address is not None:
            return self.host.exporter_address
        return self.host.address if isinstance(self.facts.login, Unknown) else self.facts.login.address

    @property
    def has_gpus(self) -> bool:
        """Whether there is a GPU to reserve."""
        return not isinstance(self.facts.gpus, Unknown) and bool(self.facts.gpus)


def survey(hosts: Sequence[Host], needs: Needs) -> GroupResult[Surveyed]:
    """Look at every host; one that cannot be reached stands among the failed."""

    def look(host: Host) -> Surveyed:
        with connected(host) as session:
            facts = collect(session)
        assignment = assign(facts, host)
        return Surveyed(host, facts, assignment, preflight(facts, host, needs, assignment))

    return on_every_host(hosts, look)
