"""Images of programs that others make: pulled by the hosts by their pinned digest, else local ones that are sent."""

from __future__ import annotations

from pathlib import Path

from fleet.errors import FleetError
from fleet.images import pins
from fleet.images.image import LocalImage, find_image, repository_of

GATEWAY, NODE_EXPORTER = "gateway", "node-exporter"
MONITORING = ("prometheus", "alertmanager", "grafana")
"""Services of a host with the role monitoring."""
THIRD_PARTY = (NODE_EXPORTER, GATEWAY, *MONITORING)
"""Service names; also their entries in the image lock."""
_OTHERWISE = {
    NODE_EXPORTER: "set node_exporter: false for hosts that have their own",
    GATEWAY: "name one that is here: --image gateway=REFERENCE",
}


def find_third_party(name: str, root: Path, given: str | None = None) -> LocalImage:
    """Image of a program as the lock of the repository `root` has it, or the one `given`, by digest or a local one.

    Of one with a digest only that is known here, no layers. Raises FleetError where it is neither pinned nor local.
    """
    pin = pins.read(root / pins.LOCK).get(name) or pins.Pin(pins.sources(root)[name])
    if given is None and pin.digest is not None:
        given = f"{pin.image.rpartition(':')[0]}@{pin.digest}"  # the form of an engine after a pull
    wanted = given or pin.image
    if "@sha256:" in wanted:
        return LocalImage(wanted.rpartition("@")[2], (), 0, repository_of(name), wanted)
    try:
        return find_image(wanted, name)
    except FleetError as error:
        if "no image" not in str(error):
            raise
        own = f"; or {_OTHERWISE[name]}" if name in _OTHERWISE else ""
        raise FleetError(
            f"no image {wanted} on this machine: docker pull it, then hosts get it over SSH; or pin it by digest (make "
            f"images-lock), then the hosts pull it{own}"
        ) from None
