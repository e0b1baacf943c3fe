"""Marks that nobody speaks: soft hyphens, tables, escaped and highlighted words of Markdown; letters of full width."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from voxyard.speech.reading.markup import Edit

Words = Callable[[re.Match[str]], str | None]

_UNSEEN = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff]+")
_ESCAPED = re.compile(r"(?<![\w\\:/.])\\[*_`~](?=\w)|(?<=[\w.,;:!?)])\\[*_`~](?![\w\\]|\.\w)")
_HIGHLIGHT = re.compile(r"(?<![\w=!<>])==(?=[^\s=][^=\n]{0,200}==(?![\w=]))")
_END_OF_HIGHLIGHT = re.compile(r"(?<=[\w.,!?)])==(?![\w=])")
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])[`´](?=[^\W\d_])")
_RULE_OF_TABLE = re.compile(
    r"^[^\S\n]*\|?(?:[^\S\n]*:?-{2,}:?[^\S\n]*\|)+(?:[^\S\n]*:?-{2,}:?)?[^\S\n]*$", re.MULTILINE
)
_BAR = re.compile(r"[^\S\n]*\|[^\S\n]*")
_ROW = re.compile(r"[^\S\n]*\|[^\n]*\|[^\S\n]*")
_WIDE = re.compile("[Ａ-Ｚａ-ｚ][Ａ-Ｚａ-ｚ０-９]*")


def patterns() -> list[tuple[re.Pattern[str], Words, str]]:
    """Patterns of marks with what is said in their place, mostly nothing, and what a text with one has in any case."""
    return [
        (_UNSEEN, _silent, ""),
        (_ESCAPED, _silent, "\\"),
        (_HIGHLIGHT, _silent, "=="),
        (_END_OF_HIGHLIGHT, _closing, "=="),
        (_APOSTROPHE, lambda _: "'", ""),  # don´t
        (_RULE_OF_TABLE, _silent, "--"),
        (_BAR, _bar, "|"),
    ]


def narrow(text: str, taken: Iterable[Edit]) -> Iterator[Edit]:
    """Edits that put letters of full width, of which nothing else was read, into usual ones: ＮＡＴＯ."""
    spans = [(edit.start, edit.end) for edit in taken]
    for found in _WIDE.finditer(text):
        if not any(start < found.end() and found.start() < end for start, end in spans):
            yield Edit(*found.span(), unicodedata.normalize("NFKC", found[0]))


def _silent(_: re.Match[str]) -> str:
    return ""


def _closing(found: re.Match[str]) -> str | None:
    """The second mark of a highlighted word; one without the first stays."""
    start = max(found.string.rfind("\n", 0, found.start()) + 1, found.start() - 203)
    return "" if _HIGHLIGHT.search(found.string, start, found.end()) else None


_LONGEST_ROW = 1000  # characters


def _bar(found: re.Match[str]) -> str | None:
    """A comma between two cells of a table, and the end of a row as that of a sentence."""
    text, low, high = found.string, max(0, found.start() - _LONGEST_ROW), found.end() + _LONGEST_ROW
    start = text.rfind("\n", low, found.start()) + 1
    end = text.find("\n", found.end(), high)
    end = len(text) if end < 0 else end
    if (not start and low) or end > high or not _ROW.fullmatch(text, start, end):
        return None
    above = text.rfind("\n", max(0, start - _LONGEST_ROW), max(0, start - 1)) + 1
    below = text.find("\n", end + 1, end + _LONGEST_ROW)
    below = min(len(text), end + _LONGEST_ROW) if below < 0 else below
    if not _ROW.fullmatch(text, above, max(0, start - 1)) and not _ROW.fullmatch(text, min(end + 1, below), below):
        return None
    if not text[start : found.start()].strip():
        return ""
    last = not text[found.end() : end].strip()
    said = text[found.start() - 1 : found.start()]
    return ("." if said.isalnum() or said in "%)" else "") if last else ", "
