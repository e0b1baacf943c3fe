"""Errors for the user of a command, and that of the host package."""

from __future__ import annotations


class UserError(Exception):
    """A message for the user: what was found, what was expected, what to do. `exit_code` is the command's."""

    exit_code: int = 2

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class HostError(UserError):
    """What the machine answered, and what to do."""
