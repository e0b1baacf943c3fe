"""Paragraphs of a text, and positions at which a too long sentence is cut: after a clause, a word, a letter."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

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
_CLOSING_MARKS = frozenset("\"'”’»“«‘›‹」』》〉】)]}）］")


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
