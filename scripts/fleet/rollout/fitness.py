"""Fitness of hosts for a release, as inspected: who cannot get one, and what the preflight keeps from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.checks.finding import BARK, EXPORTER, ON_GPUS, TRAINER, Finding, failures
from fleet.checks.host_report import HostReport, report_host
from fleet.checks.requirements import HostRequirements
from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import Unknown, known
from fleet.images.cuda import CudaNeed
from fleet.images.image import LocalImage
from fleet.images.third_party import GATEWAY, MONITORING, NODE_EXPORTER
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import HEAD, WORKER
from fleet.lock import LOCK, Lock, refusal
from fleet.release.environment import LoginInfo
from fleet.ssh.connection_pool import GroupResult, Session


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """Preflight report, login data and lock of one host."""

    host_report: HostReport
    login_info: LoginInfo
    lock: Lock | None = None  # held by a running rollout


def inspect_host(
    session: Session, host: Host, images: Mapping[str, LocalImage], cuda: Mapping[str, CudaNeed]
) -> HostSnapshot:
    """Inspect the host, which needs `images`; `cuda`: CUDA requirements by role. Raises HostFailedError."""
    requirements = HostRequirements(images=images, cuda=cuda)
    host_report = report_host(session, host, requirements)
    answers = session.run([LOCK.command])
    memory, login = host_report.memory_mib, host_report.facts.login
    if isinstance(memory, Unknown):
        raise HostFailedError(f"{host.name}: its memory cannot be read: {memory.reason}")
    address = host.address if isinstance(login, Unknown) else login.address
    return HostSnapshot(host_report, LoginInfo(address, host_report.has_gpus, memory), known(LOCK.among(answers), None))


PREFLIGHT = "preflight failed"


def refuse_locked(snapshots: Mapping[str, HostSnapshot]) -> None:
    """Raises HostFailedError where a host is locked."""
    if locks := locked_hosts(snapshots):
        raise HostFailedError("\n".join([*map(str, locks.values()), "nothing was changed"]))


def locked_hosts(snapshots: Mapping[str, HostSnapshot]) -> dict[str, FleetError]:
    """Hosts that are locked, with the message that names the owner."""
    locks = {name: each.lock for name, each in snapshots.items()}
    return {name: HostFailedError(refusal(name, lock)) for name, lock in locks.items() if lock is not None}


def unfit_hosts(hosts: Sequence[Host], snapshots: GroupResult[HostSnapshot]) -> dict[str, FleetError]:
    """Hosts that cannot get a release, with the reason: unreachable, or all services are blocked by the preflight."""
    unfit = dict(snapshots.failed)
    for host in hosts:
        if host.name not in unfit:
            kept = withheld_services(host, snapshots.succeeded[host.name].host_report.findings)
            if set(_deployable(host)) - {NODE_EXPORTER} <= set(kept):
                reasons = "; ".join(dict.fromkeys(kept.values()))
                unfit[host.name] = HostFailedError(f"{PREFLIGHT}: {reasons}")
    return unfit


def withheld_services(host: Host, findings: Iterable[Finding]) -> dict[str, str]:
    """Services of the host that must not get a release, with the failures and their fixes as text."""
    found = tuple(findings)
    blocking = {name: failures(found, services=[name]) for name in _deployable(host)}
    of_gpus = tuple(each for each in failures(found, services=ON_GPUS) if set(ON_GPUS) <= set(each.services))
    blocking |= {name: of_gpus for name, each in host.own_services.items() if each.gpus and not blocking[name]}
    return {
        name: "; ".join(f"{each.check}: {each.found}: {each.remedy}" for each in those)
        for name, those in blocking.items()
        if those
    }


def without(host: Host, services: Iterable[str]) -> Host:
    """The host without the roles of these services."""
    left = set(services)
    return replace(host, roles=tuple(role for role in host.roles if role not in left))


def _deployable(host: Host) -> tuple[str, ...]:
    """Services that a release of the host may have."""
    node_exporter = (NODE_EXPORTER,) if host.node_exporter else ()
    monitoring = MONITORING if "monitoring" in host.roles else ()
    return (
        EXPORTER,
        *node_exporter,
        *(role for role in (HEAD, WORKER, BARK, TRAINER, GATEWAY) if role in host.roles),
        *monitoring,
        *host.own_services,
    )
