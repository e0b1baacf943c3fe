"""Documents that a command speaks: a file, or standard input."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from voxyard.extraction.document import CodeBlocks
    from voxyard.extraction.extract import ExtractedText

MAX_CHARACTERS = 20_000_000  # of a document: about three weeks of speech


def read_document(file: Path, code: CodeBlocks = "skip") -> ExtractedText:
    """Contents of a text, Markdown, HTML, EPUB, PDF, Word, ODT, RTF or FB2 file; of standard input for `-`.

    Raises ExtractionError. `code` says whether blocks of code are left out or announced.
    """
    from voxyard.extraction.extract import extract, extract_file

    if str(file) == "-":
        return extract(io.BytesIO(sys.stdin.buffer.read()), None, None, max_characters=MAX_CHARACTERS, code=code)
    return extract_file(file, max_characters=MAX_CHARACTERS, code=code)
