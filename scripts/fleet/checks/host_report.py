"""Host reports, collected in parallel: facts, GPU assignment, preflight findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from fleet.checks import state
from fleet.checks.finding import Finding, acknowledged
from fleet.checks.gpu_start import with_gpu_start
from fleet.checks.preflight import preflight
from fleet.checks.ray_clusters import between, with_ray_reach
from fleet.checks.requirements import HostRequirements
from fleet.checks.shared_documents import across, with_shared_documents
from fleet.facts.fact import Unknown, known
from fleet.facts.host import HostFacts, collect
from fleet.inventory.hosts import Host
from fleet.release.gpu_assignment import Assignment, assign
from fleet.ssh.connection_pool import GroupResult, Session, connected, on_every_host


@dataclass(frozen=True, slots=True)
class HostReport:
    """Facts, GPU assignment and preflight findings of one host."""

    host: Host
    facts: HostFacts
    assignment: Assignment
    findings: tuple[Finding, ...]

    @property
    def address(self) -> str:
        """Listen address of the exporter: of the inventory, else the address of the SSH login."""
        if self.host.exporter_address is not None:
            return self.host.exporter_address
        return self.host.address if isinstance(self.facts.login, Unknown) else self.facts.login.address

    @property
    def memory_mib(self) -> int | Unknown:
        """Memory for the host's processes: all that its GPUs do not have of it."""
        total, gpus = self.facts.memory_mib, known(self.facts.gpus, ())
        return total if isinstance(total, Unknown) else total - sum(g.memory_total_mib or 0 for g in gpus if g.unified)

    @property
    def has_gpus(self) -> bool:
        """True where the host has GPUs and a container toolkit."""
        toolkit = not isinstance(self.facts.toolkit, Unknown) and self.facts.toolkit.present
        return toolkit and not isinstance(self.facts.gpus, Unknown) and bool(self.facts.gpus)


def report_host(session: Session, host: Host, requirements: HostRequirements) -> HostReport:
    """Report of one host over an open connection. Raises HostFailedError when it breaks."""
    facts = collect(session)
    assignment = assign(facts, host)
    facts = with_gpu_start(session, facts, assignment)
    facts = with_shared_documents(session, facts, host)
    facts = with_ray_reach(session, facts, host)
    return HostReport(host, facts, assignment, preflight(facts, host, requirements, assignment))


def collect_reports(
    hosts: Sequence[Host],
    requirements: HostRequirements,
    connect: Callable[[Host], AbstractContextManager[Session]] = connected,
) -> GroupResult[HostReport]:
    """Reports of all hosts, compared where they share documents, a cluster or a directory.

    Unreachable hosts, and those pending at a Ctrl-C, are among the failed.
    """

    def over_a_connection(host: Host) -> HostReport:
        with connect(host) as session:
            return report_host(session, host, requirements)

    result = on_every_host(hosts, over_a_connection, keep=True)
    facts = {name: each.facts for name, each in result.succeeded.items()}
    there = [host for host in hosts if host.name in facts]
    for name, found in (
        *across(there, facts).items(),
        *between(there, facts).items(),
        *state.across(there, facts).items(),
    ):
        report = result.succeeded[name]
        findings = acknowledged((*report.findings, *found), report.host)
        result = replace(result, succeeded={**result.succeeded, name: replace(report, findings=findings)})
    return result
