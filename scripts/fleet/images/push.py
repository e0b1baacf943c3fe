"""Push images to a registry; record of built and pushed images (build/images.json)."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from fleet.errors import FleetError
from fleet.images.image import NO_DOCKER, REVISION_LABEL, LocalImage, docker
from fleet.images.registry import NoSuchImageError, find_published, published_name

RECORD = Path("build/images.json")
_REGISTRY = re.compile(r"(localhost|[a-z0-9-]*[.:][a-z0-9.:-]*)(/[a-z0-9][a-z0-9._-]*)*")


def push(
    image: LocalImage,
    role: str,
    registry: str,
    version: str | None = None,
    *,
    replace: bool = False,
    find: Callable[[str, str], LocalImage] = find_published,
) -> LocalImage:
    """Push the image to REGISTRY/voxyard-ROLE:VERSION, by default its id; returns it as the registry has it.

    `version` is the commit of its sources. An image that is there already is not pushed again; another one under the
    same name is kept, unless `replace`. Raises FleetError.
    """
    check_registry(registry)
    name = published_name(registry, role, version) if version else f"{registry}/{image.release_tag}"
    try:
        there = find(name, role)
    except NoSuchImageError:
        there = None
    if there is not None and _same(there, image):
        return there
    if there is not None and not replace:
        raise FleetError(
            f"{name} is another image ({there.id[:19]}) than the one built here ({image.id[:19]}), built from other "
            "inputs: base, framework, wheels, packages of the distribution. Deploys use the one in the registry; "
            "--replace replaces it"
        )
    docker("tag", image.id, name)
    try:
        # The layers' progress goes to standard error: standard output is for results.
        done = subprocess.run(["docker", "push", name], stdout=2, check=False)
    except FileNotFoundError:
        raise FleetError(NO_DOCKER) from None
    if done.returncode != 0:
        raise FleetError(f"{name} was not pushed (docker push exited with {done.returncode}), see its output above")
    pushed = find(name, role)
    if not _same(pushed, image):
        raise FleetError(f"{name} was pushed, but the registry has another image there: somebody else pushed it, too")
    return pushed


def check_registry(registry: str) -> None:
    """Raises FleetError for a registry that is not HOST or HOST/PATH."""
    if not _REGISTRY.fullmatch(registry):
        raise FleetError(
            f"{registry}: expected a registry as HOST or HOST/PATH in lower case (docker.io/NAME), without https://, "
            "tag and trailing slash"
        )


def _same(one: LocalImage, other: LocalImage) -> bool:
    """True for one image, also where two engines name it differently: by its configuration, by its manifest."""
    return (one.layers, one.environment, one.labels) == (other.layers, other.environment, other.labels)


def write_record(path: Path, images: Mapping[str, LocalImage]) -> None:
    """Write the images, by role, to the file; entries of other roles stay. Raises FleetError for an invalid file."""
    everything = {**(read_record(path) if path.exists() else {}), **images}
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {role: _entry(image) for role, image in sorted(everything.items())}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, LocalImage]:
    """Images of the record, by role. Raises FleetError for a missing or invalid file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {
            role: LocalImage(
                each["id"],
                tuple(each["layers"]),
                each["size_bytes"],
                each["repository"],
                each["digest"],
                labels=((REVISION_LABEL, each["revision"]),) if each.get("revision") else (),
            )
            for role, each in document.items()
        }
    except FileNotFoundError:
        raise FleetError(f"{path}: no such file: build the images with make images") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FleetError(f"{path}: not an image record ({error}): remove it, then run make images") from error


def _entry(image: LocalImage) -> dict[str, object]:
    names = ("id", "layers", "size_bytes", "repository", "digest", "reference")
    return {**{name: getattr(image, name) for name in names}, "revision": image.label(REVISION_LABEL)}
