"""Rescue of a run that an error ends: its state is saved where all of it is of one step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import tensorflow as tf

from voxyard.trainer import checkpoint
from voxyard.trainer.checkpoint import CheckpointError
from voxyard.trainer.steps.in_flight import Losses

if TYPE_CHECKING:
    from voxyard.trainer.sampler import BatchPlan
    from voxyard.trainer.saving.saver import RunSaver
    from voxyard.trainer.step import TrainStep


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
