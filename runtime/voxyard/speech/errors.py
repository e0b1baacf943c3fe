"""SpeechError: the one exception type between a text and its audio."""

from __future__ import annotations


class SpeechError(Exception):
    """A message for the user: what was found, what was expected, what to do. `exit_code` is the command's."""

    exit_code: int = 2
