"""Edits of a text that remember where each character came from: what is spoken, and what stands in the document."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True)
class Edit:
    """Characters [start, end) of a text, and what stands in their place."""

    start: int
    end: int
    text: str


class EditedText:
    """A text after edits, and the way back from its spans to those of the old text."""

    def __init__(self, original: str, edits: Iterable[Edit]) -> None:
        self.original = original
        self.edits = tuple(sorted(edits, key=lambda edit: (edit.start, edit.end)))
        self._old_starts = [edit.start for edit in self.edits]
        pieces, at, length = [], 0, 0
        self._starts: list[int] = []  # of each replacement in the new text
        self._ends: list[int] = []
        for edit in self.edits:
            if edit.start < at:
                raise ValueError(f"edits overlap at {edit.start}")
            pieces += [original[at : edit.start], edit.text]
            length += edit.start - at
            self._starts.append(length)
            length += len(edit.text)
            self._ends.append(length)
            at = edit.end
        self.text = "".join([*pieces, original[at:]])

    def span(self, start: int, end: int) -> Span:
        """The span of the old text from which a span of the new one came.

        One that ends within a replacement ends after what was replaced, and the next begins there: it is not parted.
        """
        first = self._first(start)
        return first, max(first, self._last(end))

    def position(self, at: int) -> int:
        """The position in the new text of one in the old: the beginning of a replacement, where it was replaced."""
        index = bisect_right(self._old_starts, at) - 1
        if index < 0:
            return at
        edit = self.edits[index]
        return self._starts[index] if at < edit.end or at == edit.start else self._ends[index] + at - edit.end

    def replaced(self) -> list[Span]:
        """Spans of the replacements in the new text."""
        return list(zip(self._starts, self._ends, strict=True))

    def within(self, start: int, end: int) -> Iterator[tuple[Edit, int, int]]:
        """Edits whose replacements begin in [start, end) of the new text, or are empty at its end, and their spans."""
        for index in range(bisect_left(self._starts, start), len(self.edits)):
            first, last = self._starts[index], self._ends[index]
            if first > end or (first == end and first < last):
                return
            yield self.edits[index], first, last

    def _first(self, position: int) -> int:
        """Position in the old text of a span's beginning: after what was deleted there."""
        at = bisect_right(self._starts, position) - 1
        while at >= 0 and self._starts[at] == position < self._ends[at]:
            at -= 1  # it stands before this replacement
        return self._after(at, position)

    def _last(self, position: int) -> int:
        """Position in the old text of a span's end: before what was deleted there."""
        return self._after(bisect_left(self._starts, position) - 1, position)

    def _after(self, at: int, position: int) -> int:
        if at < 0:
            return position
        return self.edits[at].end + max(0, position - self._ends[at])
