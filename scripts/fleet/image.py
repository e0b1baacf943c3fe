"""The exporter's image on the operator's machine: looked at, built, and written out for a host."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.errors import FleetError

REPOSITORY = "voxyard-exporter"
BUILT = f"{REPOSITORY}:built"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image of the local engine."""

    id: str  # sha256:…
    layers: tuple[str, ...]
    size_bytes: int

    @property
    def release_tag(self) -> str:
        """The name under which hosts have it: it says which image it is, so it never changes its meaning."""
        return f"{REPOSITORY}:{self.id.removeprefix('sha256:')[:12]}"


@dataclass(frozen=True, slots=True)
class Build:
    """How the image is built; the two files are secrets of the build and leave nothing in the image."""

    base: str | None = None
    pip_config: Path | None = None
    ca_bundle: Path | None = None
    network: str | None = None


def build_command(root: Path, build: Build, *, version: str, revision: str) -> list[str]:
    """The docker command that builds the exporter's image from the repository `root`."""
    command = ["docker", "build", "--file", str(root / "images/exporter/Dockerfile"), "--tag", BUILT]
    arguments = {"VERSION": version, "REVISION": revision} | ({"BASE": build.base} if build.base else {})
    for name, value in arguments.items():
        command += ["--build-arg", f"{name}={value}"]
    for name, path in (("pip_config", build.pip_config), ("ca_bundle", build.ca_bundle)):
        if path is not None:
            command += ["--secret", f"id={name},src={path}"]
    if build.network:
        command += ["--network", build.network]
    return [*command, str(root)]


def build_image(root: Path, build: Build) -> LocalImage:
    """Build the exporter's image; its progress goes to standard error. Raises FleetError."""
    for path in (build.pip_config, build.ca_bundle):
        if path is not None and not path.is_file():
            raise FleetError(f"{path}: no such file, named for the build")
    command = build_command(root, build, version=_version(root), revision=_revision(root))
    try:
        # Standard output is for results; BuildKit writes its progress to standard error anyway.
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, env=os.environ | {"DOCKER_BUILDKIT": "1"}, check=False
        )
    except FileNotFoundError:
        raise FleetError("docker is not installed here: it builds and keeps the images that are deployed") from None
    if done.returncode != 0:
        raise FleetError(
            f"the image was not built (docker build answered {done.returncode}); its words stand above. "
            "Behind a mirror give --base, --pip-config and --ca-bundle"
        )
    return find_image(BUILT)


def find_image(reference: str) -> LocalImage:
    """The local image named `reference`. Raises FleetError where there is none."""
    found = _docker("image", "inspect", reference, missing=f"no image {reference} here: build it with --build")
    document: dict[str, Any] = json.loads(found)[0]
    return LocalImage(document["Id"], tuple(document["RootFS"]["Layers"]), int(document["Size"]))


def save(image: LocalImage) -> Iterator[bytes]:
    """The image as `docker save` writes it, under its release tag. Raises FleetError, also in mid-stream."""
    _docker("tag", image.id, image.release_tag, missing=f"no image {image.id} here any more")
    command = ["docker", "save", image.release_tag]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        pipe = process.stdout
        while pipe is not None and (chunk := pipe.read(_CHUNK)):
            yield chunk
        if process.wait() != 0:
            raise FleetError(f"docker save answered {process.returncode}; its words stand above")


def _docker(*arguments: str, missing: str) -> str:
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise FleetError("docker is not installed here: it builds and keeps the images that are deployed") from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise FleetError(missing if "no such image" in said.lower() else f"docker {arguments[0]} fails here: {said}")
    return done.stdout


def _version(root: Path) -> str:
    text = (root / "runtime/voxyard/__init__.py").read_text(encoding="utf-8")
    return next(line.split('"')[1] for line in text.splitlines() if line.startswith("__version__"))


def _revision(root: Path) -> str:
    """The commit, marked where the tree differs from it; `unknown` outside a repository."""
    commit, changes = _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain", "--", "runtime", "images")
    return "unknown" if commit is None else commit + ("-changed" if changes else "")


def _git(root: Path, *arguments: str) -> str | None:
    command: Sequence[str] = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
