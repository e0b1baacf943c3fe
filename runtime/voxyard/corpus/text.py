"""Text to numbers: one fixed table of symbols for characters and for phonemes."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
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
_INDEX = {symbol: token for token, symbol in enumerate(SYMBOLS) if symbol}
SYMBOLS_HASH = hashlib.sha256("\0".join(SYMBOLS).encode()).hexdigest()[:16]


@dataclass
class Tokenizer:
    """Encodes text for a model; counts what it has to leave out in `unknown`."""

    units: Units = "characters"
    language: str = "en-us"
    unknown: Counter[str] = field(default_factory=Counter)

    def encode(self, text: str) -> NDArray[np.int32]:
        """Tokens (n,) of a text; empty where no symbol of it is known. Raises CorpusError for an unknown language."""
        if self.units == "phonemes":
            from voxyard.corpus.espeak import phonemes

            cleaned = phonemes(_tidy(text), self.language)  # US and us sound different
        else:
            cleaned = normalise(text)
        tokens = []
        for character in cleaned:
            known = [_INDEX[part] for part in _known_parts(character)]
            if known:
                tokens += known
            else:
                self.unknown[character] += 1
        return np.array(tokens, np.int32)


def normalise(text: str) -> str:
    """NFKC, lower case, white space and control characters as single blanks."""
    return _tidy(text).lower()


def decode(tokens: NDArray[np.int32]) -> str:
    """The symbols of tokens, padding left out."""
    return "".join(SYMBOLS[token] for token in tokens)


def _tidy(text: str) -> str:
    blanked = "".join(" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)
    return " ".join(unicodedata.normalize("NFKC", blanked).split())


def _known_parts(character: str) -> list[str]:
    """The character itself, or the base letters that it is made of: é is e, ß is ss."""
    if character in _INDEX:
        return [character]
    if character in _PLAIN:
        return list(_PLAIN[character])
    return [part for part in unicodedata.normalize("NFKD", character) if part in _INDEX and part.isalnum()]
