"""BarkError: the one exception type for errors that a user of the Bark engine can cause."""

from __future__ import annotations

from voxyard.host.errors import UserError


class BarkError(UserError):
    """An error of the engine, with what to do."""
