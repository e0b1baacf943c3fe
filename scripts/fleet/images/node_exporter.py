"""Image of node_exporter: pulled by the hosts by its pinned digest, else a local image that is sent to them."""

from __future__ import annotations

from pathlib import Path

from fleet.errors import FleetError
from fleet.images import pins
from fleet.images.image import LocalImage, find_image, repository_of

NODE_EXPORTER = "node-exporter"
"""Service name and role; also its entry in the image lock, from monitoring's compose file."""


def find_node_exporter(root: Path, given: str | None = None) -> LocalImage:
    """Image of node_exporter as the lock of the repository `root` has it, or the local image `given`.

    Of a pinned one only the digest is known here, no layers. Raises FleetError where it is neither pinned nor local.
    """
    pin = pins.read(root / pins.LOCK).get(NODE_EXPORTER) or pins.Pin(pins.sources(root)[NODE_EXPORTER])
    if given is None and pin.digest is not None:
        digest = f"{pin.image.rpartition(':')[0]}@{pin.digest}"  # the form of an engine after a pull
        return LocalImage(pin.digest, (), 0, repository_of(NODE_EXPORTER), digest)
    name = given or pin.image
    try:
        return find_image(name, NODE_EXPORTER)
    except FleetError as error:
        if "no image" not in str(error):
            raise
        raise FleetError(
            f"no image {name} on this machine: docker pull it, then hosts get it over SSH; or pin it by digest (make "
            "images-lock), then the hosts pull it; or set node_exporter: false for hosts that have their own"
        ) from None
