"""Status of a host: its release, the health of its services, and drift from the release."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.command_line import fab
from fleet.facts.fact import Fact, Unknown, known
from fleet.facts.machine import IMAGES, Container, HostImage, container_of
from fleet.lock import LOCK, Lock
from fleet.release import manifest
from fleet.release.manifest import Manifest, ServiceEntry
from fleet.rollout.host_state import CHANGED_FILES, CONTAINERS, CURRENT, LOADED, PREVIOUS, probes, problem
from fleet.rollout.prune import RELEASES
from fleet.ssh.command_batch import Answer
from fleet.ssh.connection_pool import Session

STALE = "it does not work with the files of its release"


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """Status of one service."""

    name: str
    release: str  # that created its container
    state: str
    well: bool  # runs, healthy, ready, exports metrics
    answers: str  # as text
    address: str = ""
    port: int = 0
    restarts: int = 0  # by the engine
    drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """Status of one host."""

    current: str | None  # last healthy release
    previous: str | None = None
    services: tuple[ServiceStatus, ...] = ()
    changed_files: tuple[str, ...] = ()  # release/file
    lock: Lock | None = None
    problem: str | None = None  # reason why the status is unknown

    @property
    def drift(self) -> tuple[str, ...]:
        """Differences from the current release."""
        files = (f"{name} was changed on the host" for name in self.changed_files)
        return (*files, *(f"{each.name}: {said}" for each in self.services for said in each.drift))

    @property
    def healthy(self) -> bool:
        """True where all services are healthy and nothing has drifted."""
        good = self.current is not None and self.problem is None and bool(self.services)
        return good and all(each.well for each in self.services) and not self.drift


def read_status(session: Session) -> Status:
    """Read the status of the host. Raises HostFailedError when the connection breaks."""
    facts: tuple[Fact[Any], ...] = (CURRENT, PREVIOUS, RELEASES, CHANGED_FILES, CONTAINERS, IMAGES, LOCK, LOADED)
    answers = session.run([fact.command for fact in facts])
    if isinstance(containers := CONTAINERS.among(answers), Unknown):
        return Status(None, problem=f"docker does not answer: {containers.reason}")
    current = known(CURRENT.among(answers), None)
    if current is None:
        return Status(None, problem="not deployed: make deploy")
    releases = known(RELEASES.among(answers), {})
    release = releases.get(current)
    if release is None:
        said = f"{manifest.MANIFEST_FILE} of release {current} cannot be read: deploy again"
        return Status(current, problem=said)
    asked = [command for each in release.services for command in probes(each)]
    loaded = known(LOADED.among(answers), {})
    stale = {each.name for each in release.services if each.files and loaded.get(each.name) != each.files.digest}
    more = session.run(asked)
    return Status(
        current=current,
        previous=known(PREVIOUS.among(answers), None),
        services=tuple(_services(release, containers, known(IMAGES.among(answers), ()), more, stale)),
        changed_files=known(CHANGED_FILES.among(answers), ()),
        lock=known(LOCK.among(answers), None),
    )


def _services(
    release: Manifest,
    containers: tuple[Container, ...],
    images: tuple[HostImage, ...],
    answers: Mapping[str, Answer],
    stale: Collection[str],
) -> Iterator[ServiceStatus]:
    for entry in release.services:
        container = container_of(containers, entry.name)
        if container is None:
            yield ServiceStatus(entry.name, "", "no container", False, "", entry.address, entry.port)
            continue
        said = problem(entry, answers)
        yield ServiceStatus(
            name=entry.name,
            release=container.release,
            state=f"{container.state}, {container.health or 'no health check'}",
            well=container.healthy and said is None,
            answers="up" if said is None else said,
            address=entry.address,
            port=entry.port,
            restarts=container.restarts,
            drift=(*_drift(entry, container, images), *([STALE] if entry.name in stale else [])),
        )
    for name in release.withheld:
        container = container_of(containers, name)
        state = "no container" if container is None else container.description
        said = f"not in the release: the preflight blocked it ({fab()} check)"
        yield ServiceStatus(name, "" if container is None else container.release, state, False, said)
    ours = {*(each.name for each in release.services), *release.withheld}
    for name in sorted({each.service for each in containers} - ours):
        yield ServiceStatus(name, "", "runs", False, "", drift=("not in the release",))


def _drift(entry: ServiceEntry, container: Container, images: tuple[HostImage, ...]) -> Iterator[str]:
    if container.config != entry.config:
        yield f"configuration {container.config or 'unknown'}, expected {entry.config}"
    if container.image != entry.image:
        yield f"image {container.image}, expected {entry.image}"
    elif not any(container.image_id == image.id and entry.image in image.names for image in images):
        yield f"the tag {entry.image} now names another image"
