"""Saving of a run in progress: checkpoints beside the training, the best weights, and samples to listen to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from voxyard.host.durable_files import whole_file
from voxyard.telemetry.workloads import TrainMetrics
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.model.griffin_lim import write_wav
from voxyard.trainer.saving.run_checkpoints import RunCheckpoints
from voxyard.trainer.saving.run_state import RunState

if TYPE_CHECKING:
    from voxyard.trainer.step import TrainStep
    from voxyard.trainer.trainable import TrainableModel

log = logging.getLogger("voxyard.trainer")

SAMPLES = "samples"


class RunSaver:
    """Saves the state of a step; over hosts the first one saves."""

    def __init__(
        self,
        config: TrainConfig,
        step: TrainStep,
        state: RunState,
        checkpoints: RunCheckpoints,
        metrics: TrainMetrics,
        *,
        loss_at: Callable[[int], float],
        is_first: bool,
    ) -> None:
        """`loss_at` gives the validation loss of the weights after a step, infinite where they were not validated."""
        self.checkpoints = checkpoints
        self._config, self._step, self._state, self._metrics = config, step, state, metrics
        self._loss_at, self._is_first = loss_at, is_first

    def is_best(self, step: int) -> bool:
        """True where the weights after this step were validated, and are better than those of all checkpoints."""
        if not self._loss_at(step) < self.checkpoints.best:
            return False
        self.settle()  # the one that is being written may be better
        return self._loss_at(step) < self.checkpoints.best

    def save(self, step: int, *, must: bool = False) -> None:
        """Saves a checkpoint beside the training: a failure is an error in the log.

        With `must` waits until it is written, and raises CheckpointError.
        """
        if not self._is_first:
            return
        with self._metrics.during("checkpoint"):
            self.checkpoints.begin(step, self._step.state, self._state.meta(), loss=self._loss_at(step))
            if must:
                self.checkpoints.settle(must=True)

    def settle(self) -> None:
        """Waits for the checkpoint that is being written."""
        if self.checkpoints.writing:
            with self._metrics.during("checkpoint"):
                self.checkpoints.settle()

    def speak(self, step: int) -> None:
        """Writes a sample beside the checkpoint, where one is wanted."""
        training, text = self._config.training, self._config.telemetry.sample_text
        if text and self._is_first:
            with self._metrics.during("sample"), self._step.averaged(), self._step.scope():
                write_sample(
                    training.checkpoint_dir,
                    step,
                    self._step.trainable,
                    self._step.model,
                    text,
                    keep=training.keep_checkpoints,
                )


def write_sample(
    directory: Path, step: int, trainable: TrainableModel, model: Any, text: str, *, keep: int
) -> Path | None:
    """Speaks `text` into DIRECTORY/samples/step-N.wav and keeps the `keep` newest; None where that cannot be done.

    A run does not end because its model has nothing to say yet, or no memory is left to say it: why there is no sample
    is a warning in the log.
    """
    path = directory / SAMPLES / f"step-{step:08d}.wav"
    try:
        samples = trainable.speak(model, text)
        if not np.isfinite(samples).all():
            raise TrainerError("the model's sound is not finite")
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            write_wav(file, samples, trainable.sample_rate)
        for old in sorted(path.parent.glob("step-*.wav"))[:-keep]:
            old.unlink(missing_ok=True)
    except (TrainerError, NotImplementedError, OSError, MemoryError, tf.errors.OpError) as error:
        log.warning("No sample at step %d: %s", step, str(error) or type(error).__name__)
        return None
    return path
