"""The images on the operator's machine: found, built, and written out for a host."""

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
"""Each has an image, and a folder of images/ that says how it is made."""
FRAMEWORK_ARGUMENTS = {"trainer": "TENSORFLOW", "bark": "TORCH"}
"""The argument of the Dockerfile that says whose framework goes into the image."""
SOURCES = ("runtime", "images", "constraints.txt", "constraints-tf217.txt", "pyproject.toml", "LICENSE")
"""What of the repository goes into images."""
STAGED_WHEELS = Path("build/images/wheels")  # .dockerignore lets it through
NO_DOCKER = "docker is not installed here: it builds and keeps the images that are deployed"
_CHUNK = 1 << 20


def repository_of(role: str) -> str:
    """Repository name of a role's image, without its tag."""
    return f"voxyard-{role}"


def built_tag(role: str) -> str:
    """The local tag under which a build leaves the image of a role."""
    return f"{repository_of(role)}:built"


BUILT = built_tag("exporter")


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image of the local engine."""

    id: str  # sha256:…
    layers: tuple[str, ...]
    size_bytes: int
    repository: str = repository_of("exporter")
    digest: str | None = None  # REGISTRY/voxyard-bark@sha256:…, where a registry has it

    @property
    def release_tag(self) -> str:
        """The name under which hosts have it: it says which image it is, so it never changes its meaning."""
        return f"{self.repository}:{self.id.removeprefix('sha256:')[:12]}"

    @property
    def reference(self) -> str:
        """Image reference in a host's compose file: the registry's digest, or the tag of an image that is sent."""
        return self.digest or self.release_tag


@dataclass(frozen=True, slots=True)
class Build:
    """Parameters of an image's build; the three files are secrets of the build and leave nothing in the image."""

    base: str | None = None
    pip_config: Path | None = None
    ca_bundle: Path | None = None
    network: str | None = None
    role: str = "exporter"
    apt_config: Path | None = None
    wheels: Path | None = None
    framework: str | None = None  # whose TensorFlow or torch, as the role's Dockerfile names it
    cache_from: str | None = None  # an earlier image of the role: what did not change is taken from it

    def secrets(self) -> dict[str, Path]:
        """The files, by the id under which the Dockerfiles know them."""
        files = {"pip_config": self.pip_config, "ca_bundle": self.ca_bundle, "apt_config": self.apt_config}
        return {name: path for name, path in files.items() if path is not None}


def build_command(root: Path, build: Build, *, version: str, revision: str) -> list[str]:
    """The docker command that builds the image of a role from the repository `root`."""
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
    """Build the image of a role; its progress goes to standard error. Raises FleetError."""
    for path in build.secrets().values():
        if not path.is_file():
            raise FleetError(f"{path}: no such file, named for the build")
    if build.framework and build.role not in FRAMEWORK_ARGUMENTS:
        raise FleetError(f"the {build.role}'s image has no framework to choose")
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
        raise FleetError(
            f"the {build.role}'s image was not built (docker build answered {done.returncode}); its words stand above. "
            "Behind a mirror give --base, --pip-config and --ca-bundle"
        )
    return find_image(built_tag(build.role), build.role)


def stage_wheels(folder: Path, into: Path) -> None:
    """Put the wheels of `folder` where a build sees them, and no others. Raises FleetError where there are none."""
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise FleetError(f"{folder}: no wheels (*.whl) in it, named for the build")
    into.mkdir(parents=True, exist_ok=True)
    for old in into.iterdir():
        old.unlink()
    for wheel in wheels:
        try:
            (into / wheel.name).hardlink_to(wheel)
        except OSError:  # another file system, or one without links
            shutil.copyfile(wheel, into / wheel.name)


def find_image(reference: str, role: str = "exporter", *, registry: str | None = None) -> LocalImage:
    """The local image named `reference`, as the image of `role`.

    With `registry` (host/path) its digest is the one under which that registry got it from here, where it did.
    Raises FleetError where there is none.
    """
    found = docker("image", "inspect", reference, missing=f"no image {reference} here: build it with make images")
    document: dict[str, Any] = json.loads(found)[0]
    repository = repository_of(role)
    digests = [str(each) for each in document.get("RepoDigests") or ()]
    digest = next((each for each in digests if registry and each.startswith(f"{registry}/{repository}@")), None)
    return LocalImage(document["Id"], tuple(document["RootFS"]["Layers"]), int(document["Size"]), repository, digest)


def save(image: LocalImage) -> Iterator[bytes]:
    """The image as `docker save` writes it, under its release tag. Raises FleetError, also in mid-stream."""
    docker("tag", image.id, image.release_tag, missing=f"no image {image.id} here any more")
    command = ["docker", "save", image.release_tag]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        pipe = process.stdout
        while pipe is not None and (chunk := pipe.read(_CHUNK)):
            yield chunk
        if process.wait() != 0:
            raise FleetError(f"docker save answered {process.returncode}; its words stand above")


def docker(*arguments: str, missing: str = "no such image here") -> str:
    """Output of `docker ARGUMENTS` here. Raises FleetError, with `missing` where there is no such image."""
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise FleetError(NO_DOCKER) from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise FleetError(missing if "no such image" in said.lower() else f"docker {arguments[0]} fails here: {said}")
    return done.stdout


def _version(root: Path) -> str:
    text = (root / "runtime/voxyard/__init__.py").read_text(encoding="utf-8")
    return next(line.split('"')[1] for line in text.splitlines() if line.startswith("__version__"))


def _revision(root: Path) -> str:
    """The last commit that changed what goes into images, marked where the tree differs; `unknown` without any.

    A commit that changes nothing in an image leaves the image as it is.
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
