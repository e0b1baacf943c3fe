"""Extraction errors: one family, for the service and the command line alike."""

from __future__ import annotations


class ExtractionError(Exception):
    """No text from this document; the message says what was found, what was expected and what to do.

    `retry_after` gives the seconds after which another try makes sense, `exit_code` is the command's.
    """

    exit_code = 2

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnreadableFileError(ExtractionError):
    """Broken, encrypted, without text, beyond the limits, or of another kind than its name says."""


class UnsupportedFileError(ExtractionError):
    """A kind of file that is not read here."""


class TextTooLongError(ExtractionError):
    """More characters than the caller takes."""


class ReaderBusyError(ExtractionError):
    """Other documents are being read, and take long."""


class ReaderUnavailableError(ExtractionError):
    """The library that reads this kind of file is missing, or its process did not start."""
