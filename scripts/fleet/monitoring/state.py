"""State of monitoring on a host, and its planned changes; changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import Fact, Unknown
from fleet.monitoring import commands
from fleet.monitoring.release import RELOADED, MonitoringImage, MonitoringManifest, MonitoringRelease, parse
from fleet.rollout.change_plan import ImageTransfer, layers_present
from fleet.rollout.host_state import CONTAINERS, IMAGES, SECRETS, HostImage, ServiceContainer
from fleet.ssh.connection_pool import Session


@dataclass(frozen=True, slots=True)
class ContainerUser:
    """User and group of the containers."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class MonitoringState:
    """State of a monitoring host."""

    live: str | None  # release whose files the programs read
    current: str | None  # last healthy release
    manifest: MonitoringManifest | None  # of the current release
    whole: bool  # the files of the planned release are unchanged
    checksums: Mapping[str, str]  # of the current release's files, by name
    images: tuple[HostImage, ...]
    secrets: Mapping[str, tuple[str, str]]  # mode and SHA-256, by name
    containers: tuple[ServiceContainer, ...]

    def container(self, program: str) -> ServiceContainer | None:
        """Container of the program; the running one of several."""
        found = [each for each in self.containers if each.service == program]
        return min(found, key=lambda each: each.state != "running", default=None)


@dataclass(frozen=True, slots=True)
class MonitoringChange:
    """Changes of a monitoring deployment on one host."""

    release: MonitoringRelease
    current: str | None
    before: MonitoringManifest | None  # of the current release
    image_transfers: tuple[ImageTransfer, ...] = ()
    pulls: tuple[MonitoringImage, ...] = ()
    write: bool = False
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # missing or changed ones
    starts: Mapping[str, str] = field(default_factory=dict)  # programs with a new container, with the reason
    reloads: tuple[str, ...] = ()
    removals: tuple[str, ...] = ()
    publish: bool = False
    files: tuple[str, ...] = ()  # changed files, as text

    @property
    def nothing(self) -> bool:
        """True where the host needs no change."""
        steps = (self.image_transfers, self.pulls, self.write, self.secrets, self.starts, self.removals, self.publish)
        return not any(steps)

    def lines(self) -> tuple[str, ...]:
        """Changes as text, one line per step."""
        if self.nothing:
            return (f"nothing to do: monitoring {self.release.id} runs",)
        return tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from map(str, self.image_transfers)
        yield from (f"pull image {each.reference}" for each in self.pulls)
        if self.write:
            yield f"write monitoring {self.release.id}"
        yield from self.files
        if self.secrets:
            yield f"write secrets: {', '.join(self.secrets)}"  # names only
        yield from (f"stop {name}: not in the release" for name in self.removals)
        yield from (f"start {name}: {reason}" for name, reason in self.starts.items())
        yield from (f"reload {name}" for name in self.reloads)
        if self.publish:
            yield f"make {self.release.id} the current one, after {self.current or 'none'}"


def read_container_user(session: Session, host: str) -> ContainerUser:
    """User and group of the login. Raises HostFailedError, also for root."""
    found = _IDENTITY.among(session.run([_IDENTITY.command]))
    if isinstance(found, Unknown):
        raise HostFailedError(f"{host}: user and group id cannot be read: {found.reason}")
    if found.uid == 0:
        raise HostFailedError(
            f"{host}: the login is root, and containers run as the login: create a user in the group "
            "docker, and name it as `user` in the inventory"
        )
    return found


def read_state(session: Session, host: str, release: str) -> MonitoringState:
    """Read the state of the host, compared with the planned release. Raises HostFailedError."""
    changed = Fact("changed", commands.changed(release).text, lambda text: text.split())
    facts: tuple[Fact[Any], ...] = (_LIVE, _CURRENT, _MANIFEST, _CHECKSUMS, changed, IMAGES, SECRETS, _PROGRAMS)
    answers = session.run([fact.command for fact in facts])
    found: dict[str, Any] = {fact.name: fact.among(answers) for fact in facts}
    for name, value in found.items():
        if isinstance(value, Unknown):
            raise HostFailedError(f"{host}: its {name} cannot be read: {value.reason}")
    return MonitoringState(
        live=found[_LIVE.name],
        current=found[_CURRENT.name],
        manifest=found[_MANIFEST.name],
        whole=not found[changed.name],
        checksums=found[_CHECKSUMS.name],
        images=found[IMAGES.name],
        secrets=found[SECRETS.name],
        containers=found[_PROGRAMS.name],
    )


