"""A PDF's lines → paragraphs: page numbers gone, broken words joined, an empty line between paragraphs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Line:
    """A line of a page; where it begins and its font's size in points, `down` growing from line to line."""

    text: str
    along: float
    down: float
    size: float


_NUMBERED = re.compile(
    r"(?:page|seite|p\.|s\.)?\s*[-–—|\[(]?\s*(\d{1,5})\s*[-–—|\])]?(?:\s*(?:of|von|/)\s*\d{1,5})?", re.IGNORECASE
)
_PAGES_TO_BE_CERTAIN = 3
_BULLET = re.compile(r"[•‣◦▪■●–—*·]\s|\(?\w{1,3}[.)]\s")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_WORD = re.compile(r"([^\W\d_]+(?:-[^\W\d_]+)*)-$")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_ENDS = re.compile(r"""[.!?…:。！？]["'”’»)\]]*$""")
_NO_BLANK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f]")
_SAME_SIZE = 0.1
_INDENT = 0.8  # of the font's size
_MORE_THAN_USUAL = 1.2  # times the usual distance of lines
_USUAL_DISTANCES = (0.5, 2.6)  # of the font's size: further apart are no lines of one paragraph
_FULL_LINE = 0.75  # of the characters in a long line of this size


def paragraphs(pages: Sequence[Sequence[Line]]) -> str:
    """The text of the pages' lines, an empty line between paragraphs.

    Where a paragraph ends is seen from a larger distance, another size, an indent or a bullet after a line that ends
    a sentence, or a short such line. Over the end of a page it goes on where the sentence does.
    """
    kept = _without_page_numbers(pages)
    measures = _Measures(kept)
    spoken = Counter(word for page in kept for line in page for word in _WORD.findall(line.text.lower()))
    text: list[str] = []
    previous: Line | None = None
    new_page = False
    for page in kept:
        new_page = True
        for line in page:
            if previous is None:
                text.append(line.text)
            elif measures.parts(previous, line, new_page=new_page):
                text += ["\n\n", line.text]
            else:
                _join(text, line.text, spoken)
            previous, new_page = line, False
    return "".join(text).replace("\u00ad", "")


def _join(text: list[str], following: str, spoken: Counter[str]) -> None:
    """Puts a line of the same paragraph behind the last one; a hyphen at its end goes if it only broke a word.

    A soft hyphen always does. Another stays where the document has the word with it elsewhere and never without, and
    where the next line begins with a capital or a figure.
    """
    last = text[-1]
    if last.endswith("\u00ad"):
        text[-1] = last[:-1]
    elif (broken := _LAST_WORD.search(last)) and (first := _FIRST_WORD.match(following)):
        if following[0].islower() and not _has_hyphen(broken.group(1).lower(), first.group().lower(), spoken):
            text[-1] = last[:-1]
    elif not (last.endswith("-") and not last.endswith(" -")) and not (
        _NO_BLANK.match(last[-1]) and _NO_BLANK.match(following[0])
    ):
        text.append(" ")
    text.append(following)


def _has_hyphen(before: str, after: str, spoken: Counter[str]) -> bool:
    part = before.rpartition("-")[2]
    return spoken[f"{before}-{after}"] > 0 and spoken[part + after] == 0


class _Measures:
    """Typical measures of a document: for each font size the distance of lines and the length of a long line."""

    def __init__(self, pages: Sequence[Sequence[Line]]) -> None:
        distances: dict[int, list[float]] = {}
        lengths: dict[int, list[float]] = {}
        for page in pages:
            for line in page:
                lengths.setdefault(round(line.size), []).append(len(line.text))
            for before, after in pairwise(page):
                distance = after.down - before.down
                if (
                    _same_size(before, after)
                    and _USUAL_DISTANCES[0] < distance / (after.size or 1) < _USUAL_DISTANCES[1]
                ):
                    distances.setdefault(round(after.size), []).append(distance)
        self._usual = {size: _quantile(found, 0.25) for size, found in distances.items()}
        self._long = {size: _quantile(found, 0.9) for size, found in lengths.items()}

    def parts(self, before: Line, after: Line, *, new_page: bool) -> bool:
        """True where a new paragraph begins with `after`."""
        ended = _ENDS.search(before.text) is not None
        distance = after.down - before.down
        if not _same_size(before, after):
            return ended or not after.text[0].islower() or not new_page
        if new_page or distance <= 0:  # another page, another column
            return ended or not (after.text[0].islower() or _NO_BLANK.match(after.text[0]) or before.text.endswith("-"))
        if distance > _MORE_THAN_USUAL * self._usual.get(round(after.size), 1.5 * after.size):
            return True
        short = len(before.text) < _FULL_LINE * self._long[round(before.size)]
        indented = after.along > before.along + _INDENT * after.size
        return ended and (short or indented or _BULLET.match(after.text) is not None)


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def _same_size(before: Line, after: Line) -> bool:
    return abs(before.size - after.size) <= _SAME_SIZE * max(before.size, after.size)


def _without_page_numbers(pages: Sequence[Sequence[Line]]) -> list[Sequence[Line]]:
    """Pages without the running number in their first or last line.

    It is certain where, in the same place on at least three pages and on most that have a bare number there, it
    counts up with the pages.
    """
    kept: list[Sequence[Line]] = list(pages)
    for place in (0, -1):
        numbers = {
            index: int(found.group(1))
            for index, page in enumerate(kept)
            if page and (found := _NUMBERED.fullmatch(page[place].text))
        }
        ahead = Counter(number - index for index, number in numbers.items()).most_common(1)
        if not ahead or ahead[0][1] < max(_PAGES_TO_BE_CERTAIN, len(numbers) / 2):
            continue
        for index, number in numbers.items():
            if number - index == ahead[0][0]:
                kept[index] = kept[index][1:] if place == 0 else kept[index][:-1]
    return kept
