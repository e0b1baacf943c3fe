"""Image of node_exporter."""

from __future__ import annotations

from pathlib import Path

from fleet.images.image import LocalImage
from fleet.images.pinned_image import find_pinned

NODE_EXPORTER = "node-exporter"
"""Service name and role; also its entry in the image lock, from monitoring's compose file."""


def find_node_exporter(root: Path, given: str | None = None) -> LocalImage:
    """Image of node_exporter. Raises FleetError as `find_pinned` does."""
    return find_pinned(NODE_EXPORTER, root, given, otherwise="set node_exporter: false for hosts that have their own")
