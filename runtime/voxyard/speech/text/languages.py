"""Languages of a text's paragraphs: what they declare, and what letters of another script tell."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from voxyard.speech.reading.languages import LANGUAGES
from voxyard.speech.text.boundaries import paragraphs
from voxyard.speech.text.sentences import script_language

_LATIN = "LATIN"
_SAMPLE = 400  # characters of a paragraph
_KANA = ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA")


@dataclass(frozen=True)
class LanguageSpan:
    """Paragraphs [start, end) of a text in one language; None where nothing tells it."""

    start: int
    end: int
    language: str | None


def language_spans(
    text: str, declared: Sequence[tuple[int, str | None]] = (), language: str | None = None
) -> tuple[LanguageSpan, ...]:
    """The languages of a text in its order, of whole paragraphs, each other than the one before.

    `declared` are the positions from which on a language is declared, None: that of the text, `language`. Where most
    letters of paragraphs are none of their language, these tell it; Latin letters tell none.
    """
    found = list[LanguageSpan]()
    for (own, script), run in groupby(_scripts(text, declared, language), lambda each: each[2:]):
        spans = list(run)
        start, end = spans[0][0], spans[-1][1]
        code = own if _is_own(own, script) else script_language(text[start:end]) or own
        if found and found[-1].language == code:
            start = found.pop().start
        found.append(LanguageSpan(start, end, code))
    return tuple(found)


def most_spoken(spans: Sequence[LanguageSpan]) -> str | None:
    """The language of most characters of a text."""
    lengths = Counter[str | None]()
    for span in spans:
        lengths[span.language] += span.end - span.start
    return max(lengths, key=lambda each: lengths[each], default=None)


def _scripts(
    text: str, declared: Sequence[tuple[int, str | None]], language: str | None
) -> Iterator[tuple[int, int, str | None, str]]:
    """Paragraphs with a letter, the languages that they declare, and the scripts of most of their letters."""
    places = [at for at, _ in declared]
    for start, end in paragraphs(text, places):
        at = bisect_right(places, start) - 1
        script = _script(text[start : min(end, start + _SAMPLE)])
        if script is not None:
            yield start, end, (declared[at][1] if at >= 0 else None) or language, script


def _is_own(language: str | None, script: str) -> bool:
    """True for a script of the language; its letters say nothing of a language whose script is not known."""
    rules = LANGUAGES.get((language or "en").partition("-")[0].lower())
    own = () if rules is None else rules.scripts
    return script == _LATIN or not own or script in own


def _script(text: str) -> str | None:
    """Script of most letters, by the first word of their names in Unicode; kana are of Chinese characters."""
    if text.isascii():
        return _LATIN if any(map(str.isalpha, text)) else None
    counts = Counter(_script_of(each) for each in text if each.isalpha())
    return max(counts, key=lambda each: counts[each], default=None)


@cache
def _script_of(letter: str) -> str:
    name = unicodedata.name(letter, "").partition(" ")[0]
    return "CJK" if name in _KANA else name
