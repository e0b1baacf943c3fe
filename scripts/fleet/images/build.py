"""Builds of images: the engine's build, rewritten so that one commit and the same inputs make one image."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from fleet.images.cuda import FRAMEWORKS_LABEL, read_frameworks
from fleet.images.image import (
    FRAMEWORK_ARGUMENTS,
    NO_DOCKER,
    NO_ENGINE,
    LocalImage,
    built_tag,
    cache_tag,
    find_image,
    load,
    names_images_by_manifest,
    save,
    unreachable,
)
from fleet.images.reproducible import Recipe, rewritten
from fleet.images.revision import Revision, read_revision

STAGED_WHEELS = Path("build/images/wheels")  # .dockerignore lets it through


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
    command += ["--tag", cache_tag(build.role)]
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
    """Build the image of a role; progress goes to standard error. Raises FleetError.

    One commit and the same inputs make the same image. `cache_tag` keeps the engine's own, a source of layers.
    """
    for path in build.secrets().values():
        if not path.is_file():
            raise FleetError(f"{path}: no such file: correct --pip-config, --apt-config or --ca-bundle")
    if build.framework and build.role not in FRAMEWORK_ARGUMENTS:
        raise FleetError(f"the image {build.role} has no framework: leave out --framework for it")
    if build.wheels:
        stage_wheels(build.wheels, root / STAGED_WHEELS)
    revision = read_revision(root)
    command = build_command(root, build, version=_version(root), revision=revision.text)
    try:
        # Standard output is for results; BuildKit writes its progress to standard error anyway.
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, env=os.environ | {"DOCKER_BUILDKIT": "1"}, check=False
        )
    except FileNotFoundError:
        raise FleetError(NO_DOCKER) from None
    if done.returncode != 0:
        if unreachable(subprocess.run(["docker", "version"], capture_output=True, text=True, check=False).stderr):
            raise FleetError(f"the image {build.role} was not built: {NO_ENGINE}")
        raise FleetError(
            f"the image {build.role} was not built (docker build exited with {done.returncode}), see above. "
            "With a mirror give --base, --pip-config and --ca-bundle"
        )
    return _reproducible(find_image(cache_tag(build.role), build.role), build.role, revision, root / "build")


def _reproducible(built: LocalImage, role: str, revision: Revision, folder: Path) -> LocalImage:
    """The engine's build without its times, as `built_tag`; `folder` takes files as large as the image."""
    labels = {}
    if role in FRAMEWORK_ARGUMENTS:
        labels[FRAMEWORKS_LABEL] = json.dumps(read_frameworks(built), sort_keys=True, separators=(",", ":"))
    recipe = Recipe(built_tag(role), revision.time, labels, with_base=names_images_by_manifest())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"image-{role}-", dir=folder) as work:
            saved = Path(work) / "saved.tar"
            with saved.open("wb") as file:
                file.writelines(save(built, cache_tag(role)))
            load(rewritten(saved, recipe, Path(work)))
    except OSError as error:
        raise FleetError(f"{folder}: the image {role} cannot be rewritten there: {error.strerror or error}") from error
    return find_image(built_tag(role), role)


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


def _version(root: Path) -> str:
    text = (root / "runtime/voxyard/__init__.py").read_text(encoding="utf-8")
    return next(line.split('"')[1] for line in text.splitlines() if line.startswith("__version__"))
