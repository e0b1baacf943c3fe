"""Change plan of a host: the difference between its state and a release, to deploy or to go back to."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fleet.audit import LAST_CHANGE, AuditEntry
from fleet.errors import HostFailedError
from fleet.facts.fact import known
from fleet.facts.machine import Container, HostImage
from fleet.images.image import LocalImage
from fleet.release import manifest
from fleet.release.artefact import Artefact
from fleet.release.diff import file_diff, limit_changes
from fleet.release.manifest import Manifest, ServiceEntry, manifest_of
from fleet.release.release import Release
from fleet.rollout.host_state import (
    CURRENT,
    HANDED_OVER,
    PREVIOUS,
    HostState,
    read_state,
)
from fleet.ssh.command_batch import host_verb
from fleet.ssh.connection_pool import Session

log = logging.getLogger("fleet")
STOP_SECONDS = 60  # for a service that no release names


@dataclass(frozen=True, slots=True)
class ImageTransfer:
    """Transfer of an image, and the number of its lower layers that the host has."""

    image: LocalImage
    layers_present: int

    def __str__(self) -> str:
        if self.image.digest is not None:
            return f"pull image {self.image.digest}"
        there = f", {self.layers_present} of {len(self.image.layers)} layers present" if self.layers_present else ""
        return f"send image {self.image.release_tag} ({megabytes(self.image.size_bytes)}{there})"


@dataclass(frozen=True, slots=True)
class ServiceStart:
    """Start of a service in a new container, wait for a starting one, or reload of changed files, with the reason."""

    service: ServiceEntry
    reason: str
    kind: Literal["start", "wait for", "reload"] = "start"

    def __str__(self) -> str:
        return f"{self.kind} {self.service.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """Changes of a deploy or a rollback on one host."""

    release: Release | None  # None: rollback, only the manifest is known
    manifest: Manifest
    current: str | None
    current_manifest: Manifest | None
    image_transfers: tuple[ImageTransfer, ...] = ()
    artefacts: tuple[Artefact, ...] = ()
    write_files: bool = False
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # missing or changed ones, by file name
    starts: tuple[ServiceStart, ...] = ()
    removals: tuple[ServiceEntry, ...] = ()  # services that the release no longer has
    publish: bool = False  # update current, previous and state/expected.json
    diff: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """True where the host needs no change."""
        return not (
            self.image_transfers
            or self.artefacts
            or self.write_files
            or self.secrets
            or self.starts
            or self.removals
            or self.publish
        )

    @property
    def touches_services(self) -> bool:
        """True where services are stopped or started, or waited for."""
        return bool(self.removals) or any(each.kind != "reload" for each in self.starts)

    def lines(self) -> tuple[str, ...]:
        """Changes as text, one line per step."""
        kept = tuple(f"leave {name} as it is: the preflight blocks it" for name in self.manifest.withheld)
        if self.nothing:
            return (f"nothing to do: release {self.manifest.id} runs", *kept)
        return (*self._lines(), *kept)

    def _lines(self) -> Iterator[str]:
        yield from map(str, self.image_transfers)
        for artefact in self.artefacts:
            yield f"send {artefact.name} ({megabytes(artefact.size_bytes)})"
        if self.write_files and self.release is not None:
            yield f"write release {self.release.id}: {', '.join(name for name, _ in self.release.files)}"
        if self.secrets:
            yield f"write secrets: {', '.join(self.secrets)}"  # names only
        yield from self.limits
        for entry in self.removals:
            yield f"stop {entry.name}: not in the release"
        yield from map(str, self.starts)
        if self.publish:
            yield f"make {self.manifest.id} the current release, after {self.current or 'none'}"


def plan_change(release: Release, state: HostState) -> ChangePlan:
    """Plan the change to `release`."""
    wanted, current = manifest_of(release), state.manifest
    return ChangePlan(
        release=release,
        manifest=wanted,
        current=state.current,
        current_manifest=current,
        image_transfers=tuple(_image_transfers(release, state)),
        artefacts=tuple(each for each in release.artefacts if each.name not in state.artefacts),
        write_files=dict(state.checksums) != dict(release.checksums),
        secrets={name: value for name, value in release.secrets.items() if not _has(state, name, value)},
        starts=starts(wanted, state),
        removals=tuple(removals(wanted, state)),
        publish=state.current != release.id or state.expected != wanted.expected.strip(),
        diff=file_diff(state.files, dict(release.files)) if state.files and state.current != release.id else (),
        limits=limit_changes(current, wanted),
    )


def starts(wanted: Manifest, state: HostState) -> tuple[ServiceStart, ...]:
    """Services that do not run as the release defines."""
    found = []
    for service in wanted.services:
        container = state.container(service.name)
        stale = service.files is not None and state.loaded.get(service.name) != service.files.digest
        reason = _start_reason(service, container, state, stale=stale)
        untried = container is not None and container.release == wanted.id and _never_verified(wanted, state)
        if reason is not None:
            found.append(ServiceStart(service, reason))
        elif container is not None and untried and container.restarts:
            found.append(ServiceStart(service, f"its container was restarted {container.restarts} times"))
        elif container is not None and container.starting:
            found.append(ServiceStart(service, "starting", "wait for"))
        elif untried and not stale:
            found.append(ServiceStart(service, "its health was not verified yet", "wait for"))
        elif stale:
            found.append(ServiceStart(service, "other files than it works with", "reload"))
    return tuple(found)


def removals(wanted: Manifest, state: HostState) -> Iterator[ServiceEntry]:
    """Services that have a container but are not in the release; those kept from it by the preflight stay."""
    for name in dict.fromkeys(each.service for each in state.containers):
        if name and wanted.service(name) is None and name not in wanted.withheld:
            known = None if state.manifest is None else state.manifest.service(name)
            yield known or ServiceEntry(name, "", "", "", 0, "", STOP_SECONDS, 0, {})


def layers_present(image: LocalImage, images: Iterable[HostImage]) -> int:
    """Number of lower layers of the image that a host with `images` has."""
    return max((_common(each.layers, image.layers) for each in images), default=0)


def megabytes(count: int) -> str:
    """Bytes as text in MB or GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1_000_000_000 else f"{count / 1e6:.0f} MB"


