"""Pronunciation of English words that are in no dictionary, by their letters: good enough to find them in a sound.

Phones are those of the CMU Pronouncing Dictionary, without stress.
"""

from __future__ import annotations

import unicodedata

_MOST_LETTERS = 40  # of a word; more are no word
_VOWELS = frozenset("aeiouy")

# The longest that fits goes first. Values are phones; none for silent letters.
_GRAPHEMES = {
    "tion": "SH AH N", "sion": "ZH AH N", "ture": "CH ER", "ough": "AO", "augh": "AO", "eigh": "EY", "igh": "AY",
    "tch": "CH", "sch": "SH", "dge": "JH", "que": "K",
    "ch": "CH", "sh": "SH", "th": "TH", "ph": "F", "gh": "G", "wh": "W", "ck": "K", "ng": "NG", "qu": "K W",
    "ai": "EY", "ay": "EY", "ea": "IY", "ee": "IY", "ei": "EY", "ey": "IY", "eu": "Y UW", "ew": "Y UW", "ie": "IY",
    "oa": "OW", "oi": "OY", "oy": "OY", "oo": "UW", "ou": "AW", "ow": "OW", "au": "AO", "aw": "AO", "ue": "UW",
    "ar": "AA R", "er": "ER", "ir": "ER", "or": "AO R", "ur": "ER",
    "a": "AE", "b": "B", "c": "K", "d": "D", "e": "EH", "f": "F", "g": "G", "h": "HH", "i": "IH", "j": "JH",
    "k": "K", "l": "L", "m": "M", "n": "N", "o": "AA", "p": "P", "q": "K", "r": "R", "s": "S", "t": "T", "u": "AH",
    "v": "V", "w": "W", "x": "K S", "y": "IY", "z": "Z",
}  # fmt: skip
_FIRST = {"kn": "N", "gn": "N", "wr": "R", "ps": "S", "x": "Z", "y": "Y"}  # at the beginning of a word
_LONG = {"a": "EY", "e": "IY", "i": "AY", "o": "OW", "u": "Y UW", "y": "AY"}  # before a consonant and a last e
_LONGEST = 4


def plain_letters(word: str) -> str:
    """The word in small letters of English, without accents; what is no such letter is left out."""
    folded = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in folded if "a" <= letter <= "z")


def phones(word: str) -> str:
    """Phones of a word of the letters a to z, with blanks between; empty where it has none."""
    found = list[str]()
    at, word = 0, word[:_MOST_LETTERS]
    silent_e = len(word) > 3 and word[-1] == "e" and word[-2] not in _VOWELS and word[-3] in _VOWELS
    end = len(word) - silent_e
    while at < end:
        if silent_e and at == len(word) - 3:
            found.append(_LONG[word[at]])
            at += 1
            continue
        table = {**_GRAPHEMES, **_FIRST} if at == 0 else _GRAPHEMES
        size = next(size for size in range(min(_LONGEST, end - at), 0, -1) if word[at : at + size] in table)
        letter, after = word[at : at + size], word[at + size : at + size + 1]
        if letter in ("c", "g") and after and after in "eiy":
            found.append("S" if letter == "c" else "JH")
        elif letter != word[at - 1 : at] or letter in _VOWELS:  # a doubled consonant is one sound
            found.append(table[letter])
        at += size
    return " ".join(found)
