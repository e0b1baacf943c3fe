"""Validation of a run in progress: losses of the held-out clips, judges of its speech, pictures."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import tensorflow as tf

from voxyard.corpus import CorpusError, ExampleSource
from voxyard.corpus.examples import sentences_of
from voxyard.telemetry.workloads import TrainMetrics
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.judging.judges import JudgedSpeech, Judges, heard_language
from voxyard.trainer.judging.process import Utterance
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.validation import HeldOutValidation

if TYPE_CHECKING:
    from voxyard.trainer.hosts.collectives import Hosts
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


class RunValidation:
    """Validates the weights of a step; over hosts each has its share, and the first one judges speech."""

    def __init__(
        self,
        config: TrainConfig,
        step: TrainStep,
        source: ExampleSource | None,
        metrics: TrainMetrics,
        hosts: Hosts | None = None,
    ) -> None:
        """`source` has the held-out clips; None where there are none."""
        self.losses: dict[str, float] = {}
        self.held_out: HeldOutValidation | None = None
        self.spoken: SpokenValidation | None = None
        self._step_of_losses: int | None = None
        self._config, self._step, self._source, self._metrics, self._hosts = config, step, source, metrics, hosts

    def open(self, buckets: Sequence[Bucket], rows: int) -> HeldOutValidation | None:
        """The validation of the clips that are held out, `rows` at once; None where there are none."""
        if self._source is None:
            return None
        self.held_out = HeldOutValidation(
            self._source,
            buckets,
            rows=rows,
            hop_length=self._config.model.hop_length,
            max_bad_share=self._config.data.max_bad_share,
            hosts=self._hosts,
        )
        return self.held_out

    def open_judges(self, stack: ExitStack) -> None:
        """Opens the judges of --judge, to the end of `stack`; none where nothing is held out."""
        if not self._config.telemetry.judge:
            return
        if self._source is None:
            log.warning("--judge has no effect: no clips are held out (--val-data, --validation-share)")
            return
        self.spoken = stack.enter_context(SpokenValidation(self._config, self._source))

    def run(self, step: int, observer: Observer, *, last: bool = False) -> None:
        """Validates the weights after this step, where clips are held out; the `last` ones are judged in any case."""
        if self.held_out is None:
            return
        if last:
            self.collect_judged(observer, last=True)
        with self._metrics.during("validate"), self._step.averaged():
            self._take_statistics()
            reading = self._metrics.input.reading_held_out
            self.losses = self.held_out.run(self._step, self._metrics.progress, reading=reading)
            self._step_of_losses = step
        if self.losses:
            observer.validation(step, self.losses)
        if self.spoken is not None:
            with self._metrics.during("sample"), self._step.averaged(), self._step.scope():
                self.spoken.judge(step, self._step)

    def _take_statistics(self) -> None:
        """Over hosts: what a model keeps outside of gradients, such as BatchNormalization's, is the first host's."""
        if self._hosts is None or not (weights := self._step.model.non_trainable_weights):
            return
        state = self._hosts.from_first({str(place): weight.numpy() for place, weight in enumerate(weights)})
        for place, weight in enumerate(weights):
            weight.assign(state[str(place)])

    def loss_at(self, step: int) -> float:
        """Validation loss of the weights after this step; infinite where these were not validated."""
        return self.losses.get("total", math.inf) if self._step_of_losses == step else math.inf

    def collect_judged(self, observer: Observer, *, last: bool = False) -> None:
        """Passes on what was judged since; with `last` waits for it."""
        if self.spoken is not None:
            with self._metrics.during("validate") if last else nullcontext():
                self.spoken.collect(observer, last=last)

    def show(self, step: int, observer: Observer) -> None:
        """Pictures for TensorBoard, where the trainable draws some."""
        draw = getattr(self._step.trainable, "pictures", None)
        if draw is None or self.held_out is None or not self._config.telemetry.tensorboard:
            return
        with self._metrics.during("sample"), self._step.averaged():
            arrays = self.held_out.first()
            if arrays is not None:
                observer.pictures(step, draw(self._step.model, self._step.features_for_model(arrays)))
