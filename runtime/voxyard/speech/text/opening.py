"""Cut of a long first sentence after its opening clause, heard while the rest is decoded; quotations, brackets."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from voxyard.speech.text import boundaries
from voxyard.speech.text.series import is_joined

Span = tuple[int, int]

QUOTES_OF_EITHER_SIDE = frozenset("“‘„‚«»‹›「『《〈")
"""Marks that open in one language and close in another, or open: what each does here is known by its pair."""

_QUOTATIONS = re.compile(  # leftmost first: »…« and «…» are told apart by the mark that comes first
    r"“[^“”]{0,200}”|„[^„“”]{0,200}[“”]|«[^«»]{0,200}»|»[^«»]{0,200}«|›[^‹›]{0,200}‹|‹[^‹›]{0,200}›|\"[^\"]{0,200}\""
    r"|[‘‚](?:[^‘’]|(?<=\w)’(?=\w)){0,200}[‘’]|(?<!\w)'(?=\S)(?:[^']|(?<=\w)'(?=\w)){0,200}'(?!\w)"
    r"|「[^「」]{0,200}」|『[^『』]{0,200}』|《[^《》]{0,200}》|〈[^〈〉]{0,200}〉"
)
_BRACKET = re.compile(r"[()\[\]{}（）［］｛｝〔〕【】]")
_CLOSES = dict(zip(")]}）］｝〕】", "([{（［｛〔【", strict=True))


def quotations(text: str, start: int, end: int) -> list[Span]:
    """Spans of the quotations of at most 200 characters within [start, end), marks included, in text order.

    An apostrophe between two letters is part of its word.
    """
    return [found.span() for found in _QUOTATIONS.finditer(text, start, end)]


def brackets(text: str, start: int, end: int) -> list[Span]:
    """Spans of the outermost brackets within [start, end), marks included, in text order.

    One that is not closed goes to `end`; a closing one alone, as in `a)`, is no bracket. It takes time in proportion
    to the text.
    """
    found = list[Span]()
    opened = list[tuple[str, int]]()
    counts = Counter[str]()
    for mark in _BRACKET.finditer(text, start, end):
        opening = _CLOSES.get(mark[0])
        if opening is None:
            opened.append((mark[0], mark.start()))
            counts[mark[0]] += 1
        elif counts[opening]:
            while (last := opened.pop())[0] != opening:
                counts[last[0]] -= 1
            counts[opening] -= 1
            if not opened:
                found.append((last[1], mark.end()))
    return [*found, (opened[0][1], end)] if opened else found


OPENING_SECONDS = 4.0  # a first sentence with a longer estimate is cut
SHORTEST_PART = 1500  # milliseconds of either part: engines speak a few words alone badly


_REACH = 1000  # characters in which the clause ends: no chunk has so many that are heard
_STOPS = frozenset(",;:—–…،؛、，；：")
_CLOSING_QUOTES = frozenset("\"'”’»“«‘›‹」』》〉】")
_OPENING_MARKS = QUOTES_OF_EITHER_SIDE | frozenset("([{（［｛〔【")
_STRAIGHT_QUOTES = frozenset("\"'")
_ASIDE = re.compile(r"(?<=\s)\([^()\s]{1,100}\s[^()]{1,200}\)")  # of two words or more: not file(s), not (1999)


def opening_cut(
    text: str,
    span: Span,
    length: Callable[[int, int], int],
    fits: Callable[[int, int], bool],
    units: Sequence[Span] = (),
    language: str | None = None,
) -> int | None:
    """Position after the opening clause of a first sentence; None where that is short or has no place to cut.

    The first boundary that leaves SHORTEST_PART on both sides: after a comma, semicolon, colon, dash, ellipsis or an
    aside in brackets. Never within or between numbers, after an abbreviation, in a short quotation, in brackets, in one
    of the units, or in a date, a name or a list (see `voxyard.speech.text.series`).

    Args:
        text: the document.
        span: the sentence, with the very short ones that stand before it.
        length: estimated milliseconds of a span.
        fits: true where a span is within the limits of a chunk.
        units: spans that stay whole, in text order, such as the words of a number; they do not overlap.
        language: a code such as `en`.
    """
    start, end = span
    if length(start, end) <= OPENING_SECONDS * 1000:
        return None
    reach = min(end, start + _REACH)
    units = units[: bisect_left(units, (reach,))]
    quoted = quotations(text, start, reach)
    closed = {last for _, last in quoted}
    whole = [*brackets(text, start, end), *(each for each in quoted if length(*each) < SHORTEST_PART)]
    asides = {aside.end() for aside in _ASIDE.finditer(text, start, reach)}
    for at in boundaries.clauses(text, start, reach)[:-1]:
        stop = _before_blanks(text, at)
        if length(start, stop) < SHORTEST_PART:
            continue
        if length(at, end) < SHORTEST_PART or not fits(start, stop):
            break
        inside = any(first < at < last for first, last in whole) or _within(units, stop, at)
        if inside:
            continue
        if stop in asides:
            return at
        if _ends_clause(text, stop, at, units, closed):
            before = _before_mark(text, stop)
            if not is_joined(text, start, before, at, end, language):
                return at
    return None


def _before_blanks(text: str, at: int) -> int:
    while at and text[at - 1].isspace():
        at -= 1
    return at


def _before_quotes(text: str, at: int) -> int:
    while at and text[at - 1] in _CLOSING_QUOTES:
        at -= 1
    return at


def _before_mark(text: str, stop: int) -> int:
    """End of what stands before the mark, or the marks in a row, and its closing quotes that end at `stop`."""
    at = _before_quotes(text, stop)
    while at and text[at - 1] in _STOPS:
        at -= 1
    return _before_blanks(text, at)


def _within(units: Sequence[Span], stop: int, at: int) -> bool:
    """True where a unit has characters before `stop` and after `at`."""
    index = bisect_left(units, (stop,)) - 1
    return index >= 0 and units[index][1] > at


def _ends_clause(text: str, stop: int, at: int, units: Sequence[Span], closed: Collection[int]) -> bool:
    """True where the marks before `stop` end a clause, and belong to no number, abbreviation or quoted mark.

    `closed` are the ends of quotations.
    """
    marks = _before_quotes(text, stop)
    before = _before_mark(text, stop)
    if text[marks - 1] not in _STOPS or not before or text[at] in _STOPS:
        return False
    last = text[before - 1]
    opens = last in _OPENING_MARKS and before not in closed
    if opens or last == "." or (last in _STRAIGHT_QUOTES and text.startswith(last, marks)):
        return False
    ends_number = _is_numeric(last) or any(end == before for _, end in units)
    begins_number = _is_numeric(text[at]) or any(start == at for start, _ in units)
    return not (ends_number and begins_number)


def _is_numeric(character: str) -> bool:
    return character.isnumeric() or character in "%‰°" or unicodedata.category(character) == "Sc"
