"""Text to numbers: one fixed table of symbols for characters and for phonemes."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.examples import CorpusError

Units = Literal["characters", "phonemes"]

PAD = 0
_PUNCTUATION = " .,;:!?'\"-()–—…¿¡«»“”‘’"
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_IPA = "ɑɐɒæɓʙβɔɕçɗɖðʤəɘɚɛɜɝɞɟʄɡɠɢʛɦɧħɥʜɨɪʝɭɬɫɮʟɱɯɰŋɳɲɴøɵɸθœɶʘɹɺɾɻʀʁɽʂʃʈʧʉʊʋⱱʌɣɤʍχʎʏʑʐʒʔʡʕʢǀǁǂǃˈˌːˑʰʱʲʳʷˠˡˤⁿᵊᵻ̩̯̪̝̞̃̊̆̈˞↓↑→↗↘"
SYMBOLS: tuple[str, ...] = ("", *dict.fromkeys(_PUNCTUATION + _LETTERS + _IPA))
"""Position in this table = token; 0 is padding. Append only: checkpoints depend on the order."""

_PLAIN = {"ß": "ss", "ł": "l", "đ": "d", "ı": "i", "þ": "th"}  # letters that Unicode does not take apart
_SAME_SIGN = str.maketrans(dict(zip("„‟‚‛‹›‐‒―−′″`´[]{}", "“”‘’«»-–—-'\"''()()", strict=True)))
_INDEX = {symbol: token for token, symbol in enumerate(SYMBOLS) if symbol}
SYMBOLS_HASH = hashlib.sha256("\0".join(SYMBOLS).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text as tokens, and what became of its characters, each as it was written, or in the words of a normaliser.

    Blanks and invisible signs (soft hyphens, zero-width characters) are not counted; control characters are.
    """

    tokens: NDArray[np.int32]  # (n,)
    characters: int
    lettered: bool  # a letter or digit was written, and one is left
    dropped: Mapping[str, int]  # what the model has no symbol for, or the voice no reading
    folded: Mapping[str, int]  # characters that became others; see `spelled`


@dataclass(frozen=True, slots=True)
class Normaliser:
    """Words for numbers, amounts, dates and the like in a text of a language; another version may give others."""

    version: int  # from 1; 0 in an index of shards stands for none
    words: Callable[[str, str], str]  # of a text and its language


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Encodes text for a model. Phonemes and a normaliser need the language; characters alone do without."""

    units: Units = "characters"
    language: str | None = "en-us"
    normaliser: Normaliser | None = None

    def encode(self, text: str) -> NDArray[np.int32]:
        """Tokens (n,) of a text; empty where no symbol of it is known. Raises CorpusError for an unknown language."""
        return self.read(text).tokens

    def read(self, text: str) -> Encoded:
        """The text's tokens, and what was dropped and folded on the way. Raises CorpusError for an unknown language."""
        if self.normaliser is not None and self.language is not None:
            text = self.normaliser.words(text, self.language)
        written = _tidy(unicodedata.normalize("NFC", text))
        dropped = Counter(character for character in text if _is_control(character))
        folded = Counter[str]()
        read = self._phonemes if self.units == "phonemes" else _letters
        tokens = [_INDEX[symbol] for symbol in read(written, dropped, folded)]
        lettered = _is_lettered(written) and any(SYMBOLS[token].isalnum() for token in tokens)
        characters = sum(not (c == " " or _is_invisible(c)) for c in written) + sum(map(_is_control, text))
        return Encoded(np.array(tokens, np.int32), characters, lettered, dict(dropped), dict(folded))

    def _phonemes(self, written: str, dropped: Counter[str], folded: Counter[str]) -> Iterator[str]:
        """The symbols of what the voice says, and the counts."""
        from voxyard.corpus.espeak import phonemes, reads

        language = self.language
        if language is None:
            raise CorpusError("phonemes are those of a language: give --language CODE, such as en-us or de")
        for character in written:
            parts = unicodedata.normalize("NFKC", character)
            if not all(_is_invisible(part) or reads(part, language) for part in parts):
                dropped[character] += 1
            elif parts != character and _is_lettered(parts):
                folded[character] += 1
        known = False  # whether the sound before is
        for sound in phonemes(_tidy(unicodedata.normalize("NFKC", written)), language):  # US and us differ
            if sound in _INDEX:
                known = sound != " "
                yield sound
            elif not _is_invisible(sound):
                parts = _plain(sound)
                known = bool(parts) or (known and unicodedata.category(sound)[0] != "L")  # of IPA all else only colours
                (folded if known else dropped)[sound] += 1
                yield from parts


def _letters(written: str, dropped: Counter[str], folded: Counter[str]) -> Iterator[str]:
    """The symbols of the characters themselves, and the counts."""
    known = False  # whether the letter before is
    for character in written:
        if character == " ":
            known = False
            yield " "
        elif not _is_invisible(character):
            parts = spelled(character)
            known = bool(parts) or (known and _is_mark(character))
            if not known:
                dropped[character] += 1
            elif not parts or (_is_lettered(parts) and parts != character.lower()):
                folded[character] += 1
            yield from parts


def spelled(character: str) -> str:
    """The symbols that a character model learns for one: its lower case, e for é, ss for ß, no for №, ' for ´.

    Empty where there are none, or none for a part of it: of ½ and ℃ a rest would say something else.
    """
    parts = unicodedata.normalize("NFKC", character.translate(_SAME_SIGN)).lower()
    if " " in parts:
        return ""  # a mark that stands alone
    plain = [_plain(part) for part in parts if part in _INDEX or not (_is_mark(part) or _is_invisible(part))]
    return "".join(plain) if all(plain) else ""


def decode(tokens: NDArray[np.int32]) -> str:
    """The symbols of tokens, padding left out."""
    return "".join(SYMBOLS[token] for token in tokens)


def _plain(part: str) -> str:
    """A known symbol itself; the known letters that stand for an unknown one; empty where there are none."""
    if part in _INDEX or part in _PLAIN:
        return _PLAIN.get(part, part)
    return "".join(one for one in unicodedata.normalize("NFKD", part) if one in _INDEX and one.isalnum())


def _tidy(text: str) -> str:
    """White space and control characters as single blanks."""
    return " ".join("".join(" " if _is_control(character) else character for character in text).split())


def _is_lettered(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _is_control(character: str) -> bool:
    """True for control characters and halves of surrogate pairs; tabs and ends of lines are white space."""
    return unicodedata.category(character) in ("Cc", "Cs") and not character.isspace()


def _is_mark(character: str) -> bool:
    """True for a combining mark, which changes the character before."""
    return unicodedata.category(character) in ("Mn", "Me")


def _is_invisible(character: str) -> bool:
    """True for characters that only control how others are drawn: joiners, directions, soft hyphens, variants."""
    return unicodedata.category(character) == "Cf" or "\ufe00" <= character <= "\ufe0f"
