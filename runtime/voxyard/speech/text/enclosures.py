"""Quotations and brackets of a sentence, by pairing their marks."""

from __future__ import annotations

import re
from collections import Counter

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
