"""Where a text may be cut: paragraphs, clauses, words, letters; after the opening clause of a long first sentence."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from voxyard.speech.text.series import is_joined

LONGEST_WORD = 100
"""Letters in a row. BERT's word pieces, which Bark reads, turn a longer word into one unknown token: silence."""

_CLOSING = "\"'”’»)\\]」』）》〉】"
_CLAUSE = re.compile(  # whatever the text, it takes time in proportion to its length
    rf"[,;:)\]»”—–…،؛][{_CLOSING}]{{,8}}\s+|[、，；：…—]+[{_CLOSING}]*\s*|[\n\r\x0b\x0c\x85\u2028]\s*"
)
_BLANK = re.compile(r"\s+")
_JOINT = re.compile(r"[-/_.,:;!?&=#%+~|@()\u00ad\u200b\u2010。！？、，]+")
_ZWJ = 0x200D
_VIRAMA = 9  # combining class: what follows it is drawn into the same letter
_RUN = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def clauses(text: str, start: int, end: int) -> list[int]:
    """Positions after commas, colons, dashes, brackets and line breaks; `end` is always the last."""
    return _after(_CLAUSE, text, start, end)


def words(text: str, start: int, end: int) -> list[int]:
    """Positions after white space."""
    return _after(_BLANK, text, start, end)


def joints(text: str, start: int, end: int) -> list[int]:
    """Positions after hyphens, slashes and the like inside of words: where an address can be taken apart."""
    return _after(_JOINT, text, start, end)


def letters(text: str, start: int, end: int) -> list[int]:
    """Positions between grapheme clusters: accents, vowel signs, joined emoji and flags are not separated."""
    found = []
    flags = 0  # regional indicators in a row up to here; two make a flag
    for at in range(start + 1, end):
        before, after = ord(text[at - 1]), ord(text[at])
        flags = flags + 1 if 0x1F1E6 <= before <= 0x1F1FF else 0
        inside_flag = flags % 2 == 1 and 0x1F1E6 <= after <= 0x1F1FF
        if not inside_flag and not _belongs(text[at]) and before != _ZWJ and not _is_virama(text[at - 1]):
            found.append(at)
    return [*found, end]


def characters(start: int, end: int) -> list[int]:
    """Every position: for a letter that carries more accents than fit."""
    return list(range(start + 1, end + 1))


def long_words(text: str) -> list[tuple[int, int]]:
    """Runs of more than LONGEST_WORD characters without a blank or punctuation, as (start, end)."""
    found = []
    for run in _RUN.finditer(text):
        begin = run.start()
        for at in range(run.start(), run.end() + 1):
            if at == run.end() or _parts_words(text[at]):
                if at - begin > LONGEST_WORD:
                    found.append((begin, at))
                begin = at + 1
    return found


def before_long_word(runs: list[tuple[int, int]], start: int, end: int) -> int:
    """The furthest position ≤ `end` up to which text from `start` on holds no word that is too long."""
    at = bisect_right(runs, start, key=lambda run: run[1])
    while at < len(runs):
        begin = max(runs[at][0], start)
        if begin >= end:
            break
        if min(runs[at][1], end) - begin > LONGEST_WORD:
            return begin + LONGEST_WORD
        at += 1
    return end


def _after(pattern: re.Pattern[str], text: str, start: int, end: int) -> list[int]:
    return [*(match.end() for match in pattern.finditer(text, start, end) if match.end() < end), end]


def _belongs(character: str) -> bool:
    """True where it combines with the character before it."""
    code = ord(character)
    return (
        unicodedata.category(character)[0] == "M"
        or code == _ZWJ
        or 0x1160 <= code <= 0x11FF  # vowels and endings of Korean syllables written apart
        or 0x1F3FB <= code <= 0x1F3FF  # skin tones
        or 0xE0020 <= code <= 0xE007F  # tags of regional flags
    )


def _is_virama(character: str) -> bool:
    return unicodedata.combining(character) == _VIRAMA


def _parts_words(character: str) -> bool:
    if character.isascii():
        return not character.isalnum()
    return unicodedata.category(character)[0] == "P" or 0x4E00 <= ord(character) <= 0x9FFF


Span = tuple[int, int]

_SPACE = re.compile(r"\s+")
_LINE_END = re.compile(r"\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
_PAGE_OR_PARAGRAPH = re.compile(r"[\x0c\u2029]")
_CLOSING_QUOTES = frozenset("\"'”’»“«‘›‹」』》〉】")
_CLOSING_MARKS = _CLOSING_QUOTES | frozenset(")]}）］")


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
    while end and text[end - 1] in _CLOSING_MARKS:
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
    for at in clauses(text, start, reach)[:-1]:
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
