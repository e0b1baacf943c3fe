"""Image lock images/digests.lock: digests of base images and monitoring images."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from fleet.errors import FleetError
from fleet.images.image import NO_DOCKER, ROLES

LOCK = Path("images/digests.lock")
THIRD_PARTY = tuple(Path(f"deploy/compose/{name}.yaml") for name in ("monitoring", "node-exporter", "gateway"))
UNRESOLVED = "unresolved"
HEAD = """\
# Written by `make images-lock`: the bases of our images, and those that others make. The tags stand in
# images/*/Dockerfile and deploy/compose/{monitoring,node-exporter,gateway}.yaml: change them there. A digest names the
# same image for ever; `unresolved`: no registry could be asked yet, and a build refuses it without --unpinned.
"""
SECONDS = 60.0

Resolve = Callable[[str], str]
"""Returns the digest (sha256:…) of a reference in its registry. Raises FleetError."""


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


def resolve_all(images: Mapping[str, str], before: Mapping[str, Pin], resolve: Resolve) -> LockResult:
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


def engine_resolver() -> Resolve:
    """Resolver that queries registries through the local engine, with its mirrors, proxies, certificates and logins.

    Raises FleetError where no engine answers.
    """
    import docker  # type: ignore[import-untyped]
    from docker.errors import DockerException  # type: ignore[import-untyped]
    from requests.exceptions import RequestException

    try:
        client: Any = docker.DockerClient(base_url=_endpoint(), timeout=SECONDS)
        client.ping()
    except (DockerException, RequestException) as error:
        raise FleetError(
            f"no local Docker engine answers ({error}): start it, registries are queried through it"
        ) from error

    def resolve(reference: str) -> str:
        try:
            return str(client.images.get_registry_data(reference).id)
        except (DockerException, RequestException) as error:
            raise FleetError(str(getattr(error, "explanation", None) or error)) from error

    return resolve


def _endpoint() -> str:
    """Address of the local engine: DOCKER_HOST or the current context."""
    command = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise FleetError(NO_DOCKER) from None
    if done.returncode != 0:
        raise FleetError(f"docker context inspect failed on this machine: {done.stderr.strip()}")
    return done.stdout.strip()
