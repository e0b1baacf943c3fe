"""Documents that a command speaks: a file, or standard input."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from voxyard.extraction.document import CodeBlocks
    from voxyard.extraction.extract import ExtractedText

MAX_CHARACTERS = 20_000_000  # of a document: about three weeks of speech
_SHOWN = 250  # characters of a name in a message: it may be a text


def read_document(file: Path, code: CodeBlocks = "skip") -> ExtractedText:
    """Contents of a text, Markdown, HTML, EPUB, PDF, Word, ODT, RTF or FB2 file; of standard input for `-`.

    Raises ExtractionError. `code` says whether blocks of code are left out or announced.
    """
    from voxyard.extraction.errors import FORMATS, UnreadableFileError
    from voxyard.extraction.extract import extract, extract_file

    if str(file) == "-":
        if sys.stdin is None:
            raise UnreadableFileError("standard input is closed: name a file, or send the text to it")
        return extract(sys.stdin.buffer.read(), None, None, max_characters=MAX_CHARACTERS, code=code)
    if not os.path.lexists(file):  # unlike Path's it takes any text
        name = str(file)
        raise UnreadableFileError(
            f"there is no file {name[:_SHOWN]}{'…' * (len(name) > _SHOWN)}: expected a {FORMATS} file; a text itself "
            "goes to standard input, with - as the file: echo 'Good morning.' | voxyard …"
        )
    return extract_file(file, max_characters=MAX_CHARACTERS, code=code)
