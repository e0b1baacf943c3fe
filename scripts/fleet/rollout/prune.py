"""Prunes old releases, and images, artefacts and secrets that only they use."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.errors import FleetError
from fleet.facts.fact import Fact
from fleet.facts.machine import IMAGES, RELEASE_LABEL, HostImage
from fleet.inventory.secrets import service_of
from fleet.release import manifest
from fleet.release.manifest import Manifest
from fleet.rollout.host_state import ARTEFACTS, CURRENT, PREVIOUS, SECRETS
from fleet.ssh.command_batch import host_verb, verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must, must_know

_OURS = re.compile(r"(.+/)?voxyard-[a-z][a-z0-9-]*(:[0-9a-f]{12}|@sha256:[0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class InUse:
    """Releases, images and mounts in use by containers and training runs."""

    releases: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()  # ids and names
    mounts: tuple[str, ...] = ()  # host directories


@dataclass(frozen=True, slots=True)
class Unused:
    """Releases, artefacts, images and secrets that can be removed."""

    releases: tuple[str, ...] = ()
    artefacts: tuple[str, ...] = ()
    images: tuple[str, ...] = ()  # names
    secrets: tuple[str, ...] = ()  # file names

    @property
    def nothing(self) -> bool:
        """True where everything is in use."""
        return not (self.releases or self.artefacts or self.images or self.secrets)


def prune(host: str, session: Session, *, keep: int) -> tuple[str, ...]:
    """Remove unused releases, artefacts, images and secrets; returns one line per kind. Raises HostFailedError."""
    facts: tuple[Fact[Any], ...] = (CURRENT, PREVIOUS, RELEASES, ARTEFACTS, IMAGES, SECRETS, IN_USE, NAMED_BY_RUNS)
    answers = session.run([fact.command for fact in facts])
    found = [must_know(fact, answers, f"{host}: its {fact.name} cannot be read") for fact in facts]
    current, previous, releases, artefacts, images, secrets, used, named = found
    used = InUse(used.releases | named.releases, used.images | named.images, (*used.mounts, *named.mounts))
    old = find_unused(releases, (current, previous), artefacts, images, used, keep=keep, secrets=tuple(secrets))
    if old.nothing:
        return ()
    parts = {"releases": old.releases, "artefacts": old.artefacts, "images": old.images, "secrets": old.secrets}
    words = [f"{kind}/{name}" for kind, names in parts.items() for name in names]
    must(session, host, "remove old releases", host_verb("prune_remove", *words, seconds=300))
    return tuple(f"removed old {kind}: {', '.join(names)}" for kind, names in parts.items() if names)


def find_unused(
    releases: Mapping[str, Manifest | None],
    named: Sequence[str | None],
    artefacts: frozenset[str],
    images: Sequence[HostImage],
    used: InUse,
    *,
    keep: int,
    secrets: Sequence[str] = (),
) -> Unused:
    """Releases, artefacts, images and secrets that can be removed. `releases` newest first, `named`: current and
    previous, `secrets`: all files.

    Everything in use by a container or a run stays; with an unreadable manifest all but releases stay.
    """
    kept = {name for name in named if name is not None} | (used.releases & set(releases))
    for name in releases:
        if len(kept) < keep:
            kept.add(name)
    manifests = [releases.get(name) for name in kept]
    old = tuple(name for name in releases if name not in kept)
    if None in manifests:
        return Unused(old)
    needed_images = {image for each in manifests if each is not None for image in each.images}
    needed_artefacts = {name for each in manifests if each is not None for name in each.artefacts}
    return Unused(
        old,
        tuple(sorted(name for name in artefacts - needed_artefacts if not _mounted(name, used))),
        tuple(sorted(name for image in images for name in _free_names(image, needed_images, used))),
        tuple(sorted(_free_secrets(secrets, [each for each in manifests if each is not None], used))),
    )


def _free_secrets(secrets: Sequence[str], kept: Sequence[Manifest], used: InUse) -> Iterator[str]:
    """Secrets of our services that no kept release reads."""
    needed = {name for each in kept for name in each.secrets}
    for name in secrets:
        mounted = any(mount.endswith(f"/secrets/{name}") for mount in used.mounts)
        if service_of(name) is not None and not (name in needed or mounted):
            yield name


def _free_names(image: HostImage, needed: set[str], used: InUse) -> set[str]:
    if image.id in used.images or image.names & (needed | used.images):
        return set()
    ours = {name for name in image.names if _OURS.fullmatch(name)}
    pulled = {name for name in image.names if "@sha256:" in name}  # beside the tag of a release
    return ours | pulled if ours else set()


def _mounted(artefact: str, used: InUse) -> bool:
    return any(f"/artefacts/{artefact}" in f"{mount}/" for mount in used.mounts)


def _releases(text: str) -> dict[str, Manifest | None]:
    found: dict[str, Manifest | None] = {}
    for line in text.splitlines():
        name, _, body = line.partition(" ")
        try:
            found[name] = manifest.parse(base64.b64decode(body))
        except FleetError:
            found[name] = None
    return found


def _in_use(text: str) -> InUse:
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    return InUse(
        frozenset(str((row["labels"] or {}).get(RELEASE_LABEL, "")) for row in rows) - {""},
        frozenset(str(name) for row in rows for name in (row["image"], row["name"])),
        tuple(str(mount.get("Source", "")) for row in rows for mount in row["mounts"] or ()),
    )


def _named_by_runs(text: str) -> InUse:
    words = text.split()
    return InUse(
        frozenset(word.removeprefix("releases/") for word in words if word.startswith("releases/")),
        frozenset(word for word in words if word.startswith("voxyard-")),
        tuple(f"/artefacts/{word}" for word in words if word.startswith(("weights-", "voices-"))),
    )


RELEASES = Fact("releases", verb("release_list"), _releases)
_CONTAINER = (
    '{"image": {{json .Image}}, "name": {{json .Config.Image}}, "labels": {{json .Config.Labels}}, '
    '"mounts": {{json .Mounts}}}'
)
IN_USE = Fact("in-use", verb("container_list", _CONTAINER), _in_use, seconds=60)
NAMED_BY_RUNS = Fact("named-by-runs", verb("prune_named_by_runs"), _named_by_runs)
