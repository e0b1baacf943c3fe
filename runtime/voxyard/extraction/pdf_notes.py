"""Footnotes and drop caps of a PDF's pages: notes are parted from the text, large letters join their word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from voxyard.extraction.document import HeadingBlock
from voxyard.extraction.raised import above, settled


@dataclass(frozen=True)
class TextLine:
    """Line of a page: position of its start and font size in points; `down` increases from line to line."""

    text: str
    along: float
    down: float
    size: float
    chapter: HeadingBlock | None = None  # that begins here, by the outline


@dataclass(frozen=True)
class NotedPage:
    """Lines of a page's text, and those of the notes below it."""

    lines: tuple[TextLine, ...]
    notes: tuple[TextLine, ...] = ()


_MARK = re.compile(r"[\[(]?(\d{1,3}|[*†‡§])[\])]?\.?\s+\S")
_SMALLER = 0.93  # times the size of most of the text, at most
_CAP = re.compile(r"[\"“„«‘']?[^\W\d_]")
_TALL = 1.7  # times the size of the line beside it, at least


def noted_pages(pages: Sequence[Sequence[TextLine]]) -> list[NotedPage]:
    """The pages with their notes apart: smaller lines at the end, of which the first begins with a mark.

    Where the mark of a note stands directly after a word or a sign in the text of its page, both marks are left out.
    """
    sizes = Counter[int]()
    for page in pages:
        for line in page:
            sizes[round(line.size)] += len(line.text)
    body = sizes.most_common(1)[0][0] if sizes else 0
    return [_noted(page, body) for page in map(_with_drop_caps, pages)]


def _noted(page: Sequence[TextLine], body: int) -> NotedPage:
    at = len(page)
    while at and page[at - 1].size <= _SMALLER * body:
        at -= 1
    while at < len(page) and _MARK.match(page[at].text) is None:
        at += 1
    lines, notes = list(page[:at]), page[at:]
    if not lines or not notes:
        return NotedPage(_settled(page))
    found = []
    for note in notes:
        mark = _MARK.match(note.text)
        if mark is not None and _remove_mark(lines, mark[1]):
            found.append(replace(note, text=note.text[mark.end() - 1 :]))
        else:
            found.append(note)
    return NotedPage(_settled(lines), _settled(found))


def _settled(lines: Sequence[TextLine]) -> tuple[TextLine, ...]:
    """Lines whose raised figures are exponents, or marks of notes that stand elsewhere, which are silent."""
    return tuple(replace(line, text=settled(line.text)) for line in lines)


def _remove_mark(lines: list[TextLine], mark: str) -> bool:
    glued = re.compile(
        rf"(?<=[^\W\d_]|[.,;:!?)\]”’»\"])(?:{re.escape(mark)}|{re.escape(above(mark))})(?=\s|$|[.,;:!?)”’»\"])"
    )
    for index, line in enumerate(lines):
        found = glued.search(line.text)
        if found is not None and line.text[: found.start()].strip():
            lines[index] = replace(line, text=line.text[: found.start()] + line.text[found.end() :])
            return True
    return False


def _with_drop_caps(page: Sequence[TextLine]) -> list[TextLine]:
    """The lines with each letter that is as tall as several of them at the beginning of the first one beside it."""
    lines = list(page)
    for cap in page:
        if _CAP.fullmatch(cap.text.strip()) is None:
            continue
        beside = [
            line
            for line in lines
            if line is not cap
            and cap.size >= _TALL * line.size
            and cap.down - 1.1 * cap.size <= line.down <= cap.down + 0.2 * cap.size
            and line.along > cap.along
        ]
        first = min(beside, key=lambda line: line.down, default=None)
        if first is not None and first.text[:1].isalpha():
            lines[lines.index(first)] = replace(first, text=cap.text.strip() + first.text)
            lines.remove(cap)
    return lines
