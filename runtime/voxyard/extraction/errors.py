"""Extraction errors, shared by the service and the command line."""

from __future__ import annotations


class ExtractionError(Exception):
    """No text could be extracted; the message says what was found, what was expected and what to do.

    `retry_after` gives the seconds until a retry makes sense, `exit_code` is the command's.
    """

    exit_code = 2

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnreadableFileError(ExtractionError):
    """Broken, encrypted, without text, over the limits, or of another type than its name says."""


class UnsupportedFileError(ExtractionError):
    """Unsupported file type."""


class TextTooLongError(ExtractionError):
    """More characters than the limit."""


class ReaderBusyError(ExtractionError):
    """All child processes are in use."""


class ExtractionCancelledError(ExtractionError):
    """Nobody wants the text any more."""


class ReaderUnavailableError(ExtractionError):
    """The library for this file type is missing, or the child process did not start."""
