"""Status of a host: its release, the health of its services, and drift from the release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleet.command_line import fab
from fleet.facts.machine import Container
from fleet.lock import Lock
from fleet.release.manifest import MANIFEST_FILE, Manifest, ServiceEntry
from fleet.rollout.host_state import HostState, read_current, read_state
from fleet.ssh.connection_pool import Session


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


def read_status(session: Session, host: str) -> Status:
    """Read the status of the host. Raises HostFailedError when the connection breaks, or Docker does not answer."""
    current, release = read_current(session)
    if current is None:
        return Status(None, problem="not deployed: make deploy")
    if release is None:
        return Status(current, problem=f"{MANIFEST_FILE} of release {current} cannot be read: deploy again")
    state = read_state(session, host, release)
    return Status(
        current=current,
        previous=state.previous,
        services=tuple(_services(release, state)),
        changed_files=state.changed_files,
        lock=state.lock,
    )


def _services(release: Manifest, state: HostState) -> Iterator[ServiceStatus]:
    for entry in release.services:
        container = state.container(entry.name)
        if container is None:
            yield ServiceStatus(entry.name, "", "no container", False, "", entry.address, entry.port)
            continue
        said = state.not_answering.get(entry.name)
        yield ServiceStatus(
            name=entry.name,
            release=container.release,
            state=f"{container.state}, {container.health or 'no health check'}",
            well=container.healthy and said is None,
            answers="up" if said is None else said,
            address=entry.address,
            port=entry.port,
            restarts=container.restarts,
            drift=tuple(_drift(entry, container, state)),
        )
    for name in release.withheld:
        container = state.container(name)
        ran, how = ("", "no container") if container is None else (container.release, container.description)
        yield ServiceStatus(name, ran, how, False, f"not in the release: the preflight blocked it ({fab()} check)")
    ours = {*(each.name for each in release.services), *release.withheld}
    for name in sorted({each.service for each in state.containers} - ours):
        yield ServiceStatus(name, "", "runs", False, "", drift=("not in the release",))


def _drift(entry: ServiceEntry, container: Container, state: HostState) -> Iterator[str]:
    if container.config != entry.config:
        yield f"configuration {container.config or 'unknown'}, expected {entry.config}"
    if container.image != entry.image:
        yield f"image {container.image}, expected {entry.image}"
    elif not any(container.image_id == image.id and entry.image in image.names for image in state.images):
        yield f"the tag {entry.image} now names another image"
    if entry.files is not None and state.loaded.get(entry.name) != entry.files.digest:
        yield "it does not work with the files of its release"
