"""Local images: build, inspect, save."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.errors import FleetError

ROLES = ("exporter", "bark", "trainer")
"""Roles with an image; each has a folder in images/ with its Dockerfile."""
FRAMEWORK_ARGUMENTS = {"trainer": "TENSORFLOW", "bark": "TORCH"}
"""Build argument that selects the source of the framework, by role."""
SOURCES = ("runtime", "images", "constraints.txt", "constraints-tf217.txt", "pyproject.toml", "LICENSE")
"""Paths of the repository that are part of images."""
STAGED_WHEELS = Path("build/images/wheels")  # .dockerignore lets it through
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


def repository_of(role: str) -> str:
    """Repository name of a role's image, without its tag."""
    return f"voxyard-{role}"


def built_tag(role: str) -> str:
    """Local tag of the last built image of a role."""
    return f"{repository_of(role)}:built"


BUILT = built_tag("exporter")


@dataclass(frozen=True, slots=True)
class LocalImage:
    """Image of the local engine."""

    id: str  # sha256:…
    layers: tuple[str, ...]
    size_bytes: int
    repository: str = repository_of("exporter")
    digest: str | None = None  # REGISTRY/voxyard-bark@sha256:… after a push

    @property
    def release_tag(self) -> str:
        """Tag on hosts: contains the image id, so it is immutable."""
        return f"{self.repository}:{self.id.removeprefix('sha256:')[:12]}"

    @property
    def reference(self) -> str:
        """Image reference in compose files: registry digest, or the release tag of an image that is sent."""
        return self.digest or self.release_tag


@dataclass(frozen=True, slots=True)
class Build:
    """Build parameters of an image; the three files are build secrets and leave no trace in the image."""

    base: str | None = None
    pip_config: Path | None = None
    ca_bundle: Path | None = None
    network: str | None = None
    role: str = "exporter"
    apt_config: Path | None = None
    wheels: Path | None = None
    framework: str | None = None  # source of TensorFlow or torch, as named in the Dockerfile
    cache_from: str | None = None  # earlier image whose unchanged layers are reused

    def secrets(self) -> dict[str, Path]:
        """Build secret files, by their ids in the Dockerfiles."""
        files = {"pip_config": self.pip_config, "ca_bundle": self.ca_bundle, "apt_config": self.apt_config}
        return {name: path for name, path in files.items() if path is not None}


def build_command(root: Path, build: Build, *, version: str, revision: str) -> list[str]:
    """docker command line that builds the image of a role from the repository `root`."""
    command = ["docker", "build", "--file", str(root / "images" / build.role / "Dockerfile")]
    command += ["--tag", built_tag(build.role)]
    arguments = {"VERSION": version, "REVISION": revision, "BUILDKIT_INLINE_CACHE": "1"}  # for a later cache_from
    arguments |= {"BASE": build.base} if build.base else {}
    arguments |= {FRAMEWORK_ARGUMENTS[build.role]: build.framework} if build.framework else {}
    arguments |= {"WHEELS": str(STAGED_WHEELS)} if build.wheels else {}
    for name, value in arguments.items():
        command += ["--build-arg", f"{name}={value}"]
    for name, path in build.secrets().items():
        command += ["--secret", f"id={name},src={path}"]
    if build.cache_from:
        command += ["--cache-from", build.cache_from]
    if build.network:
        command += ["--network", build.network]
    return [*command, str(root)]


def build_image(root: Path, build: Build) -> LocalImage:
    """Build the image of a role; progress goes to standard error. Raises FleetError."""
    for path in build.secrets().values():
        if not path.is_file():
            raise FleetError(f"{path}: no such file: correct --pip-config, --apt-config or --ca-bundle")
    if build.framework and build.role not in FRAMEWORK_ARGUMENTS:
        raise FleetError(f"the image {build.role} has no framework: leave out --framework for it")
    if build.wheels:
        stage_wheels(build.wheels, root / STAGED_WHEELS)
    command = build_command(root, build, version=_version(root), revision=_revision(root))
    try:
        # Standard output is for results; BuildKit writes its progress to standard error anyway.
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, env=os.environ | {"DOCKER_BUILDKIT": "1"}, check=False
        )
    except FileNotFoundError:
        raise FleetError(NO_DOCKER) from None
    if done.returncode != 0:
        if _unreachable(subprocess.run(["docker", "version"], capture_output=True, text=True, check=False).stderr):
            raise FleetError(f"the image {build.role} was not built: {NO_ENGINE}")
        raise FleetError(
            f"the image {build.role} was not built (docker build exited with {done.returncode}), see above. "
            "With a mirror give --base, --pip-config and --ca-bundle"
        )
    return find_image(built_tag(build.role), build.role)


def stage_wheels(folder: Path, into: Path) -> None:
    """Copy the wheels of `folder` into the build context, replacing others. Raises FleetError for none."""
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise FleetError(f"{folder}: no wheels (*.whl): give --wheels a directory that contains them")
    into.mkdir(parents=True, exist_ok=True)
    for old in into.iterdir():
        old.unlink()
    for wheel in wheels:
        try:
            (into / wheel.name).hardlink_to(wheel)
        except OSError:  # other file system, or no hard links
            shutil.copyfile(wheel, into / wheel.name)


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
    return LocalImage(document["Id"], tuple(document["RootFS"]["Layers"]), int(document["Size"]), repository, digest)


def save(image: LocalImage) -> Iterator[bytes]:
    """Output of `docker save` with the release tag. Raises FleetError, also in mid-stream."""
    docker(
        "tag",
        image.id,
        image.release_tag,
        missing=f"the image {image.id} was removed from this machine: build it with make images",
    )
    command = ["docker", "save", image.release_tag]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        pipe = process.stdout
        while pipe is not None and (chunk := pipe.read(_CHUNK)):
            yield chunk
        if process.wait() != 0:
            raise FleetError(f"docker save failed with exit code {process.returncode}, see its output above")


def docker(*arguments: str, missing: str = "no such image on this machine") -> str:
    """Output of the local `docker ARGUMENTS`. Raises FleetError, with `missing` for an unknown image."""
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise FleetError(NO_DOCKER) from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        if "no such image" in said.lower():
            raise FleetError(missing)
        if _unreachable(said):
            raise FleetError(f"{NO_ENGINE} (docker {arguments[0]}: {said})")
        raise FleetError(f"docker {arguments[0]} failed on this machine: {said}")
    return done.stdout


def _unreachable(said: str) -> bool:
    """True where docker's standard error says that no engine answers."""
    return any(text in said.lower() for text in _UNREACHABLE)


def _version(root: Path) -> str:
    text = (root / "runtime/voxyard/__init__.py").read_text(encoding="utf-8")
    return next(line.split('"')[1] for line in text.splitlines() if line.startswith("__version__"))


def _revision(root: Path) -> str:
    """Last commit that changed the sources of images, with a suffix for uncommitted changes; `unknown` without git.

    Other commits do not change the image.
    """
    commit, changes = (
        _git(root, "log", "-1", "--format=%H", "--", *SOURCES),
        _git(root, "status", "--porcelain", "--", *SOURCES),
    )
    return commit + ("-changed" if changes else "") if commit else "unknown"


def _git(root: Path, *arguments: str) -> str | None:
    command: Sequence[str] = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
