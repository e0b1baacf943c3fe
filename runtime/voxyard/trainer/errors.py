"""TrainerError: the one exception type for errors that a user of the trainer can cause."""

from __future__ import annotations

HOST_LOST = 75  # EX_TEMPFAIL: exit code of a run to be started again, on all hosts


class TrainerError(Exception):
    """A message for the user: what was found, what was expected, what to do. `exit_code` is the command's."""

    exit_code: int = 2

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
