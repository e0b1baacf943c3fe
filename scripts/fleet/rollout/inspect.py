"""Inspects one host for a rollout: preflight report, login data, lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleet.checks.host_report import HostReport, report_host
from fleet.checks.requirements import HostRequirements
from fleet.errors import HostFailedError
from fleet.facts.fact import Fact, Unknown, known
from fleet.images.cuda import CudaNeed
from fleet.images.image import LocalImage
from fleet.inventory.hosts import Host
from fleet.lock import LOCK, Lock
from fleet.release.environment import LoginInfo
from fleet.ssh.connection_pool import Session


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
    answers = session.run([MEMORY.command, LOCK.command])
    memory, login = MEMORY.among(answers), host_report.facts.login
    if isinstance(memory, Unknown):
        raise HostFailedError(f"{host.name}: its memory cannot be read: {memory.reason}")
    address = host.address if isinstance(login, Unknown) else login.address
    return HostSnapshot(host_report, LoginInfo(address, host_report.has_gpus, memory), known(LOCK.among(answers), None))


def _memory(text: str) -> int:
    (kib,) = [line.split()[1] for line in text.splitlines() if line.startswith("MemTotal:")]
    return int(kib) // 1024


MEMORY = Fact("memory", "cat /proc/meminfo", _memory)  # MiB
