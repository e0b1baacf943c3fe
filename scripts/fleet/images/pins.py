"""images/digests.lock: the images that ours are built on and that monitoring runs, each by its digest."""

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
MONITORING = Path("deploy/compose/monitoring.yaml")
UNRESOLVED = "unresolved"
HEAD = """\
# Written by `make images-lock`: the bases of our images and the images that monitoring runs. The tags stand in
# images/*/Dockerfile and deploy/compose/monitoring.yaml: change them there. A digest names the same image for ever;
# `unresolved` means that no registry could be asked yet, and a build refuses it without --unpinned.
"""
SECONDS = 60.0

Resolve = Callable[[str], str]
"""The digest (sha256:…) that a registry has for a reference; FleetError says why there is none."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One image of the lock."""

    image: str  # python:3.12-slim-bookworm
    digest: str | None = None  # sha256:…

    @property
    def reference(self) -> str:
        """Image reference for docker: tag and digest, the tag alone where there is no digest yet."""
        return f"{self.image}@{self.digest}" if self.digest else self.image


@dataclass(frozen=True, slots=True)
class LockResult:
    """Result of locking: the pins, and the images that stayed as they were or unresolved, with the reason."""

    pins: Mapping[str, Pin]
    failures: Mapping[str, str]


def sources(root: Path) -> dict[str, str]:
    """The images that belong into the lock, by role or monitoring service, as the repository names them.

    Raises FleetError where a file does not name its own.
    """
    found = {role: _base(root / "images" / role / "Dockerfile") for role in ROLES}
    document = yaml.safe_load((root / MONITORING).read_text(encoding="utf-8"))
    for name, service in document["services"].items():
        named = re.fullmatch(r"\$\{\w+:-(.+)\}", service["image"])
        found[name] = named.group(1) if named else service["image"]
    return found


def _base(dockerfile: Path) -> str:
    for line in dockerfile.read_text(encoding="utf-8").splitlines():
        if line.startswith("ARG BASE="):
            return line.removeprefix("ARG BASE=")
    raise FleetError(f"{dockerfile}: no line ARG BASE=…, which names the base")


def read(path: Path) -> dict[str, Pin]:
    """The pins of a lock file, by name; none where there is no file. Raises FleetError for one that is none."""
    if not path.exists():
        return {}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        return {name: _pin(entry) for name, entry in document.items()}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise FleetError(f"{path}: not a lock of digests ({error}): write it anew with make images-lock") from error


def pinned(path: Path) -> dict[str, str]:
    """References with a digest, by the tag that they stand for. Raises FleetError for a file that is no lock."""
    return {pin.image: pin.reference for pin in read(path).values() if pin.digest}


def _pin(entry: Mapping[str, str]) -> Pin:
    digest = entry["digest"]
    if digest != UNRESOLVED and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ValueError(f"{digest!r} is no digest")
    return Pin(entry["image"], None if digest == UNRESOLVED else digest)


def text(pins: Mapping[str, Pin]) -> str:
    """The lock file."""
    entries = {name: {"image": pin.image, "digest": pin.digest or UNRESOLVED} for name, pin in pins.items()}
    return HEAD + yaml.safe_dump(entries, sort_keys=False)


def resolve_all(images: Mapping[str, str], before: Mapping[str, Pin], resolve: Resolve) -> LockResult:
    """Ask for every digest. What cannot be had now keeps the digest that its tag had before."""
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
    """The base on which the image of a role is built. Raises FleetError for one without a digest, unless `unpinned`."""
    if not given and role not in pins:
        raise FleetError(f"{LOCK} has no base for {role}: write it anew with make images-lock")
    reference = given or pins[role].reference
    if "@sha256:" in reference or unpinned:
        return reference
    raise FleetError(
        f"the base of {role}, {reference}, has no digest, so nobody could say later what was built: run "
        "make images-lock where its registry can be reached, or give --base NAME@sha256:…; "
        "--unpinned builds all the same, for development"
    )


def engine_resolver() -> Resolve:
    """Asks registries through the local engine: with its mirrors, proxies, certificates and logins, as a pull would.

    Raises FleetError where no engine answers.
    """
    import docker  # type: ignore[import-untyped]
    from docker.errors import DockerException  # type: ignore[import-untyped]
    from requests.exceptions import RequestException

    try:
        client: Any = docker.DockerClient(base_url=_endpoint(), timeout=SECONDS)
        client.ping()
    except (DockerException, RequestException) as error:
        raise FleetError(f"no Docker engine answers here, through which registries are asked: {error}") from error

    def resolve(reference: str) -> str:
        try:
            return str(client.images.get_registry_data(reference).id)
        except (DockerException, RequestException) as error:
            raise FleetError(str(getattr(error, "explanation", None) or error)) from error

    return resolve


def _endpoint() -> str:
    """Address of the engine that `docker` talks to: DOCKER_HOST, or the chosen context."""
    command = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise FleetError(NO_DOCKER) from None
    if done.returncode != 0:
        raise FleetError(f"docker context inspect fails here: {done.stderr.strip()}")
    return done.stdout.strip()
