"""The encoding of a text in Latin letters: the one in which the accented letters of its words are of one language."""

from __future__ import annotations

import itertools
import re
from collections import Counter

LATIN_ENCODINGS = ("cp1252", "cp1250", "cp1254", "cp1257", "iso8859_2", "mac_roman", "cp850", "cp852")
"""The usual ones first."""

_ACCENTED = tuple(
    map(
        frozenset,
        (
            "àâæçéèêëîïôœùûüÿ",  # French
            "äöüßé",  # German
            "áéíñóúü",  # Spanish, Irish
            "áàâãçéêíóôõúü",  # Portuguese
            "àèéìíîòóùú",  # Italian
            "àçèéíïòóúü",  # Catalan
            "áèéêëíïóöúü",  # Dutch, and English words
            "åäöé",  # Swedish, Finnish
            "æøåéòóô",  # Danish, Norwegian
            "áæéíðóöúýþ",  # Icelandic
            "äöõüšž",  # Estonian
            "ąčėęįšūųž",  # Lithuanian
            "āčēģīķļņšūž",  # Latvian
            "ąćęłńóśźż",  # Polish
            "áčďéěíňóřšťúůýž",  # Czech
            "áäčďéíĺľňóôŕšťúýž",  # Slovak
            "čćđšž",  # Croatian, Bosnian, Serbian, Slovene
            "áéíóöőúüű",  # Hungarian
            "ăâîşţșț",  # Romanian
            "çğıİöşü",  # Turkish
            "çë",  # Albanian
        ),
    )
)
"""Letters of a language beside those of ASCII."""

_WORD = re.compile(rb"[A-Za-z]*[\x80-\xff][A-Za-z\x80-\xff]*")
_MOST_WORDS = 5000
_APART = re.compile("[’‘“”„‚«»‹›–—…·°\N{NO-BREAK SPACE}\N{SOFT HYPHEN}]")  # signs that stand beside or within words
_LEAST = 0.9  # of the letters, that fit


def latin_encoding(data: bytes) -> str | None:
    """Encoding of one byte a letter in which nearly all accented letters are of one language; None where none is."""
    words = Counter(each[0] for each in itertools.islice(_WORD.finditer(data), _MOST_WORDS))
    fits = {encoding: _fit(encoding, words) for encoding in LATIN_ENCODINGS}
    best = max(fits, key=lambda encoding: fits[encoding])
    return best if fits[best] >= _LEAST else None


def _fit(encoding: str, words: Counter[bytes]) -> float:
    """Share of the accented letters that one language has; signs within words, and capitals in them, are of none."""
    letters, strange = Counter[str](), 0
    for word, count in words.items():
        try:
            text = word.decode(encoding)
        except UnicodeDecodeError:
            return 0.0
        for part in (each.lstrip("¿¡") for each in _APART.split(text)):
            accented = [each for each in part if not each.isascii()]
            if part in ("ª", "º"):  # of an ordinal number
                continue
            if accented and not _is_word(part):
                strange += count * len(accented)
            else:
                letters.update(accented * count)
    known = max(sum(letters[each] for each in letters if _small(each) in own) for own in _ACCENTED)
    return known / total if (total := letters.total() + strange) else 1.0


def _is_word(part: str) -> bool:
    return part.isalpha() and (part[1:].islower() or part.isupper() or len(part) == 1)


def _small(letter: str) -> str:
    small = letter.lower()
    return small if len(small) == 1 else letter
