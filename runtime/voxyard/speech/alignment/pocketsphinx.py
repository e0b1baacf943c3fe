"""Forced aligner for English: pocketsphinx with its small American English model.

It takes a hundredth of a sound's length, and is hundredths of a second off. It finds words that are there; whether they
are there it tells badly: a sound is refused where no path through the words fits, or where most of it is in none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from voxyard.speech.alignment.aligner import WordSpan
from voxyard.speech.errors import SpeechError
from voxyard.speech.verification.normalize import spelled
from voxyard.speech.verification.pocketsphinx import RATE, to_pcm

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

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


_FRAMES = 100  # a second
_LOUD = 10 ** (-30 / 20)  # of the loudest frame: speech, not its breaths and echoes
_LEAST_COVERED = 0.5  # of the loud frames that are in words
_MOST_ADDED = 5000  # words that the dictionary does not know; then it begins anew
_ACRONYM = re.compile(r"[A-Z]{2,5}")
_APOSTROPHES = str.maketrans("’ʼ`", "'''")


class PocketsphinxAligner:
    """Aligns English; results do not depend on earlier audio."""

    languages: frozenset[str] | None = frozenset({"en"})

    def __init__(self) -> None:
        """Raises SpeechError where pocketsphinx or soxr is not installed."""
        self._decoder: Any = _decoder()
        self._added = 0

    def align(self, audio: Audio, sample_rate: int, words: Sequence[str], language: str) -> list[WordSpan | None]:
        """As Aligner."""
        if self._added > _MOST_ADDED:
            self._decoder, self._added = _decoder(), 0
        pieces = [self._pieces(word) for word in words]
        said = [piece for each in pieces for piece in each]
        if not said:
            raise SpeechError("it has no words that can be aligned")
        if not len(audio):
            raise SpeechError("there is no sound")
        spans = iter(self._spans(audio, sample_rate, said))
        found = list[WordSpan | None]()
        for each in pieces:
            own = [next(spans) for _ in each]
            found.append((own[0][0] / _FRAMES, own[-1][1] / _FRAMES) if own else None)
        return found

    def _spans(self, audio: Audio, sample_rate: int, said: Sequence[str]) -> list[tuple[int, int]]:
        """Frames [start, end) of each of these words of the dictionary. Raises SpeechError."""
        decoder = self._decoder
        decoder.reinit_feat()  # else means and noise of earlier audio change its scores
        decoder.set_align_text(" ".join(said))
        decoder.start_utt()
        decoder.process_raw(to_pcm(audio, sample_rate), full_utt=True)
        decoder.end_utt()
        segments = [] if decoder.hyp() is None else [each for each in decoder.seg() if each.word[0] not in "<["]
        if [each.word.partition("(")[0] for each in segments] != list(said):
            raise SpeechError("its words were not found in its sound")
        spans = [(each.start_frame, each.end_frame + 1) for each in segments]
        if _covered(audio, sample_rate, spans) < _LEAST_COVERED:
            raise SpeechError("most of its sound is in none of its words")
        return spans

    def _pieces(self, word: str) -> list[str]:
        """Words of the dictionary that are spoken for this one; numbers by their words, acronyms by their letters."""
        found = list[str]()
        plain = unicodedata.normalize("NFKC", word).translate(_APOSTROPHES)
        for part in re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", spelled(plain)):
            known = part.casefold()
            if known.isascii() and self._decoder.lookup_word(known) is not None:
                found.append(known)
            elif _ACRONYM.fullmatch(part):
                found += part.casefold()
            else:
                found.append(self._added_word(part))
        return found

    def _added_word(self, word: str) -> str:
        """A word that the dictionary does not know, added to it as its letters sound. Raises SpeechError."""
        letters = plain_letters(word)
        if not letters:
            raise SpeechError(f"{word[:40]!r} is not written in letters of English")
        if self._decoder.lookup_word(letters) is None:
            self._decoder.add_word(letters, phones(letters), False)
            self._added += 1
        return letters


def aligner() -> PocketsphinxAligner:
    """Aligner factory `voxyard.speech.alignment.pocketsphinx:aligner`."""
    return PocketsphinxAligner()


def _decoder() -> Any:
    try:
        import soxr  # noqa: F401 — said at the start, not at the first sound
        from pocketsphinx import Decoder
    except ModuleNotFoundError as error:
        raise SpeechError(
            f"the aligner needs pocketsphinx and soxr ({error.name} is missing): pip install 'voxyard[words]'"
        ) from error
    return Decoder(samprate=RATE, cmn="batch", loglevel="FATAL", lm=None)


def _covered(audio: Audio, sample_rate: int, spans: Sequence[tuple[int, int]]) -> float:
    """Share of the loud frames that are in these spans; 0 for silence."""
    import numpy as np

    size = max(1, sample_rate // _FRAMES)
    count = len(audio) // size
    power = np.square(audio[: count * size].reshape(count, size)).mean(axis=1)
    loud = power > power.max(initial=0.0) * _LOUD**2
    inside = np.zeros(count, dtype=bool)
    for start, end in spans:
        inside[start:end] = True
    return float((loud & inside).sum() / loud.sum()) if loud.any() else 0.0
