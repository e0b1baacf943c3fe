"""Sentences of the validation clips, spoken by the model at each validation and judged beside the training."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import tensorflow as tf

from voxyard.corpus import CorpusError, ExampleSource
from voxyard.corpus.examples import sentences_of
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.judging.judges import JudgedSpeech, Judges, heard_language
from voxyard.trainer.judging.process import Utterance

if TYPE_CHECKING:
    from voxyard.trainer.observer import Observer
    from voxyard.trainer.step import TrainStep

log = logging.getLogger("voxyard.trainer")


class SpokenValidation:
    """The held-out sentences that are judged, their recordings once and the model's speech as it learns."""

    def __init__(self, config: TrainConfig, source: ExampleSource) -> None:
        """Raises TrainerError where the clips keep no texts."""
        sentences = sentences_of(source)
        if not sentences:
            raise TrainerError(
                "--judge: the validation clips keep no texts, they are shards of an older version: prepare the corpus "
                "again (`voxyard corpus prepare`), or leave --judge out"
            )
        clips = np.unique(np.linspace(0, len(source) - 1, min(config.telemetry.judge, len(source))).astype(int))
        self._source, self._clips, self._sentences = source, [int(clip) for clip in clips], sentences
        self._judges = Judges(*heard_language(config.telemetry, config.model.language))
        self.scores: dict[str, float] = {}  # the newest, and those of the recordings

    def __enter__(self) -> Self:
        self._judges.__enter__()
        self._judges.ask(None, self._recordings())
        return self

    def __exit__(self, *error: object) -> None:
        self._judges.__exit__(*error)

    def judge(self, step: int, train_step: TrainStep) -> None:
        """Speaks the sentences with the model as it is, and has them judged; leaves them out where that is going on."""
        if not self._judges.free:
            log.warning("Step %d is not judged: an earlier one still is (--judge with fewer sentences)", step)
            return
        try:
            self._judges.ask(step, [self._spoken(clip, train_step) for clip in self._clips])
        except (TrainerError, CorpusError, NotImplementedError, MemoryError, tf.errors.OpError) as error:
            log.warning("Step %d is not judged: %s", step, str(error) or type(error).__name__)

    def collect(self, observer: Observer, *, last: bool = False) -> None:
        """Passes on what was judged since; with `last` waits for it."""
        for judged in self._judges.settle() if last else self._judges.collect():
            self._note(judged)
            observer.judged(judged.step, judged.scores)

    def _note(self, judged: JudgedSpeech) -> None:
        recorded = judged.step is None
        scores: Mapping[str, float] = {f"recorded_{name}": value for name, value in judged.scores.items()}
        self.scores |= scores if recorded else {**judged.scores, "step": float(judged.step or 0)}

    def _recordings(self) -> list[Utterance]:
        found = []
        for clip in self._clips:
            sound = np.divide(self._source.read(clip).pcm, 32768, dtype=np.float32)
            found.append(Utterance(self._sentences[clip], sound, self._source.sample_rate))
        return found

    def _spoken(self, clip: int, step: TrainStep) -> Utterance:
        text, trainable = self._sentences[clip], step.trainable
        chosen: dict[str, Any] = {}
        if "speaker" in inspect.signature(trainable.speak).parameters:
            chosen["speaker"] = self._source.read(clip).speaker
        sound = np.asarray(trainable.speak(step.model, text, **chosen), np.float32)
        if not np.isfinite(sound).all():
            raise TrainerError("the model's sound is not finite")
        return Utterance(text, sound, trainable.sample_rate)
