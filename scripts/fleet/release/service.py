"""Service of a release: data to start it and to check its health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.images.image import LocalImage


@dataclass(frozen=True, slots=True)
class Service:
    """Service of the compose project; an unchanged `config` means its container need not be recreated."""

    name: str  # as in the compose file: exporter, bark
    config: str  # configuration hash, 12 hex digits
    image: LocalImage
    address: str  # listen address
    port: int
    ready: str = "/readyz"  # path that answers 200 when ready
    stop_seconds: int = 10  # graceful stop timeout
    healthy_seconds: int = 90  # start timeout
    gpu_limits: Mapping[str, int] = field(default_factory=dict)  # MiB by GPU UUID
