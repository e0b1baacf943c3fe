"""Images of the monitoring programs: pinned by digest, or local images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fleet.errors import FleetError
from fleet.images import pins
from fleet.images.image import LocalImage, find_image
from fleet.monitoring.release import MonitoringImage

DIGEST = "@sha256:"


def pinned(root: Path) -> dict[str, str]:
    """Pinned images of the repository `root`: name → reference with digest."""
    return {
        pin.image: f"{pin.image.rpartition(':')[0]}@{pin.digest}"  # the form of an engine after a pull
        for pin in pins.read(root / pins.LOCK).values()
        if pin.digest is not None
    }


def find(
    wanted: Mapping[str, str],
    pinned: Mapping[str, str],
    local: Callable[[str, str], LocalImage] = find_image,
) -> dict[str, MonitoringImage]:
    """Image of each program: pinned, else local.

    `wanted`: image names by program; `pinned`: references with digest by name. Raises FleetError with all missing
    images.
    """
    found: dict[str, MonitoringImage] = {}
    missing: list[str] = []
    for program, name in wanted.items():
        reference = name if DIGEST in name else pinned.get(name)
        if reference is not None:
            found[program] = MonitoringImage(reference)
            continue
        try:
            image = local(name, program)
        except FleetError as error:
            if "no image" not in str(error):
                raise
            missing.append(name)
        else:
            found[program] = MonitoringImage(image.release_tag, image)
    if missing:
        raise FleetError(
            f"no image {', '.join(missing)} on this machine: docker pull it, then hosts get it over SSH; or pin it by "
            "digest (make images-lock), then the hosts pull it"
        )
    return found
