"""voxyard's images on the base of the test bed, for CPUs: built by the code of `fab images`, cached on disk."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.fleet.bed import images
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.errors import BedError
from tests.fleet.bed.machine import build_secrets
from tests.fleet.bed.programs import SEARCH, run

from fleet.images.build import Build, build_image
from fleet.images.image import ROLES, LocalImage, built_tag, cache_tag, find_image
from fleet.images.revision import SOURCES

ROOT = Path(__file__).resolve().parents[3]
WHEELS = images.CACHE / "wheels"
BASE_PYTHON = "3.11"  # of Debian bookworm
FRAMEWORKS = {"trainer": "cpu", "bark": "cpu"}
WITH_WHEELS = ("exporter", "bark")  # Bark's needs torch; the exporter's needs none, and shows that they do no harm
BUILT_BY = (
    *("scripts/fleet/images/build.py", "scripts/fleet/images/image.py", "scripts/fleet/images/reproducible.py"),
    "tests/fleet/bed/voxyard_images.py",
)


class Images(Mapping[str, LocalImage]):
    """voxyard's own images by role: the engine has each under `voxyard-ROLE:built` and its release tag.

    An image is built when it is first asked for: from the last run's file where nothing has changed, else anew, some
    seconds for a change of code, minutes for all packages. With CI set no files are kept. It raises BedError or
    FleetError.
    """

    def __init__(self, engine: Engine, base_image: str, say: Callable[[str], None]) -> None:
        self._engine, self._base, self._say = engine, base_image, say
        self._found: dict[str, LocalImage] = {}

    def __getitem__(self, role: str) -> LocalImage:
        if role not in self._found:
            images.CACHE.mkdir(parents=True, exist_ok=True)
            with _alone(role), _environment(self._engine):
                image = _one(self._engine, self._base, role, self._say)
            self._engine.docker("tag", image.id, image.release_tag)  # another test may give the first tag away
            self._found[role] = image
        return self._found[role]

    def __iter__(self) -> Iterator[str]:
        return iter(ROLES)

    def __len__(self) -> int:
        return len(ROLES)


def key() -> str:
    """Changes with everything that goes into the images."""
    digest = hashlib.sha256(images.key().encode())
    for name in (*SOURCES, *BUILT_BY):
        path = ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            ignored = "__pycache__" in file.parts or any(part.endswith(".egg-info") for part in file.parts)
            if file.is_file() and not ignored and file.suffix != ".whl":
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _one(engine: Engine, base_image: str, role: str, say: Callable[[str], None]) -> LocalImage:
    kept = images.CACHE / f"voxyard-{role}-{key()}.tar"
    earlier = sorted(images.CACHE.glob(f"voxyard-{role}-*.tar"), key=lambda each: each.stat().st_mtime)
    loaded = next((each for each in [kept, *reversed(earlier)] if _load(engine, each, role)), None)
    if loaded == kept:
        say(f"the image voxyard-{role} is {kept.name}")
        return find_image(built_tag(role), role)
    say(f"building the image voxyard-{role}" + (f" from what is left of {loaded.name}" if loaded else ": minutes"))
    began = time.monotonic()
    secrets = build_secrets(engine.folder)
    image = build_image(
        ROOT,
        Build(
            base_image,
            secrets["pip_config"],
            secrets["ca_bundle"],
            network="host",
            role=role,
            wheels=torch_wheel().parent if role in WITH_WHEELS else None,
            framework=FRAMEWORKS.get(role),
            cache_from=cache_tag(role) if loaded else None,
        ),
    )
    say(f"built voxyard-{role} in {time.monotonic() - began:.0f} s: {image.size_bytes / 1e6:.0f} MB")
    if role in FRAMEWORKS:  # gigabytes; `cache_tag` has what a later build reuses
        engine.docker("builder", "prune", "--all", "--force")
    if os.environ.get("CI"):
        return image  # the machine is new each time: nobody would read the file
    part = kept.with_suffix(".part")
    engine.docker("save", "--output", part, built_tag(role), cache_tag(role))
    part.replace(kept)
    for old in earlier:
        old.unlink(missing_ok=True)
    return image


def _load(engine: Engine, kept: Path, role: str) -> bool:
    return (
        kept.exists()
        and engine.docker("load", "--input", kept, check=False).returncode == 0
        and engine.has(built_tag(role))
        and engine.has(cache_tag(role))
    )


def torch_wheel() -> Path:
    """The CPU build of torch for the base's Python, as pip finds it on this machine. Raises BedError."""
    pinned = re.search(r"^torch==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    if pinned is None:
        raise BedError("constraints.txt pins no torch")
    version = f"{pinned.group(1)}+cpu"
    WHEELS.mkdir(parents=True, exist_ok=True)
    if not (found := list(WHEELS.glob(f"torch-{version}-*.whl"))):
        for old in WHEELS.glob("torch-*.whl"):
            old.unlink()
        target = ("--no-deps", "--only-binary", ":all:", "--python-version", BASE_PYTHON, "--dest", str(WHEELS))
        done = run([sys.executable, "-m", "pip", "download", "--quiet", *target, f"torch=={version}"], check=False)
        if done.returncode != 0:
            raise BedError(
                f"pip finds no torch {version} for Python {BASE_PYTHON}, which Bark's image is tested with: name a "
                f"folder that has its wheel, PIP_FIND_LINKS=FOLDER, or an index, PIP_EXTRA_INDEX_URL=…\n{done.stderr}"
            )
        found = list(WHEELS.glob(f"torch-{version}-*.whl"))
    return found[0]


@contextlib.contextmanager
def _environment(engine: Engine) -> Iterator[None]:
    """The task's code calls `docker`: here it is the bed's."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**engine.environment, "PATH": SEARCH}.items():
            patch.setenv(name, value)
        yield


@contextlib.contextmanager
def _alone(role: str) -> Iterator[None]:
    """One process at a time builds what writes the same files; the others wait, and load what it built."""
    with (images.CACHE / f"voxyard-lock-{'wheels' if role in WITH_WHEELS else role}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
