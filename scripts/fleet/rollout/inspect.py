"""Inspects one host for a rollout: preflight report, login data, lock."""

from __future__ import annotations

import platform
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
    requirements = HostRequirements(images=images, cuda=cuda, architecture=platform.machine())
    host_report = report_host(session, host, requirements)
    answers = session.run([IDS.command, LOCK.command])
    ids, login = IDS.among(answers), host_report.facts.login
    if isinstance(ids, Unknown):
        raise HostFailedError(f"{host.name}: user and group id cannot be read: {ids.reason}")
    address = host.address if isinstance(login, Unknown) else login.address
    return HostSnapshot(host_report, LoginInfo(address, *ids, host_report.has_gpus), known(LOCK.among(answers), None))


def _ids(text: str) -> tuple[int, int]:
    user, group = text.split()
    return int(user), int(group)


IDS = Fact("ids", "id -u; id -g", _ids)