def _start_reason(service: ServiceEntry, container: Container | None, state: HostState, *, stale: bool) -> str | None:
    """Reason to recreate the container of a service; None where it is not needed.

    `stale`: its files are to be reloaded, after which it must answer.
    """
    if container is None:
        return "no container"
    if container.config != service.config:
        return f"configuration {container.config or 'unknown'}, expected {service.config}"
    if container.image != service.image:
        return f"image {container.image}, expected {service.image}"
    own = f"{container.release}/{service.name}/"  # of these it has a copy
    mounted = [each for each in state.changed_files if each.startswith(f"{container.release}/")]
    if touched := [each for each in mounted if not each.startswith(own)]:
        return f"files changed on the host: {', '.join(touched)}"
    if container.starting:
        return None
    if not container.healthy:
        return container.description
    return None if stale else state.not_answering.get(service.name)


def _never_verified(wanted: Manifest, state: HostState) -> bool:
    """True where the release may be from a deploy that was interrupted in the health gate."""
    return wanted.id not in (state.current, state.previous)


def _image_transfers(release: Release, state: HostState) -> Iterator[ImageTransfer]:
    for image in release.images:
        there = state.image(image.reference)
        if there is None or not image.has_layers(there.layers):
            yield ImageTransfer(image, layers_present(image, state.images))


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Number of common lower layers."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def _has(state: HostState, name: str, value: bytes) -> bool:
    mode, checksum = state.secrets.get(name, ("", ""))
    return mode == "600" and checksum in (HANDED_OVER, hashlib.sha256(value).hexdigest())


def plan_rollback(session: Session, host: str, release: str | None) -> ChangePlan:
    """Plan a rollback to `release`; without it, the last deploy is undone. Changes nothing.

    A deploy that became the current release is undone by the previous release. One that was interrupted or failed is
    undone by the current release, which it has not replaced. Raises HostFailedError where the release, or a part of
    it, is missing on the host.
    """
    wanted = _manifest(session, host, release or _before_the_last_deploy(session, host))
    state = read_state(session, host, wanted)
    if missing := _missing(wanted, state):
        raise HostFailedError(
            f"{host}: parts of release {wanted.id} are missing: {', '.join(missing)}: "
            "deploy it again from its original commit and inventory"
        )
    return ChangePlan(
        release=None,
        manifest=wanted,
        current=state.current,
        current_manifest=state.manifest,
        starts=starts(wanted, state),
        removals=tuple(removals(wanted, state)),
        publish=state.current != wanted.id or state.expected != wanted.expected.strip(),
        limits=limit_changes(state.manifest, wanted),
    )


def _before_the_last_deploy(session: Session, host: str) -> str:
    answers = session.run([PREVIOUS.command, CURRENT.command, LAST_CHANGE.command])
    previous = known(PREVIOUS.among(answers), None)
    current, last = known(CURRENT.among(answers), None), known(LAST_CHANGE.among(answers), None)
    if current is not None and last is not None and _is_unfinished(session, host, current, last):
        log.info(
            "%s: the last deploy%s did not become current: going back to %s, which is%s", host,
            f", of release {last.after}," if last.what == "deploy" else "", current,
            "" if previous is None else f" (--release {previous} goes to the one before)",
        )  # fmt: skip
        return current
    if previous is None:
        raise HostFailedError(f"{host} has no previous release: name one with --release")
    return previous


def _is_unfinished(session: Session, host: str, current: str, last: AuditEntry) -> bool:
    """True where the last change is a deploy that has not replaced the release `current`."""
    if last.what == "deploy":
        return last.result != "ok" and last.before == current != last.after
    if last.what != "unlock" or not last.note.endswith("(deploy)"):
        return False
    wanted = _manifest(session, host, current)  # a deploy that left its lock may have ended before or after it
    return bool(starts(wanted, read_state(session, host, wanted)))


def _manifest(session: Session, host: str, release: str) -> Manifest:
    read, whole = host_verb("release_file", release, manifest.MANIFEST_FILE), host_verb("release_whole", release)
    there = host_verb("release_names")
    answers = session.run([read, whole, there])
    if not answers[read.name].ok:
        names = ", ".join(answers[there.name].out.split()) or "none"
        raise HostFailedError(f"{host} has no release {release}: expected one of {names}")
    if not answers[whole.name].ok:
        raise HostFailedError(
            f"{host}: release {release} has changed files: {answers[whole.name].message}: deploy it again"
        )
    return manifest.parse(answers[read.name].out)


def _missing(wanted: Manifest, state: HostState) -> list[str]:
    services = {each.image for each in wanted.services}
    images = [f"image {name}" for name in wanted.images if state.image(name) is None and name in services]
    secrets = [f"secret {name}" for name in wanted.secrets if name not in state.secrets]
    return images + [name for name in wanted.artefacts if name not in state.artefacts] + secrets
