"""Aligners: what one does, and how a setting names it."""

from __future__ import annotations

from collections.abc import Sequence
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
