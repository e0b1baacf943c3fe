"""Images: inspected, saved and loaded by the local engine."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import FleetError

log = logging.getLogger("fleet")

ROLES = ("exporter", "bark", "trainer")
"""Roles with an image; each has a folder in images/ with its Dockerfile."""
REVISION_LABEL = "org.opencontainers.image.revision"
"""Label with the commit of an image's sources."""
FRAMEWORK_ARGUMENTS = {"trainer": "TENSORFLOW", "bark": "TORCH"}
"""Build argument that selects the source of the framework, by role."""
NO_DOCKER = "docker is not installed on this machine: install Docker Engine, it builds and stores the images"
NO_ENGINE = (
    "no Docker engine answers on this machine, which stores the images: start it (systemctl start docker), or set "
    "DOCKER_HOST to the engine that has them"
)
_UNREACHABLE = (
    "cannot connect to the docker daemon",
    "is the docker daemon running",
    "error during connect",
    "failed to connect to the docker api",
)
_CHUNK = 1 << 20


class NoEngineError(FleetError):
    """This machine has no Docker engine, or none that answers."""


def repository_of(role: str) -> str:
    """Repository name of a role's image, without its tag."""
    return f"voxyard-{role}"


def built_tag(role: str) -> str:
    """Local tag of the last built image of a role."""
    return f"{repository_of(role)}:built"


def cache_tag(role: str) -> str:
    """Local tag of the image as the engine built it, with its build cache: the source of `built_tag`."""
    return f"{repository_of(role)}:build-cache"


@dataclass(frozen=True, slots=True)
class LocalImage:
    """Image of the local engine, or of a registry."""

    id: str  # sha256:…
    layers: tuple[str, ...]
    size_bytes: int
    repository: str = repository_of("exporter")
    digest: str | None = None  # REGISTRY/voxyard-bark@sha256:… of a registry's image
    environment: tuple[str, ...] = field(default=(), repr=False)  # NAME=value
    labels: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # sorted by name
    machine: str = field(default="", repr=False)  # as in uname -m; empty: not known

    def label(self, name: str) -> str | None:
        """Value of a label; None where the image lacks it."""
        return dict(self.labels).get(name)

    @property
    def release_tag(self) -> str:
        """Tag on hosts: contains the image id, so it is immutable."""
        return f"{self.repository}:{self.id.removeprefix('sha256:')[:12]}"

    def has_layers(self, layers: tuple[str, ...]) -> bool:
        """True for the layers of this image; any, where only its digest is known here."""
        return layers == self.layers or (not self.layers and self.digest is not None)

    @property
    def reference(self) -> str:
        """Image reference in compose files: registry digest, or the release tag of an image that is sent."""
        return self.digest or self.release_tag


def find_image(reference: str, role: str = "exporter", *, registry: str | None = None) -> LocalImage:
    """Local image `reference`, as the image of `role`.

    With `registry` (host/path) its digest is that of an earlier push to it. Raises FleetError where there is no such
    image.
    """
    found = docker(
        "image", "inspect", reference, missing=f"no image {reference} on this machine: build it with make images"
    )
    document: dict[str, Any] = json.loads(found)[0]
    repository = repository_of(role)
    digests = [str(each) for each in document.get("RepoDigests") or ()]
    digest = next((each for each in digests if registry and each.startswith(f"{registry}/{repository}@")), None)
    return LocalImage(
        document["Id"],
        tuple(document["RootFS"]["Layers"]),
        int(document["Size"]),
        repository,
        digest,
        *settings(document.get("Config") or {}),
        machine(document.get("Architecture", "")),
    )


def machine(architecture: str) -> str:
    """Architecture of an image, as uname -m says it."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(architecture, architecture)


def settings(config: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Environment and labels of an image's configuration."""
    return tuple(config.get("Env") or ()), tuple(sorted((config.get("Labels") or {}).items()))


def save(image: LocalImage, tag: str | None = None) -> Iterator[bytes]:
    """Output of `docker save` with `tag`, by default the release tag. Raises FleetError, also in mid-stream."""
    tag = tag or image.release_tag
    docker(
        "tag",
        image.id,
        tag,
        missing=f"the image {image.id} was removed from this machine: build it with make images",
    )
    command = ["docker", "save", tag]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        pipe = process.stdout
        while pipe is not None and (chunk := pipe.read(_CHUNK)):
            yield chunk
        if process.wait() != 0:
            raise FleetError(f"docker save failed with exit code {process.returncode}, see its output above")


def load(archive: Iterable[bytes]) -> None:
    """`docker load` of an archive. Raises FleetError."""
    command = ["docker", "load", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        pipe = process.stdin
        try:
            for chunk in archive:
                if pipe is not None:
                    pipe.write(chunk)
            if pipe is not None:
                pipe.close()
        except BrokenPipeError:  # its exit code says more
            log.debug("docker load read no further")
        except BaseException:
            process.kill()
            raise
        if process.wait() != 0:
            raise FleetError(f"docker load failed with exit code {process.returncode}, see its output above")


def names_images_by_manifest() -> bool:
    """True for an engine with containerd's image store, in which the id of an image is that of its manifest.

    Raises FleetError.
    """
    return "io.containerd.snapshotter" in docker("info", "--format", "{{json .DriverStatus}}")


def docker(*arguments: str, missing: str = "no such image on this machine") -> str:
    """Output of the local `docker ARGUMENTS`. Raises FleetError, with `missing` for an unknown image."""
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NoEngineError(NO_DOCKER) from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        if "no such image" in said.lower():
            raise FleetError(missing)
        if unreachable(said):
            raise NoEngineError(f"{NO_ENGINE} (docker {arguments[0]}: {said})")
        raise FleetError(f"docker {arguments[0]} failed on this machine: {said}")
    return done.stdout


def unreachable(said: str) -> bool:
    """True where docker's standard error says that no engine answers."""
    return any(text in said.lower() for text in _UNREACHABLE)
