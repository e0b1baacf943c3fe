"""A long-running service of a host's release: the data to start it and to check its health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.images.image import LocalImage


@dataclass(frozen=True, slots=True)
class Service:
    """One service of the compose project; the same `config` means that its container need not be recreated."""

    name: str  # as in the compose file: exporter, bark
    config: str  # 12 hex digits over everything that its container is made of
    image: LocalImage
    address: str  # where it answers
    port: int
    ready: str = "/readyz"  # answers 200 as soon as it can work
    stop_seconds: int = 10  # what it may take to end in order
    healthy_seconds: int = 90  # what its longest start may take
    gpu_limits: Mapping[str, int] = field(default_factory=dict)  # MiB that it may hold, by the GPU's UUID
