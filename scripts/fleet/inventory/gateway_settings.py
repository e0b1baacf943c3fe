"""Gateway settings of the inventory, and the speech services that a gateway leads to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fleet.inventory.types import Address, Between, Port

LAME_DUCK_SECONDS = 10
"""Time in which a speech service that is to stop still accepts requests: longer than a gateway takes to notice."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """TLS gateway of one host."""

    port: Port = 443
    address: Address | None = None  # it listens on; None: the address of the SSH login
    metrics_port: Port = 9412
    wait_seconds: Annotated[int, Between("seconds", 1, 3600)] = 180  # for a host that restarts


@dataclass(frozen=True, slots=True)
class Upstream:
    """Speech service behind a gateway."""

    name: str  # of its host, which is the instance of the service
    address: str
    port: int
    secrets: tuple[Path, ...] = ()  # files of its host
    store: str | None = None  # database of its documents; None: they are its own
