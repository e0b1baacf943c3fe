"""Process that judges sounds beside a training; its arguments are the recogniser and the language.

Each question is the texts and rates of some clips, with their samples (float32).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxyard.host.child_process import Parent
from voxyard.speech.verification.mean_opinion import P808
from voxyard.speech.verification.normalize import spoken_words
from voxyard.speech.verification.word_error_rate import open_recogniser

NICENESS = 10  # the training goes first


@dataclass(frozen=True)
class Utterance:
    """A sentence and its sound (samples,)."""

    text: str
    sound: NDArray[np.float32]
    rate: int


class Panel:
    """The judges; without a recogniser of the language none counts words."""

    def __init__(self, recogniser: str | None, language: str | None) -> None:
        """Raises SpeechError where a package is missing."""
        self._recogniser = None if recogniser is None else open_recogniser(recogniser)
        self._language, self._mos = language, P808()

    def judge(self, utterances: Sequence[Utterance]) -> dict[str, float]:
        """Word error rate over all words, and the mean DNSMOS P.808 (1 to 5)."""
        found = {"dnsmos": float(np.mean([self._mos.score(each.sound, each.rate) for each in utterances]))}
        if self._recogniser is not None:
            import jiwer

            expected, heard = [], []
            for each in utterances:
                words = self._recogniser.words(each.sound, each.rate, self._language)
                expected.append(" ".join(spoken_words(each.text, self._language)))
                heard.append(" ".join(spoken_words(words, self._language)))
            found["wer"] = float(jiwer.wer(expected, heard))
        return found


def main() -> int:
    """Judges as long as its parent lives; exit code 2 with a message where a judge is missing."""
    os.nice(NICENESS)
    parent = Parent()
    recogniser, language = parent.arguments
    try:
        panel = Panel(recogniser or None, language or None)
    except Exception as error:
        if getattr(error, "exit_code", None) is None:
            raise
        sys.stderr.write(f"{error}\n")
        return 2
    while True:
        clips = parent.receive()["clips"]
        sounds = [np.frombuffer(parent.receive_bytes(), np.float32) for _ in clips]
        heard = zip(clips, sounds, strict=True)
        parent.send(panel.judge([Utterance(each["text"], sound, each["rate"]) for each, sound in heard]))


if __name__ == "__main__":
    sys.exit(main())
