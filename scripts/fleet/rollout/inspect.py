"""Survey of one host for a rollout: the preflight's findings, and the facts that its release depends on."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.checks.host_report import Surveyed, look
from fleet.checks.requirements import Needs
from fleet.errors import HostFailedError
from fleet.facts.fact import Fact, Unknown, known
from fleet.images.image import LocalImage
from fleet.inventory.hosts import Host
from fleet.lock import LOCK, Lock
from fleet.release.environment import Place
from fleet.ssh.connection_pool import Session


@dataclass(frozen=True, slots=True)
class Ground:
    """Facts about a host."""

    surveyed: Surveyed
    place: Place
    lock: Lock | None = None  # who changes it now: much is not as it should be then


def look_around(session: Session, host: Host, images: Mapping[str, LocalImage]) -> Ground:
    """Ask the host, which is to get `images`. Raises HostFailedError when the connection breaks."""
    surveyed = look(session, host, Needs(images=images, architecture=platform.machine()))
    answers = session.run([IDS.command, LOCK.command])
    ids, login = IDS.among(answers), surveyed.facts.login
    if isinstance(ids, Unknown):
        raise HostFailedError(f"{host.name}: its user is not known: {ids.why}")
    address = host.address if isinstance(login, Unknown) else login.address
    return Ground(surveyed, Place(address, *ids, surveyed.has_gpus), known(LOCK.among(answers), None))


def _ids(text: str) -> tuple[int, int]:
    user, group = text.split()
    return int(user), int(group)


IDS = Fact("ids", "id -u; id -g", _ids)
