"""Listener of a host: a TCP port of a deployment, with the service that it is of and the key that sets it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listener:
    """TCP port that a service listens on."""

    what: str  # the speech service
    service: str  # bark
    port: int
    key: str = ""  # of the inventory: bark.port; empty: it cannot be set
