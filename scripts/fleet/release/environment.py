"""Environment file of a release: the variables of its compose files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.inventory.hosts import Host

ENVIRONMENT_FILE = "voxyard.env"
USER_ID = 65532
"""User and group of the containers, as in the images: nobody logs in as it, and it owns what containers write."""


@dataclass(frozen=True, slots=True)
class LoginInfo:
    """Login data of a host that its release depends on."""

    address: str  # of the SSH login; default listen address of the services
    gpus: bool
    memory_mib: int | None = None  # of the host; None: not known, nothing is derived from it


def exporter_address(host: Host, login_info: LoginInfo) -> str:
    """Listen address of the exporter, and of other metrics."""
    return host.exporter_address or login_info.address


def to_bytes(values: Mapping[str, str]) -> bytes:
    """Content of the environment file."""
    return "".join(f"{name}={_quoted(value)}\n" for name, value in values.items()).encode()


def _quoted(value: str) -> str:
    """Value without interpolation or comment; `'` cannot be quoted, and stands in no value."""
    return f"'{value}'" if re.search(r"[\s$#\"\\`]", value) else value
