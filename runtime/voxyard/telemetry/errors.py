"""What can go wrong while telling others what runs here: one exception type for the room."""

from __future__ import annotations


class TelemetryError(Exception):
    """A message for the user: what was found, and what to do."""
