"""Images of the monitoring programs: pinned by their digests, or those that this machine's engine has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fleet.errors import FleetError
from fleet.images import pins
from fleet.images.image import LocalImage, find_image
from fleet.monitoring.release import MonitoringImage

DIGEST = "@sha256:"


def pinned(root: Path) -> dict[str, str]:
    """The images that the lock of the repository `root` has a digest for: name → what names exactly that one."""
    return {
        pin.image: f"{pin.image.rpartition(':')[0]}@{pin.digest}"  # as an engine names what it has pulled
        for pin in pins.read(root / pins.LOCK).values()
        if pin.digest is not None
    }


def find(
    wanted: Mapping[str, str],
    pinned: Mapping[str, str],
    local: Callable[[str, str], LocalImage] = find_image,
) -> dict[str, MonitoringImage]:
    """An image for each program: what `pinned` says of its name, else one that is here.

    `wanted` are names by program, `pinned` references with a digest by name. Raises FleetError with all that are
    neither, and what to do.
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
            f"no image {', '.join(missing)} here: pull it (docker pull …), and it is sent to the hosts; or pin it by "
            "its digest (make images-lock), and they pull it themselves"
        )
    return found
