"""What can be wrong with a machine: one exception type for the room."""

from __future__ import annotations


class HostError(Exception):
    """A message for the user: what the machine answered, and what to do."""

    exit_code: int = 2
