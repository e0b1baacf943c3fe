"""Estimated duration of a text's speech, from its characters.

The figures are assumptions for calm reading aloud, not measurements of any engine. They err on the slow side, because
a chunk that is longer than an engine can speak loses its end.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata

WORDS_PER_MINUTE = 160  # an even reading pace; where languages differ, their words differ in length
LETTERS_PER_WORD = {
    "ar": 4.0,
    "de": 5.8,
    "en": 4.7,
    "es": 5.0,
    "fa": 4.0,
    "fr": 4.9,
    "hi": 4.4,
    "it": 5.2,
    "pl": 6.0,
    "pt": 5.0,
    "ru": 5.8,
    "tr": 6.3,
}
DEFAULT_LETTERS_PER_WORD = 4.7

# Milliseconds of one character.
HAN = 220  # one syllable in Chinese
HAN_IN_JAPANESE = 300  # about two morae
HANGUL = 180  # one syllable
KANA = 150  # one mora
DIGIT = 350  # a short word: "seven", or a part of a longer number word
SYMBOL = 350  # €, %, & and the like are read as a word; a picture may be passed over
CLAUSE_PAUSE = 150
SENTENCE_PAUSE = 350

_CLAUSE = frozenset(",;:—–、，；：،؛")
_SENTENCE = frozenset(".!?…。！？．｡।॥؟۔")
_STOPS = _CLAUSE | _SENTENCE


def milliseconds(text: str, language: str | None = None) -> list[int]:
    """Running sums: [i] is the estimate for text[:i] in milliseconds, so that any slice costs one subtraction.

    Whole milliseconds keep the sums exact, and stops in a row make one pause. `language` is a code of two or three
    letters; None goes by the script.
    """
    table = _table(language)
    return [
        0,
        *itertools.accumulate(table.after(*pair) for pair in zip(itertools.chain(" ", text), text, strict=False)),
    ]


class _Table(dict[str, int]):
    """Milliseconds by character, computed on first use."""

    def __init__(self, language: str | None) -> None:
        super().__init__()
        words = LETTERS_PER_WORD.get(language or "", DEFAULT_LETTERS_PER_WORD)
        self._letter = round(60_000 / (WORDS_PER_MINUTE * words))
        self._han = HAN_IN_JAPANESE if language == "ja" else HAN

    def after(self, before: str, character: str) -> int:
        """Milliseconds of a character that follows `before`."""
        return 0 if character in _STOPS and before in _STOPS else self[character]

    def __missing__(self, character: str) -> int:
        self[character] = found = self._of(character)
        return found

    def _of(self, character: str) -> int:
        if character in _SENTENCE:
            return SENTENCE_PAUSE
        if character in _CLAUSE:
            return CLAUSE_PAUSE
        category = unicodedata.category(character)
        if category[0] in "ZCP" or unicodedata.combining(character):
            return 0  # blanks, controls, brackets and quotes are silent; an accent belongs to its letter
        if category[0] == "N":
            return DIGIT
        if category[0] == "S":
            return SYMBOL
        return self._letter_of(ord(character))

    def _letter_of(self, code: int) -> int:
        if 0x3040 <= code <= 0x30FF or 0xFF66 <= code <= 0xFF9F:
            return KANA
        if 0xAC00 <= code <= 0xD7A3:
            return HANGUL
        if 0x3400 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF or 0x20000 <= code <= 0x3FFFF:
            return self._han
        return self._letter


@functools.cache
def _table(language: str | None) -> _Table:
    return _Table(language)
