"""Paragraphs of a text, and the full stop that an engine gets where one ends without a mark, as headings do."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

Span = tuple[int, int]

_SPACE = re.compile(r"\s+")
_LINE_END = re.compile(r"\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
_PAGE_OR_PARAGRAPH = re.compile(r"[\x0c\u2029]")
_CLOSING = frozenset("\"'”’»“«‘›‹」』》〉】)]}）］")


def paragraphs(text: str, chapters: Sequence[int]) -> list[Span]:
    """Spans between empty lines, page breaks, chapters and Unicode's paragraph ends; blanks around them left out."""
    breaks = [0, *(min(max(start, 0), len(text)) for start in chapters)]
    breaks += [blank.end() for blank in _SPACE.finditer(text) if _parts_paragraphs(text, *blank.span())]
    spans = (trim(text, start, end) for start, end in pairwise([*sorted(breaks), len(text)]))
    return [(start, end) for start, end in spans if start < end]


def trim(text: str, start: int, end: int) -> Span:
    """The span without the blanks at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def lacks_mark(text: str, end: int) -> bool:
    """True where a letter or a figure, in quotes or brackets or not, is the last of the text before `end`."""
    while end and text[end - 1] in _CLOSING:
        end -= 1
    return end > 0 and unicodedata.category(text[end - 1])[0] in "LMN"


def with_full_stops(text: str) -> str:
    """The text with a full stop after each paragraph but the last that ends without a mark.

    Two paragraphs of one chunk are then two sentences to the engine: `Chapter one` is spoken as a heading.
    """
    pieces, at = list[str](), 0
    for blank in _SPACE.finditer(text):
        if _parts_paragraphs(text, *blank.span()) and lacks_mark(text, blank.start()):
            pieces += [text[at : blank.start()], _full_stop(text[blank.start() - 1])]
            at = blank.start()
    return "".join([*pieces, text[at:]])


def ends_paragraph(text: str, at: int) -> bool:
    """True where the blanks around this position, if there are any, stand between two paragraphs."""
    start = end = at
    while start and text[start - 1].isspace():
        start -= 1
    while end < len(text) and text[end].isspace():
        end += 1
    return _parts_paragraphs(text, start, end)


def _parts_paragraphs(text: str, start: int, end: int) -> bool:
    """True where the blanks [start, end) stand between two paragraphs."""
    lines = sum(1 for _ in _LINE_END.finditer(text, start, end))
    return lines >= 2 or _PAGE_OR_PARAGRAPH.search(text, start, end) is not None


def _full_stop(letter: str) -> str:
    """Full stop of the script of a letter."""
    code = ord(letter)
    if 0x0900 <= code <= 0x097F:
        return "।"
    wide = unicodedata.east_asian_width(letter) in "WF" and not 0xAC00 <= code <= 0xD7A3
    return "。" if wide else "."
