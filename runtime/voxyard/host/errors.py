"""HostError: the one exception type of the host package."""

from __future__ import annotations


class HostError(Exception):
    """A message for the user: what the machine answered, and what to do."""

    exit_code: int = 2
