"""Text to numbers: one fixed table of symbols for characters and for phonemes."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
    """A text as tokens, and what became of its characters; blanks and invisible signs are not counted."""

    tokens: NDArray[np.int32]  # (n,)
    characters: int
    dropped: Mapping[str, int]  # what the model has no symbol for, or the voice no reading
    folded: Mapping[str, int]  # characters that became others; see `spelled`


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Encodes text for a model."""

    units: Units = "characters"
    language: str = "en-us"

    def encode(self, text: str) -> NDArray[np.int32]:
        """Tokens (n,) of a text; empty where no symbol of it is known. Raises CorpusError for an unknown language."""
        return self.read(text).tokens

    def read(self, text: str) -> Encoded:
        """The text's tokens, and what was dropped and folded on the way. Raises CorpusError for an unknown language."""
        dropped, folded = Counter[str](), Counter[str]()
        if self.units == "phonemes":
            from voxyard.corpus.espeak import phonemes, reads

            written = _tidy(text)
            cleaned = phonemes(written, self.language)  # US and us sound different
            dropped.update(c for c in written if not (_is_invisible(c) or reads(c, self.language)))
        else:
            written = cleaned = normalise(text)
        tokens: list[int] = []
        known = False  # whether the letter before is
        for character in cleaned:
            if (token := _INDEX.get(character)) is not None:
                tokens.append(token)
                known = character != " "
                continue
            if _is_invisible(character):
                continue
            parts = spelled(character)
            tokens += [_INDEX[part] for part in parts]
            known = bool(parts) or (known and self._is_mark(character))
            (folded if known else dropped)[character] += 1
        return Encoded(np.array(tokens, np.int32), _characters(written), dict(dropped), dict(folded))

    def _is_mark(self, character: str) -> bool:
        """True where a character only colours the one before: combining marks; of IPA all that is no letter."""
        kind = unicodedata.category(character)
        return kind in ("Mn", "Me") or (self.units == "phonemes" and kind[0] != "L")


def normalise(text: str) -> str:
    """NFKC, lower case, one way to write a quote or a dash, white space and control characters as single blanks."""
    return _tidy(text.translate(_SAME_SIGN)).lower()


def spelled(character: str) -> str:
    """The known letters that stand for an unknown one: e for é, ss for ß; empty where there are none."""
    if character in _PLAIN:
        return _PLAIN[character]
    return "".join(part for part in unicodedata.normalize("NFKD", character) if part in _INDEX and part.isalnum())


def decode(tokens: NDArray[np.int32]) -> str:
    """The symbols of tokens, padding left out."""
    return "".join(SYMBOLS[token] for token in tokens)


def _tidy(text: str) -> str:
    blanked = "".join(" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)
    return " ".join(unicodedata.normalize("NFKC", blanked).split())


def _characters(text: str) -> int:
    return sum(character != " " and not _is_invisible(character) for character in text)


def _is_invisible(character: str) -> bool:
    """True where a sign only says how others are drawn: joiners, directions, soft hyphens, variants."""
    return unicodedata.category(character) == "Cf" or "\ufe00" <= character <= "\ufe0f"
