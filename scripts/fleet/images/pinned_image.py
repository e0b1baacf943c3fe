"""Images that others make: pulled by the hosts by their pinned digest, else local images that are sent to them."""

from __future__ import annotations

from pathlib import Path

from fleet.errors import FleetError
from fleet.images import pins
from fleet.images.image import LocalImage, find_image, repository_of


def find_pinned(name: str, root: Path, given: str | None = None, *, otherwise: str) -> LocalImage:
    """Image of the service `name` as the lock of the repository `root` has it, or the local image `given`.

    Of a pinned one only the digest is known here, no layers. Raises FleetError where it is neither pinned nor local;
    `otherwise` is the last way out.
    """
    pin = pins.read(root / pins.LOCK).get(name) or pins.Pin(pins.sources(root)[name])
    if given is None and pin.digest is not None:
        digest = f"{pin.image.rpartition(':')[0]}@{pin.digest}"  # the form of an engine after a pull
        return LocalImage(pin.digest, (), 0, repository_of(name), digest)
    wanted = given or pin.image
    try:
        return find_image(wanted, name)
    except FleetError as error:
        if "no image" not in str(error):
            raise
        raise FleetError(
            f"no image {wanted} on this machine: docker pull it, then hosts get it over SSH; or pin it by digest (make "
            f"images-lock), then the hosts pull it; or {otherwise}"
        ) from None
