"""Check of the spoken words: a recogniser's transcript, and its word error rate."""

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
    """Writes down what is said. Named in the settings, opened in a worker, asked by one thread at a time."""

    def words(self, audio: Audio, sample_rate: int, language: str | None) -> str:
        """The words in a sound; empty where there are none.

        The answer decides whether a chunk is spoken again, so it may depend on the arguments and on nothing else:
        neither on what was heard before nor on chance. Otherwise one seed makes more than one sound.

        Args:
            audio: mono float32 in [−1, 1], (samples,); not empty, all of it finite. Not to be changed.
            sample_rate: Hz.
            language: a code such as `en`; None where nobody knows.

        Raises:
            Exception: it cannot tell, for example because it does not know the language. The words then count as
                not checked, and its message is reported.
        """


@dataclass(frozen=True)
class WordCheckResult:
    """Transcript of a chunk by a recogniser."""

    errors: float | None  # share of the words, see `word_error_rate`; None: not checked
    unchecked: str | None = None  # why not


class WordCheck:
    """Compares sounds with their texts. A recogniser that fails is reported; it never makes a chunk a bad one."""

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser = recogniser
        self._logged: set[str] = set()

    def check(self, audio: Audio, sample_rate: int, text: str, language: str | None) -> WordCheckResult:
        """The share of wrong words in the sound of `text`.

        Raises:
            Exception: what only a new process gets over (see `voxyard.speech.engine.is_lost`), and nothing else.
        """
        import numpy as np

        if not len(audio) or not np.isfinite(audio).all():
            return WordCheckResult(None, "there is no sound to listen to")
        if not spoken_words(text, language):
            return WordCheckResult(None, "the text has no words")
        try:
            heard = self._recogniser.words(audio, sample_rate, language)
            return WordCheckResult(word_error_rate(text, heard, language))
        except Exception as error:
            if is_lost(error):
                raise
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            if reason not in self._logged:
                self._logged.add(reason)
                _log.warning("the words are not checked, the recogniser failed: %s (said once)", reason)
            return WordCheckResult(None, reason)


def open_recogniser(factory: str) -> Recogniser:
    """The recogniser that a setting names as `package.module:factory`; the factory takes nothing.

    Raises:
        SpeechError: there is no such module or factory.
        Exception: the factory's own, for example a SpeechError for a package that is not installed.
    """
    return cast("Recogniser", find_factory("recogniser", factory)())


def word_error_rate(text: str, heard: str, language: str | None = None) -> float:
    """(S + D + I) / N: substituted, deleted and inserted words over the N words of the text; more than 1 is possible.

    S + D + I is the least number of such edits (Levenshtein, "Binary codes capable of correcting deletions, insertions
    and reversals", 1966); the rate is that of NIST's scoring of speech recognisers. Words are those of
    `voxyard.speech.verification.normalize`; Chinese, Japanese and Korean count by characters. Without words in the
    text it is 0 where nothing was heard, else infinite.
    """
    expected, found = spoken_words(text, language), spoken_words(heard, language)
    edits = edit_distance(expected, found)
    if not expected:
        return math.inf if found else 0.0
    return edits / len(expected)


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The least number of insertions, deletions and substitutions that turn one sequence into the other."""
    row = list(range(len(other) + 1))  # distances of one[:i] to every other[:j]
    for i, word in enumerate(one, 1):
        above, row = row, [i]
        for j, another in enumerate(other, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != another)))
    return row[-1]
