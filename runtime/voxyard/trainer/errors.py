"""TrainerError: the one exception type for errors that a user of the trainer can cause."""

from __future__ import annotations

from voxyard.host.errors import UserError

HOST_LOST = 75  # EX_TEMPFAIL: exit code of a run to be started again, on all hosts


class TrainerError(UserError):
    """An error of the trainer, with what to do."""