def read_manifest(session: Session, release: str) -> MonitoringManifest | None:
    """Manifest of a release on the host; None where it is missing or invalid."""
    command = commands.manifest(release)
    try:
        return parse(session.run([command])[command.name].out)
    except HostFailedError:
        raise
    except FleetError:
        return None


def read_containers(session: Session, host: str) -> tuple[ServiceContainer, ...]:
    """Monitoring containers. Raises HostFailedError."""
    found = _PROGRAMS.among(session.run([_PROGRAMS.command]))
    if isinstance(found, Unknown):
        raise HostFailedError(f"{host}: its containers cannot be read: {found.reason}")
    return found


def plan_change(release: MonitoringRelease, state: MonitoringState) -> MonitoringChange:
    """Plan the change to `release`."""
    names = {each.name for each in release.manifest.programs}
    starts = {
        each.name: reason for each in release.manifest.programs if (reason := _start_reason(release, each.name, state))
    }
    publish = not (state.live == state.current == release.id)
    return MonitoringChange(
        release=release,
        current=state.current,
        before=state.manifest,
        image_transfers=tuple(_image_transfers(release, state)),
        pulls=tuple(
            each for each in release.program_images if each.local is None and not _named(each.reference, state.images)
        ),
        write=not state.whole,
        secrets={name: value for name, value in release.secrets.items() if not _has(state, name, value)},
        starts=starts,
        reloads=tuple(_reloads(release, state, starts)),
        removals=tuple(dict.fromkeys(each.service for each in state.containers if each.service not in names)),
        publish=publish,
        files=tuple(_files(release, state)) if state.current != release.id else (),
    )


def _start_reason(release: MonitoringRelease, name: str, state: MonitoringState) -> str | None:
    wanted, container = release.manifest.program(name), state.container(name)
    if container is None or wanted is None:
        return "no container"
    if container.config != wanted.config:
        return f"configuration {container.config or 'unknown'}, expected {wanted.config}"
    if container.starting or (container.state == "running" and container.health in ("healthy", None)):
        return None
    return container.description


def _reloads(release: MonitoringRelease, state: MonitoringState, starts: Mapping[str, str]) -> Iterator[str]:
    """Programs to reload: those with changed files, or all after an interrupted deploy."""
    touched = state.live == release.id and not state.whole  # files in use were changed
    cut = state.live != state.current  # interrupted deploy
    for name in RELOADED:
        wanted = release.manifest.program(name)
        before = state.manifest.program(name) if state.manifest else None
        differs = before is None or wanted is None or before.files != wanted.files
        if wanted is not None and name not in starts and (touched or cut or differs):
            yield name


def _image_transfers(release: MonitoringRelease, state: MonitoringState) -> Iterator[ImageTransfer]:
    for program_image in release.program_images:
        image = program_image.local
        there = _named(program_image.reference, state.images)
        if image is not None and (there is None or there.layers != image.layers):
            yield ImageTransfer(image, layers_present(image, state.images))


def _named(reference: str, images: tuple[HostImage, ...]) -> HostImage | None:
    return next((each for each in images if reference in each.names), None)


def _has(state: MonitoringState, name: str, value: bytes) -> bool:
    return state.secrets.get(name) == ("600", hashlib.sha256(value).hexdigest())


def _files(release: MonitoringRelease, state: MonitoringState) -> Iterator[str]:
    """Changed files, without release.json and the environment file, which always change."""
    wanted, there = release.checksums, state.checksums
    for name in sorted({*wanted, *there}):
        if name in there and name not in wanted:
            yield f"  remove {name}"
        elif name not in there and there:
            yield f"  add {name}"
        elif there and there[name] != wanted[name] and not name.endswith((".env", "release.json")):
            yield f"  change {name}"


def _container_user(text: str) -> ContainerUser:
    uid, gid = text.split()
    return ContainerUser(int(uid), int(gid))


def _name(text: str) -> str | None:
    return text.strip().rpartition("/")[2] or None


def _manifest(text: str) -> MonitoringManifest | None:
    try:
        return parse(text) if text.strip() else None
    except FleetError:
        return None  # of another version: treated as missing


def _sums(text: str) -> Mapping[str, str]:
    rows = (line.partition("  ") for line in text.splitlines())
    return {name: checksum for checksum, _, name in rows}


_IDENTITY = Fact("identity", commands.identity().text, _container_user)
_LIVE = Fact("live", commands.link("live").text, _name)
_CURRENT = Fact("current", commands.link("current").text, _name)
_MANIFEST = Fact("manifest", commands.manifest("current").text, _manifest)
_CHECKSUMS = Fact("checksums", commands.checksums("current").text, _sums)
_PROGRAMS = Fact("programs", commands.programs().text, CONTAINERS.parse)
