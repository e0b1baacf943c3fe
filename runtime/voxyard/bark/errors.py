"""BarkError: the one exception type for errors that a user of the Bark engine can cause."""

from __future__ import annotations


class BarkError(Exception):
    """A message for the user: what was found, what was expected, what to do. `exit_code` is the command's."""

    exit_code: int = 2
