"""Extraction errors, shared by the service and the command line."""

from __future__ import annotations

FORMATS = "TXT, Markdown, HTML, EPUB, PDF, DOCX, ODT, RTF or FB2"
"""Types of files that are read."""


class ExtractionError(Exception):
    """No text could be extracted; the message says what was found, what was expected and what to do."""

    exit_code = 2  # of a command


class UnreadableFileError(ExtractionError):
    """Broken, encrypted, without text, over the limits, or of another type than its name says."""


class UnsupportedFileError(ExtractionError):
    """Unsupported file type."""


class TextTooLongError(ExtractionError):
    """More characters than the limit."""


class ExtractionCancelledError(ExtractionError):
    """Nobody wants the text any more."""


class ReaderUnavailableError(ExtractionError):
    """The library for this file type is missing, or the child process did not start."""
