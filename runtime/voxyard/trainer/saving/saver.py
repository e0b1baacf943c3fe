"""Saving of a run in progress: checkpoints beside the training, the best weights, and samples to listen to.

A run that an error ends is saved too, where all of its state is of one step.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from voxyard.host.durable_files import write_file
from voxyard.telemetry.workloads import TrainMetrics
from voxyard.trainer import checkpoint
from voxyard.trainer.checkpoint import CheckpointError
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.model.griffin_lim import wav_of
from voxyard.trainer.saving.run_checkpoints import RunCheckpoints
from voxyard.trainer.saving.run_state import RunState
from voxyard.trainer.steps.in_flight import Losses

if TYPE_CHECKING:
    from voxyard.trainer.sampler import BatchPlan
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


class Rescue:
    """State of the last whole step. An error in the middle of an update leaves weights that are of no step."""

    def __init__(self, step: TrainStep, saver: RunSaver, directory: Path) -> None:
        self.training: BatchPlan | None = None  # the step that is being handed over, or failed
        self.step = 0  # number of the last one that was
        self._step, self._saver, self._directory = step, saver, directory
        self._losses: Losses | None = None

    @contextmanager
    def during(self, plan: BatchPlan) -> Iterator[None]:
        """Scope in which a step is handed over to its devices; an error leaves `training` as it is."""
        self.training = plan
        yield
        self.training = None

    def made(self, plan: BatchPlan, losses: Losses) -> None:
        """Takes a step that was handed over whole, with its losses."""
        self.step, self._losses = plan.step + 1, losses

    def saved(self) -> str:
        """Saves the state where it is of a whole step, and says what there is to go on from."""
        self._saver.settle()
        losses = self._losses if self.training is None and self._step.devices.hosts is None else None
        if losses is not None and self.step > self._saver.checkpoints.saved:
            try:
                if math.isfinite(losses.read()["total"]):
                    self._saver.save(self.step, must=True)
            except (CheckpointError, tf.errors.OpError) as error:
                return f"The state after step {self.step} could not be saved ({error}). {self._there()}"
        return self._there()

    def _there(self) -> str:
        newest = checkpoint.newest(self._directory)
        return (
            f"The newest checkpoint is {newest}: the run goes on from there." if newest else "No checkpoint was made."
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
        write_file(path, wav_of(samples, trainable.sample_rate))
        for old in sorted(path.parent.glob("step-*.wav"))[:-keep]:
            old.unlink(missing_ok=True)
    except (TrainerError, NotImplementedError, OSError, MemoryError, tf.errors.OpError) as error:
        log.warning("No sample at step %d: %s", step, str(error) or type(error).__name__)
        return None
    return path
