"""Word check of spoken audio: word error rate of a recogniser's transcript."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from voxyard.speech.engine import find_factory, is_lost
from voxyard.speech.verification.normalize import spoken_words

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

_log = logging.getLogger(__name__)


class Recogniser(Protocol):
    """Speech recogniser. Named in the settings, opened in a worker, called by one thread at a time."""

    def words(self, audio: Audio, sample_rate: int, language: str | None) -> str:
        """Transcript of audio; empty where it contains no words.

        The transcript decides if a chunk is spoken again, so it may depend on the arguments only: neither on earlier
        audio nor on chance. Otherwise equal seeds would give different audio.

        Args:
            audio: mono float32 in [−1, 1], (samples,); not empty, all of it finite. Not to be changed.
            sample_rate: Hz.
            language: a code such as `en`; None where it is unknown.

        Raises:
            Exception: recognition failed, for example for an unsupported language. The words then count as not
                checked, and the message is reported.
        """


@dataclass(frozen=True)
class WordCheckResult:
    """Result of the word check of a chunk."""

    errors: float | None  # `word_error_rate`; None: not checked
    unchecked: str | None = None  # reason where not checked


class WordCheck:
    """Compares audio with its text. A failing recogniser is reported and is never a fault of the chunk."""

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser = recogniser
        self._logged: set[str] = set()

    def check(self, audio: Audio, sample_rate: int, text: str, language: str | None) -> WordCheckResult:
        """Word error rate of the audio of `text`.

        Raises:
            Exception: errors that are fatal for the process (see `voxyard.speech.engine.is_lost`), and no others.
        """
        import numpy as np

        if not len(audio) or not np.isfinite(audio).all():
            return WordCheckResult(None, "there is no valid audio")
        if not spoken_words(text, language):
            return WordCheckResult(None, "the text has no words")
        try:
            transcript = self._recogniser.words(audio, sample_rate, language)
            return WordCheckResult(word_error_rate(text, transcript, language))
        except Exception as error:
            if is_lost(error):
                raise
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            if reason not in self._logged:
                self._logged.add(reason)
                _log.warning("the words are not checked, the recogniser failed: %s (logged once)", reason)
            return WordCheckResult(None, reason)


def open_recogniser(factory: str) -> Recogniser:
    """The recogniser that a setting names as `package.module:factory`; the factory takes nothing.

    Raises:
        SpeechError: there is no such module or factory.
        Exception: the factory's own, for example a SpeechError for a package that is not installed.
    """
    return cast("Recogniser", find_factory("recogniser", factory)())


def word_error_rate(text: str, transcript: str, language: str | None = None) -> float:
    """(S + D + I) / N: substituted, deleted and inserted words over the N words of the text; more than 1 is possible.

    S + D + I is the least number of such edits (Levenshtein, "Binary codes capable of correcting deletions, insertions
    and reversals", 1966); the rate is that of NIST's scoring of speech recognisers. Words are those of
    `voxyard.speech.verification.normalize`; Chinese, Japanese and Korean count by characters. Without words in the
    text it is 0 for an empty transcript, else infinite.
    """
    expected, found = spoken_words(text, language), spoken_words(transcript, language)
    edits = edit_distance(expected, found)
    if not expected:
        return math.inf if found else 0.0
    return edits / len(expected)


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The least number of insertions, deletions and substitutions that turn one sequence into the other.

    jiwer 4.0 counts the same (on 300 random pairs of 35 words), five times as fast and with an import as short, but a
    pair costs 0.3 ms here beside the seconds of its synthesis, which is not worth jiwer and rapidfuzz, an extension
    module, in each image of a GPU host. Words and characters come from this package's normaliser either way.
    """
    row = list(range(len(other) + 1))  # distances of one[:i] to every other[:j]
    for i, word in enumerate(one, 1):
        above, row = row, [i]
        for j, another in enumerate(other, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != another)))
    return row[-1]
