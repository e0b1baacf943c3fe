"""Judgement of what a model speaks, beside its training: a process listens, results come when they are there."""

from __future__ import annotations

import importlib.util
import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from voxyard.host.child_process import ChildError, ChildProcess
from voxyard.speech.errors import SpeechError
from voxyard.speech.text.sentences import language_code
from voxyard.trainer.config import TelemetryConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.judging.process import Utterance

log = logging.getLogger("voxyard.trainer")

POCKETSPHINX = "voxyard.speech.verification.pocketsphinx:recogniser"
PACKAGES = ("jiwer", "onnxruntime", "soxr", "speechmos")
LAST_SECONDS = 120.0  # that a run waits at its end for its last judgement


@dataclass(frozen=True)
class JudgedSpeech:
    """Result of the judges: `wer`, where words were counted, and `dnsmos`; step None is of the recordings."""

    step: int | None
    scores: Mapping[str, float]


def require_judges(config: TelemetryConfig) -> None:
    """Raises TrainerError with the command that installs what --judge needs and is not there."""
    needed = [*PACKAGES, *(["pocketsphinx"] if config.judge_recogniser == POCKETSPHINX else [])]
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise TrainerError(
            f"--judge {config.judge} needs {', '.join(missing)}: pip install 'voxyard[judges]', or leave --judge out"
        )


def heard_language(config: TelemetryConfig, language: str | None) -> tuple[str, str]:
    """The recogniser, empty where none hears the language, and the language's code; says what is not counted."""
    try:
        code = language_code(language) or ""
    except SpeechError:
        code = ""
    if config.judge_recogniser == POCKETSPHINX and code not in ("", "en"):
        log.warning("--judge: pocketsphinx hears English only, so no words are counted in %s: DNSMOS alone", language)
        return "", code
    if not code:
        log.warning("--judge: the language is not known (--language): words are counted as English ones")
    return config.judge_recogniser, code


class Judges:
    """Process of the judges, with one judgement at a time; what comes while it listens is left out, and said."""

    def __init__(self, recogniser: str, language: str) -> None:
        self._arguments = (recogniser, language)
        self._asked: queue.Queue[tuple[int | None, Sequence[Utterance]] | None] = queue.Queue()
        self._found: queue.Queue[JudgedSpeech] = queue.Queue()
        self._busy = 0  # judgements that were asked for and have not come
        self._steps = 0  # those of them that are of steps
        self._lost = False

    def __enter__(self) -> Self:
        self._process = ChildProcess("voxyard.trainer.judging.process", *self._arguments, quotes=True)
        self._thread = threading.Thread(target=self._talk, name="judges", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.put(None)
        if self._busy or self._lost:
            self._process.kill()
        self._thread.join(LAST_SECONDS)
        self._process.close()

    @property
    def free(self) -> bool:
        """True where no step is being judged; the recordings may be."""
        return self._steps == 0

    def ask(self, step: int | None, utterances: Sequence[Utterance]) -> None:
        """Has sounds judged; step None is of the recordings."""
        self._busy += 1
        self._steps += step is not None
        self._asked.put((step, utterances))

    def collect(self) -> list[JudgedSpeech]:
        """Judgements that came since the last call; does not wait."""
        found = []
        while not self._found.empty():
            found.append(self._found.get())
        self._busy -= len(found)
        self._steps -= sum(each.step is not None for each in found)
        return [each for each in found if each.scores]

    def settle(self) -> list[JudgedSpeech]:
        """Waits for what is being judged, at most LAST_SECONDS."""
        until, found = time.perf_counter() + LAST_SECONDS, self.collect()
        while self._busy and time.perf_counter() < until:
            time.sleep(0.02)
            found += self.collect()
        if self._busy:
            log.warning("The last judgement is left out: it took more than %g s", LAST_SECONDS)
        return found

    def _talk(self) -> None:
        while (asked := self._asked.get()) is not None:
            step, utterances = asked
            scores: Mapping[str, float] = {}
            if not self._lost:
                try:
                    scores = self._answer(utterances)
                except ChildError as error:
                    self._lost = True
                    log.warning("--judge ends, its process did: %s", error)
            self._found.put(JudgedSpeech(step, scores))

    def _answer(self, utterances: Sequence[Utterance]) -> Mapping[str, float]:
        clips = [{"text": each.text, "rate": each.rate} for each in utterances]
        self._process.send({"clips": clips}, *(each.sound.astype("<f4").tobytes() for each in utterances))
        return self._process.receive()
