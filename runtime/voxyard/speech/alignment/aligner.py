"""Aligners: what one does, how a setting names it, and times of words that are spoken otherwise than written."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Protocol, cast

from voxyard.speech.engine import find_factory

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

WordSpan = tuple[float, float]
"""Seconds from the beginning of the audio at which a word begins and ends."""


class Aligner(Protocol):
    """Forced aligner. Named in the settings, opened in a process of its own, called by one thread."""

    languages: frozenset[str] | None
    """Codes of the languages that it knows, of two or three letters; None: any."""

    def align(self, audio: Audio, sample_rate: int, words: Sequence[str], language: str) -> list[WordSpan | None]:
        """Times at which these words are said; None for one without a sound of its own, such as a dash.

        Args:
            audio: mono float32 in [-1, 1], (samples,).
            sample_rate: Hz.
            words: of what is spoken, in order, as blanks part them, punctuation included.
            language: a code of two or three letters, one of `languages`.

        Raises:
            SpeechError: the words do not fit to the audio; the message is the reason that users see.
        """


def open_aligner(factory: str) -> Aligner:
    """The aligner that a setting names as `package.module:factory`; the factory takes nothing.

    Raises:
        SpeechError: there is no such module or factory.
        Exception: the factory's own, for example a SpeechError for a package that is not installed.
    """
    return cast("Aligner", find_factory("aligner", factory)())


def text_times(
    words: Sequence[str], weights: Sequence[int], spoken: Sequence[str], times: Sequence[WordSpan | None]
) -> list[WordSpan]:
    """Times of these words of a text, some of which are spoken as others; `times` are those of the `spoken` words.

    Words that are spoken as they are written have the times of these. Between them, words of the text share the time
    of what is spoken for them by their weights, such as estimated durations. A word for which nothing is spoken has no
    duration, at the end of the one before it.
    """
    found: list[WordSpan | None] = [None] * len(words)
    matcher = SequenceMatcher(None, [_plain(word) for word in words], [_plain(word) for word in spoken], autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "equal":
            found[first:last] = times[begin:end]
        elif kind == "replace":
            found[first:last] = _shared(weights[first:last], [each for each in times[begin:end] if each is not None])
    at = next((each[0] for each in found if each is not None), 0.0)
    filled = list[WordSpan]()
    for each in found:
        filled.append((at, at) if each is None else each)
        at = filled[-1][1]
    return filled


def _shared(weights: Sequence[int], times: Sequence[WordSpan]) -> list[WordSpan | None]:
    """The time from the first to the last of these, shared by the weights."""
    if not times:
        return [None] * len(weights)
    start, end = times[0][0], times[-1][1]
    total, passed = sum(weights) or 1, 0
    found = list[WordSpan | None]()
    for weight in weights:
        begin = start + (end - start) * passed / total
        passed += weight
        found.append((begin, start + (end - start) * passed / total))
    return found


def _plain(word: str) -> str:
    """The word without its case and punctuation; punctuation alone as it is."""
    return "".join(letter for letter in word.casefold() if letter.isalnum()) or word
