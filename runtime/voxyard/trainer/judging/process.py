"""Process that judges sounds beside a training: `python -m voxyard.trainer.judging.process RECOGNISER LANGUAGE`.

On standard input comes a line of JSON for each judgement, and the samples (float32) of its clips after it; on standard
output goes a line of JSON. It ends with its input.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """Judges until the input ends; exit code 2 with a message where a judge is missing."""
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the training, which ends this process
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a recogniser prints is no answer
    try:
        panel = Panel(sys.argv[1] or None, sys.argv[2] or None)
    except Exception as error:
        if getattr(error, "exit_code", None) is None:
            raise
        sys.stderr.write(f"{error}\n")
        return 2
    while line := sys.stdin.buffer.readline():
        asked: dict[str, Any] = json.loads(line)
        utterances = [
            Utterance(each["text"], np.frombuffer(sys.stdin.buffer.read(4 * each["samples"]), np.float32), each["rate"])
            for each in asked["clips"]
        ]
        answers.write(json.dumps(panel.judge(utterances)) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
