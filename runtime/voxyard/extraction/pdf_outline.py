"""Outline of a PDF: the chapters that it names, at the lines of the pages where they begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pypdfium2 import PdfDocument, PdfiumError, raw

from voxyard.extraction.document import HeadingBlock
from voxyard.extraction.epub_contents import is_same
from voxyard.extraction.pdf_notes import TextLine

_DEEPEST = 4
_MOST = 5000  # entries
_MOST_LINES = 3  # of a title
_PLACE_WITH_HEIGHT = {raw.PDFDEST_VIEW_XYZ: 1, raw.PDFDEST_VIEW_FITH: 0, raw.PDFDEST_VIEW_FITR: 3}


@dataclass(frozen=True)
class OutlineEntry:
    """An entry: its title, its level (1 for the highest), and how far down its page it is, in points, if it says so."""

    title: str
    level: int
    down: float | None


def outline_of(pdf: PdfDocument) -> dict[int, list[OutlineEntry]]:
    """Entries of the outline by the index of their page; none of one that is broken."""
    found: dict[int, list[OutlineEntry]] = {}
    try:
        for number, bookmark in enumerate(pdf.get_toc(max_depth=_DEEPEST)):
            place = bookmark.get_dest()
            page = None if place is None else place.get_index()
            title = " ".join(bookmark.get_title().split())
            if number >= _MOST:
                break
            if place is None or page is None or not title:
                continue
            view, values = place.get_view()
            at = _PLACE_WITH_HEIGHT.get(view)
            height = values[at] if at is not None and len(values) > at else 0.0
            found.setdefault(page, []).append(OutlineEntry(title, bookmark.level + 1, -height if height else None))
    except PdfiumError:
        return {}
    return found


def with_outline(lines: Sequence[TextLine], entries: Sequence[OutlineEntry]) -> list[TextLine]:
    """The lines of a page, each that begins a chapter with it; a title of several lines is one.

    Without a line of its words a chapter begins at the first line that is not above its place.
    """
    kept = list(lines)
    for entry in entries:
        chapter = HeadingBlock(entry.title, entry.level, entry.level)
        found = _title(kept, entry.title)
        if found is not None:
            at, count = found
            text = " ".join(line.text for line in kept[at : at + count])
            kept[at : at + count] = [replace(kept[at], text=text, chapter=chapter)]
            continue
        below = (at for at, line in enumerate(kept) if entry.down is None or line.down >= entry.down - line.size / 2)
        if (first := next(below, None)) is not None and kept[first].chapter is None:
            kept[first] = replace(kept[first], chapter=chapter)
    return kept


def _title(lines: Sequence[TextLine], title: str) -> tuple[int, int] | None:
    """The first line of a title, and how many it has."""
    for at in range(len(lines)):
        for count in range(1, _MOST_LINES + 1):
            if lines[at].chapter is None and is_same(title, " ".join(line.text for line in lines[at : at + count])):
                return at, min(count, len(lines) - at)
    return None
