"""Push images to a registry; record of built and pushed images (build/images.json)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from fleet.errors import FleetError
from fleet.images.image import NO_DOCKER, LocalImage, docker, find_image

RECORD = Path("build/images.json")


def push(image: LocalImage, role: str, registry: str) -> LocalImage:
    """Push the image to REGISTRY/voxyard-ROLE; returns it with its digest. Raises FleetError.

    The tag contains the image id: pushing the same image again changes nothing.
    """
    if "://" in registry or registry.endswith("/"):
        raise FleetError(f"{registry}: expected a registry as HOST or HOST/PATH, without https:// and trailing slash")
    name = f"{registry}/{image.release_tag}"
    docker("tag", image.id, name)
    try:
        # The layers' progress goes to standard error: standard output is for results.
        done = subprocess.run(["docker", "push", name], stdout=2, check=False)
    except FileNotFoundError:
        raise FleetError(NO_DOCKER) from None
    if done.returncode != 0:
        raise FleetError(f"{name} was not pushed (docker push exited with {done.returncode}), see its output above")
    pushed = find_image(image.id, role, registry=registry)
    if pushed.digest is None:
        raise FleetError(f"{name} was pushed, but the engine reports no digest: check docker image inspect {name}")
    return pushed


def write_record(path: Path, images: Mapping[str, LocalImage]) -> None:
    """Write the images, by role, to the file; entries of other roles stay. Raises FleetError for an invalid file."""
    everything = {**(read_record(path) if path.exists() else {}), **images}
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {role: asdict(image) | {"reference": image.reference} for role, image in sorted(everything.items())}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, LocalImage]:
    """Images of the record, by role. Raises FleetError for a missing or invalid file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {
            role: LocalImage(each["id"], tuple(each["layers"]), each["size_bytes"], each["repository"], each["digest"])
            for role, each in document.items()
        }
    except FileNotFoundError:
        raise FleetError(f"{path}: no such file: build the images with make images") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FleetError(f"{path}: not an image record ({error}): remove it, then run make images") from error
