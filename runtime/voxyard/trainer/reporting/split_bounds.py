"""Bounds of a split at the start of its run: told once, when enough steps were timed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from voxyard.trainer.reporting.bounds import listed, little_gain
from voxyard.trainer.reporting.run_report import stage_times, way_of

if TYPE_CHECKING:
    from voxyard.trainer.config import TrainConfig
    from voxyard.trainer.reporting.clocks import StepClock
    from voxyard.trainer.step import TrainStep

log = logging.getLogger("voxyard.trainer")

STEPS_TO_JUDGE = 20  # a split by, beside those that were traced


class SplitBounds:
    """Tells what each way of training can gain, and where this split can gain little.

    The first steps train a vocoder without discriminators, in less time than most of the run's: their bounds would be
    of something else, so they wait until the discriminators take part. In a run that ends before, they do not.
    """

    def __init__(
        self, config: TrainConfig, step: TrainStep, clock: StepClock, *, first: int, end: int, has_features: bool
    ) -> None:
        """`first` and `end` are the first step of the run and the last one; `has_features`: the corpus has them."""
        model, after = config.model, config.training.discriminators_after
        self._step, self._clock, self._first = step, clock, first
        self._alone = model.networks != "acoustic" and first < after < end
        self._after = after
        self._second = model.module is None and model.networks == "acoustic" and not has_features
        self._done = step.devices.strategy != "split"
        self._waits = False

    def begins_phase(self, step: int) -> bool:
        """True where the discriminators take part from the step after `step` on."""
        return self._alone and step == self._after

    def begin_phase(self, step: int) -> None:
        """Tells the start of a phase, and times its updates anew; the model device has computed what was before."""
        if self.begins_phase(step):
            log.info(
                "Step %d: the vocoder's discriminators take part from the next step on (--discriminators-after)", step
            )
            self._step.settle()
            self._step.timer.beside.begin_phase()

    def look(self, step: int) -> None:
        """Tells the bounds, once, where `step` steps are enough for that."""
        if self._done or self._clock.steps < STEPS_TO_JUDGE:
            return
        if self._alone and step < self._after + STEPS_TO_JUDGE:
            if not self._waits and step <= self._after:
                log.info(
                    "The first %d steps train the vocoder without discriminators, in less time than the others: what "
                    "each placement can gain is told after them",
                    self._after,
                )
            self._waits = True
            return
        times = stage_times(self._clock, self._step)
        if times is None:
            return
        self._done, bounds = True, times.bounds()
        log.info("Most that two devices can gain over one, by the times of a step (%s): %s", times, listed(bounds))
        if (said := little_gain(bounds, way_of(self._step), second_network=self._second)) is not None:
            log.warning("%s", said)
        if (said := times.advice()) is not None:
            log.warning("%s", said)
