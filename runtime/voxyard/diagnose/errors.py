"""DiagnoseError: the one exception type for errors that a user of the diagnosis can cause."""

from __future__ import annotations

from voxyard.host.errors import UserError


class DiagnoseError(UserError):
    """An error of the diagnosis, with what to do."""
