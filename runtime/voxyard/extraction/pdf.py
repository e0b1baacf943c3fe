"""PDF reader: paragraphs from the positions of the lines; runs in the child process of `sandbox`."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from pypdf import PdfReader
from pypdf.errors import DependencyError, LimitReachedError, PyPdfError

from voxyard.extraction.errors import ReaderUnavailableError, TextTooLongError, UnreadableFileError
from voxyard.extraction.pdf_paragraphs import TextLine, paragraphs

_SAVE_AGAIN = "open it in a PDF program, print or save it as a new PDF and send that"
_LEFT_OUT = re.compile(r"impossible to decode xform.*limit|exceeded \d+ form", re.IGNORECASE | re.DOTALL)
_LETTERS = {  # ligatures and special hyphens
    0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st",
    0x2010: "-", 0x2011: "-",
}  # fmt: skip
_MAX_UNKNOWN = 0.3  # of a document's characters


def read_pdf(content: BinaryIO, *, max_characters: int) -> tuple[str | None, str]:
    """Title in a PDF's properties, None without one, and the text of its pages in order.

    Raises:
        UnreadableFileError: broken, encrypted, without pages or text, or beyond pypdf's limits.
        TextTooLongError: far more than `max_characters`.
        ReaderUnavailableError: a library for its encryption is missing.
    """
    limit_warnings = _LimitWarnings()
    logging.getLogger("pypdf").addHandler(limit_warnings)
    logging.getLogger("pypdf").propagate = False
    try:
        reader = PdfReader(content)
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableFileError(
                "encrypted with a password; expected a PDF that opens without one:"
                " save it without a password and send that"
            )
        pages = _pages(reader, max_characters, limit_warnings)
        text = paragraphs(pages)
        _check_text(text, len(pages))
        return _title(reader), text
    except DependencyError as error:
        raise ReaderUnavailableError(f"PDF files with this encryption cannot be read here: {error}") from error
    except NotImplementedError as error:
        raise UnreadableFileError(f"unsupported PDF feature ({error}): {_SAVE_AGAIN}") from error
    except LimitReachedError as error:
        raise UnreadableFileError(f"reading it exceeds a limit ({error}): {_SAVE_AGAIN}") from error
    except RecursionError as error:
        raise UnreadableFileError(f"cyclic references between its objects: {_SAVE_AGAIN}") from error
    except PyPdfError as error:
        raise UnreadableFileError(f"broken PDF structure ({error}): {_SAVE_AGAIN}") from error


def _pages(reader: PdfReader, max_characters: int, limit_warnings: _LimitWarnings) -> list[list[TextLine]]:
    pages, length = [], 0
    for number, page in enumerate(reader.pages, 1):
        seen = _Page()
        page.extract_text(visitor_text=seen.add)
        lines = seen.lines()
        length += sum(len(line.text) for line in lines)
        if length > 2 * max_characters:  # the exact length is known after removing page numbers and hyphens
            raise TextTooLongError(f"the text has more than {max_characters} characters: split the document")
        if limit_warnings.messages:
            raise UnreadableFileError(
                f"reading page {number} exceeds a limit ({limit_warnings.messages[0]}): {_SAVE_AGAIN}"
            )
        pages.append(lines)
    if not pages:
        raise UnreadableFileError(f"no pages: {_SAVE_AGAIN}")
    return pages


@dataclass
class _Page:
    """Pieces of a page's text as reported by pypdf, assembled into lines."""

    pieces: list[tuple[str, float, float, float]] = field(default_factory=list)

    def add(self, text: str, cm: Sequence[float], tm: Sequence[float], _font: Any, font_size: float) -> None:
        """Adds a piece of text with the transformation and text matrices at its start, and its font size."""
        if not text:
            return
        a, b, c, d = (  # the upper left of the product of both matrices
            tm[0] * cm[0] + tm[1] * cm[2], tm[0] * cm[1] + tm[1] * cm[3],
            tm[2] * cm[0] + tm[3] * cm[2], tm[2] * cm[1] + tm[3] * cm[3],
        )  # fmt: skip
        x, y = tm[4] * cm[0] + tm[5] * cm[2] + cm[4], tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
        width, height = math.hypot(a, b) or 1.0, math.hypot(c, d) or 1.0
        along = (x * a + y * b) / width  # in the direction of writing, independent of the page's rotation
        down = -(x * c + y * d) / height
        self.pieces.append((text, along, down, font_size * height))

    def lines(self) -> list[TextLine]:
        """Non-blank lines, each at the position of its first piece."""
        lines: list[TextLine] = []
        pieces: list[tuple[str, float, float, float]] = []
        for text, along, down, size in [*self.pieces, ("\n", 0.0, 0.0, 0.0)]:
            first, *others = text.split("\n")
            pieces.append((first, along, down, size))
            for part in others:
                lines += _line(pieces)
                pieces = [(part, along, down, size)]
        return lines


def _line(pieces: list[tuple[str, float, float, float]]) -> list[TextLine]:
    """Line at the position of its first letter, in its most common font size; none where it is blank."""
    text = " ".join("".join(piece[0] for piece in pieces).split())
    if not text:
        return []
    along, down = next((along, down) for part, along, down, _ in pieces if part.strip())
    sizes: Counter[float] = Counter()
    for part, _, _, size in pieces:
        sizes[size] += len(part.strip())
    return [TextLine(text.translate(_LETTERS), along, down, sizes.most_common(1)[0][0])]


class _LimitWarnings(logging.Handler):
    """Keeps pypdf's warnings that it skipped part of a page because of a limit; drops the others."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if _LEFT_OUT.search(message):
            self.messages.append(message)


def _check_text(text: str, pages: int) -> None:
    letters = [c for c in text if not c.isspace()]
    unknown = sum(c == "\ufffd" or "\ue000" <= c <= "\uf8ff" or c < " " for c in letters)
    if letters and unknown >= _MAX_UNKNOWN * len(letters):
        raise UnreadableFileError(
            "its fonts have no character mapping, so its text cannot be extracted: run text"
            " recognition (OCR) on it, or send the original document"
        )
    if not any(c.isalnum() for c in letters):
        raise UnreadableFileError(
            f"no text on its {pages} page{'s' * (pages > 1)}, perhaps scanned images: run text"
            " recognition (OCR) on it and send the resulting PDF"
        )


def _title(reader: PdfReader) -> str | None:
    """Title property; None where it is missing or broken."""
    try:
        return reader.metadata.title if reader.metadata else None
    except (PyPdfError, ValueError, TypeError, AttributeError):
        return None
