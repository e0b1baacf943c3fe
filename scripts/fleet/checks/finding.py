"""Finding of a check: severity, check, observation, fix, and the services it concerns."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from fleet.images.third_party import GATEWAY, MONITORING, NODE_EXPORTER
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import HEAD, WORKER

Level = Literal["FAIL", "WARN", "INFO"]

EXPORTER, BARK, TRAINER = "exporter", "bark", "trainer"
ALL_SERVICES = (EXPORTER, NODE_EXPORTER, BARK, TRAINER, GATEWAY, HEAD, WORKER, *MONITORING)
ON_GPUS = (BARK, TRAINER, WORKER)
"""Services that compute on GPUs. The exporter only reads them: it must also run where they are faulty."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of the preflight; acknowledged warnings stay in the list, marked."""

    level: Level
    check: str
    found: str
    remedy: str
    acknowledged: bool = False
    services: tuple[str, ...] = ALL_SERVICES  # services that a failure blocks; these all: the operator's own, too
    steps: tuple[str, ...] = ()  # shell commands of root that mend it on Debian and Ubuntu


def package(names: str) -> str:
    """Step that installs Debian packages; it waits for the updates that a new machine makes by itself."""
    return f"apt-get -o DPkg::Lock::Timeout=600 install --yes {names}"


def acknowledged(findings: Iterable[Finding], host: Host) -> tuple[Finding, ...]:
    """Findings, worst first, with warnings that the inventory acknowledges marked; failures cannot be acknowledged."""
    order = ("FAIL", "WARN", "INFO")
    marked = [replace(each, acknowledged=each.level == "WARN" and each.check in host.acknowledged) for each in findings]
    return tuple(sorted(marked, key=lambda each: order.index(each.level)))


def failures(
    findings: Iterable[Finding], *, strict: bool = False, services: Collection[str] = ALL_SERVICES
) -> tuple[Finding, ...]:
    """Findings that block any of `services`; `strict` includes unacknowledged warnings."""
    return tuple(
        each
        for each in findings
        if (each.level == "FAIL" or (strict and each.level == "WARN" and not each.acknowledged))
        and (each.services == ALL_SERVICES or not set(services).isdisjoint(each.services))
    )
