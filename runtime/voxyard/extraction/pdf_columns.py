"""Two columns of a PDF's page that are drawn row by row: found by their gutter, and read one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from voxyard.extraction.pdf_notes import TextLine

WIDE = 0.7
"""Least width of a gap between two words that may be a gutter, in font sizes; blanks between words are narrower."""

_SAMPLES = 16  # lines of a page that are measured before all are
_FEWEST_LINES = 5
_FEWEST_ROWS = 4  # in both columns side by side
_MIDDLE = (0.3, 0.7)  # of the width of the text: the second column begins there
_SAME_START = 2.0  # points
_NARROWEST = 0.6  # of the other column's width
_FULL = 0.75  # of a column's width
_MOSTLY_FULL = 0.6  # of the lines of a column, but for those that end a paragraph
_WORDS = 3  # of half of the lines of a column
_CONTINUES = 0.35  # of the lines of prose begin with a small letter; German has the least
_APART = 1.8  # times the usual distance of rows
_OTHER_GAPS = 0.2  # of the rows may have a second gap: those of tables have


@dataclass(frozen=True)
class Gap:
    """Gap within a line, after so many of its words, from the end of one to the start of the next, in points."""

    words: int
    start: float
    end: float


@dataclass(frozen=True)
class LineExtent:
    """End of a line, in points, and its wide gaps."""

    end: float
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class _Row:
    """Line of a page: what of it lies left and right of the gutter, None where nothing does; both None: across it."""

    line: TextLine
    left: TextLine | None = None
    right: TextLine | None = None
    ends: tuple[float, float] = (0.0, 0.0)  # of the two
    gaps: int = 0  # beside the gutter

    @property
    def crosses(self) -> bool:
        return self.left is None and self.right is None


def in_reading_order(lines: Sequence[TextLine], extent: Callable[[int], LineExtent | None]) -> list[TextLine]:
    """The lines of a page, those of two columns that are drawn row by row cut at the gutter, and ordered by columns.

    Columns are prose: of about the same width, their lines mostly full and going on in the next one. All else stays as
    it is drawn: tables, contents, columns that are drawn one after the other. `extent(n)` measures line n; None where
    that is not written from left to right. It is asked for a few lines where a page has no sign of columns.
    """
    if len(lines) < _FEWEST_LINES or not _may_have_columns(lines, extent):
        return list(lines)
    extents = [extent(number) for number in range(len(lines))]
    measured = [each for each in extents if each is not None]
    start = _second_column(lines, measured) if len(measured) == len(lines) else None
    if start is None:
        return list(lines)
    rows = [_row(line, each, start) for line, each in zip(lines, measured, strict=True)]
    return [line for band in _bands(rows) for line in _ordered(band, start)]


def _may_have_columns(lines: Sequence[TextLine], extent: Callable[[int], LineExtent | None]) -> bool:
    """True where some of a page's lines have a wide gap, or begin where the second column might."""
    leftmost, rightmost = min(line.along for line in lines), max(line.along for line in lines)
    sampled = range(0, len(lines), max(1, len(lines) // _SAMPLES))
    found = [extent(number) for number in sampled]
    gaps = sum(each is not None and bool(each.gaps) for each in found)
    second = sum(line.along > (leftmost + rightmost) / 2 for line in lines)
    return gaps >= len(found) / 6 or second >= len(lines) / 4


def _second_column(lines: Sequence[TextLine], extents: Sequence[LineExtent]) -> float | None:
    """Start of the lines of a second column: of most that begin in the middle; None without one."""
    leftmost, rightmost = min(line.along for line in lines), max(each.end for each in extents)
    low, high = (leftmost + share * (rightmost - leftmost) for share in _MIDDLE)
    starts = [line.along for line in lines] + [gap.end for each in extents for gap in each.gaps]
    places = Counter(round(start) for start in starts if low <= start <= high)
    if not places:
        return None
    place = max(places, key=lambda at: (sum(places[near] for near in (at - 1, at, at + 1)), -at))
    count = sum(places[near] for near in (place - 1, place, place + 1))
    return place - 1.0 if count >= _FEWEST_ROWS else None


def _row(line: TextLine, extent: LineExtent, start: float) -> _Row:
    """The line with its parts on both sides of the gutter before `start`."""
    if line.along >= start - _SAME_START:
        return _Row(line, right=line, ends=(0.0, extent.end), gaps=len(extent.gaps))
    if extent.end <= start - WIDE * line.size / 2:
        return _Row(line, left=line, ends=(extent.end, 0.0), gaps=len(extent.gaps))
    for gap in extent.gaps:
        if gap.start <= start - WIDE * line.size / 2 and gap.end >= start - _SAME_START:
            words = line.text.split(" ")
            left = replace(line, text=" ".join(words[: gap.words]))
            right = replace(line, text=" ".join(words[gap.words :]), along=gap.end)
            return _Row(line, left, right, (gap.start, extent.end), len(extent.gaps) - 1)
    return _Row(line)


def _bands(rows: Iterable[_Row]) -> list[list[_Row]]:
    """Rows between lines that cross the gutter or stand apart, such as running heads and notes; each such line too."""
    bands: list[list[_Row]] = []
    kept = list(rows)
    distances = [after.line.down - before.line.down for before, after in pairwise(kept)]
    usual = median(steps) if (steps := [step for step in distances if step > 0]) else 0.0
    previous: _Row | None = None
    for row in kept:
        apart = previous is None or row.line.down - previous.line.down > _APART * usual
        smaller = previous is not None and round(row.line.size) < round(previous.line.size)
        if previous is None or row.crosses or previous.crosses or apart or smaller:
            bands.append([])
        bands[-1].append(row)
        previous = row
    return bands


def _ordered(band: Sequence[_Row], start: float) -> list[TextLine]:
    """Lines of a band: the first column and then the second, where these are prose drawn row by row."""
    left = [(row.left, row.ends[0]) for row in band if row.left is not None]
    right = [(row.right, row.ends[1]) for row in band if row.right is not None]
    turns = sum((after.left is not None) != (before.left is not None) for before, after in pairwise(band))
    side_by_side = sum(row.left is not None and row.right is not None for row in band) + turns // 2
    upwards = any(after.line.down < before.line.down - before.line.size for before, after in pairwise(band))
    other_gaps = sum(row.gaps > 0 for row in band) > _OTHER_GAPS * len(band)
    if side_by_side < _FEWEST_ROWS or upwards or other_gaps or not _are_prose(left, right, start):
        return [row.line for row in band]
    return [line for line, _ in (*left, *right)]


def _are_prose(left: Sequence[tuple[TextLine, float]], right: Sequence[tuple[TextLine, float]], start: float) -> bool:
    """True for two columns of about the same width whose lines are full and go on in the next one."""
    leftmost = min(line.along for line, _ in left)
    widths = max(end for _, end in left) - leftmost, max(end for _, end in right) - start
    return min(widths) >= _NARROWEST * max(widths) and all(
        _is_prose([line for line, _ in column], [end - first >= _FULL * width for _, end in column])
        for column, first, width in zip((left, right), (leftmost, start), widths, strict=True)
    )


def _is_prose(column: Sequence[TextLine], full: Sequence[bool]) -> bool:
    cased = [line for line in column[1:] if line.text[0].isalpha() and line.text[0].lower() != line.text[0].upper()]
    return (
        sum(full) >= _MOSTLY_FULL * len(full)
        and median(_words(line.text) for line in column) >= _WORDS
        and (not cased or sum(line.text[0].islower() for line in cased) >= _CONTINUES * len(column[1:]))
    )


def _words(text: str) -> int:
    """Words of a line; in a language without blanks each sign is one."""
    return len(text.split()) if text.isascii() or " " in text else len(text)
