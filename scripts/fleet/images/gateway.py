"""Image of the gateway: HAProxy's own."""

from __future__ import annotations

from pathlib import Path

from fleet.images.image import LocalImage
from fleet.images.pinned_image import find_pinned

GATEWAY = "gateway"
"""Service name and role; also its entry in the image lock, from its compose file."""


def find_gateway(root: Path, given: str | None = None) -> LocalImage:
    """Image of the gateway. Raises FleetError as `find_pinned` does."""
    return find_pinned(GATEWAY, root, given, otherwise="name one that is here: --image gateway=REFERENCE")
