"""Image lock images/digests.lock: digests of base images and monitoring images."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from fleet.errors import FleetError
from fleet.images.image import ROLES
from fleet.images.registry import digest_of

LOCK = Path("images/digests.lock")
THIRD_PARTY = tuple(Path(f"deploy/compose/{name}.yaml") for name in ("monitoring", "node-exporter", "gateway"))
UNRESOLVED = "unresolved"
HEAD = """\
# Written by `make images-lock`: the bases of our images, and those that others make. The tags stand in
# images/*/Dockerfile and deploy/compose/{monitoring,node-exporter,gateway}.yaml: change them there. A digest names the
# same image for ever; `unresolved`: no registry could be asked yet, and a build refuses it without --unpinned.
"""


@dataclass(frozen=True, slots=True)
class Pin:
    """Image of the lock, with its digest."""

    image: str  # python:3.12-slim-bookworm
    digest: str | None = None  # sha256:…

    @property
    def reference(self) -> str:
        """Image reference for docker: tag and digest, or the tag alone where it is unresolved."""
        return f"{self.image}@{self.digest}" if self.digest else self.image


@dataclass(frozen=True, slots=True)
class LockResult:
    """Result of resolving: the pins, and the failures with their reasons."""

    pins: Mapping[str, Pin]
    failures: Mapping[str, str]


def sources(root: Path) -> dict[str, str]:
    """Images that belong into the lock, by role or service.

    Raises FleetError for a Dockerfile without a base.
    """
    found = {role: _base(root / "images" / role / "Dockerfile") for role in ROLES}
    for path in THIRD_PARTY:
        document = yaml.safe_load((root / path).read_text(encoding="utf-8"))
        for name, service in document["services"].items():
            named = re.fullmatch(r"\$\{\w+:-(.+)\}", service["image"])
            found[name] = named.group(1) if named else service["image"]
    return found


def _base(dockerfile: Path) -> str:
    for line in dockerfile.read_text(encoding="utf-8").splitlines():
        if line.startswith("ARG BASE="):
            return line.removeprefix("ARG BASE=")
    raise FleetError(f"{dockerfile}: no line ARG BASE=…: add it with the base image")


def read(path: Path) -> dict[str, Pin]:
    """Pins of a lock file, by name; empty where there is no file. Raises FleetError for an invalid file."""
    if not path.exists():
        return {}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        return {name: _pin(entry) for name, entry in document.items()}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise FleetError(f"{path}: not an image lock ({error}): regenerate it with make images-lock") from error


def _pin(entry: Mapping[str, str]) -> Pin:
    digest = entry["digest"]
    if digest != UNRESOLVED and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ValueError(f"{digest!r} is no digest")
    return Pin(entry["image"], None if digest == UNRESOLVED else digest)


def text(pins: Mapping[str, Pin]) -> str:
    """Text of the lock file."""
    entries = {name: {"image": pin.image, "digest": pin.digest or UNRESOLVED} for name, pin in pins.items()}
    return HEAD + yaml.safe_dump(entries, sort_keys=False)


def digest_in_registry(image: str) -> str:
    """Digest of an image, as its registry has it. Raises FleetError."""
    return digest_of(image).rpartition("@")[2]


def resolve_all(
    images: Mapping[str, str], before: Mapping[str, Pin], resolve: Callable[[str], str] = digest_in_registry
) -> LockResult:
    """Resolve all digests; where that fails, the digest of the same tag is kept."""
    pins, failures = dict[str, Pin](), dict[str, str]()
    for name, image in images.items():
        pin = Pin(image)
        try:
            pins[name] = replace(pin, digest=resolve(image))
        except FleetError as error:
            failures[name] = str(error)
            pins[name] = before[name] if name in before and before[name].image == image else pin
    return LockResult(pins, failures)


def base_of(role: str, pins: Mapping[str, Pin], given: str | None, *, unpinned: bool) -> str:
    """Base image of a role. Raises FleetError for one without a digest, unless `unpinned`."""
    if not given and role not in pins:
        raise FleetError(f"{LOCK} has no base for {role}: regenerate it with make images-lock")
    reference = given or pins[role].reference
    if "@sha256:" in reference or unpinned:
        return reference
    raise FleetError(
        f"the base of {role}, {reference}, has no digest, so the build is not reproducible: run "
        "make images-lock where its registry can be reached, or give --base NAME@sha256:…; "
        "--unpinned allows it, for development"
    )
