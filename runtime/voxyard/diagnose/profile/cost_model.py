"""Cost model of the pipeline: seconds a step from the seconds of each stage alone. No TensorFlow."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from voxyard.diagnose.profile.stages import Stage

Layout = Literal["single", "split", "mirrored"]


@dataclass(frozen=True)
class Costs:
    """Seconds a batch in each stage alone, and how the stages lie on devices.

    `load` is of the whole stage with all its threads. `slots` are the ring's. `samples` are the clips of a step, in
    mirrored layout on all replicas together.
    """

    load: float
    features: float
    transfer: float
    train: float
    layout: Layout = "split"
    slots: int = 3
    samples: int = 1

    def of(self, stage: Stage) -> float:
        """Seconds of one stage."""
        return {"load": self.load, "features": self.features, "transfer": self.transfer, "train": self.train}[stage]

    def changed(self, **values: float | str) -> Costs:
        """A copy with other values."""
        return replace(self, **values)  # type: ignore[arg-type]

    @property
    def data(self) -> float:
        """D: what the thread that drives the data device does for a batch: features, then the transfer."""
        return self.features + self.transfer

    @property
    def step(self) -> float:
        """Ideal seconds a step: the time of whatever works longest, everything else beside it.

        split: max(L, D, M), D = features + transfer on one thread, M = the training step.
        single: max(L, D + M): one device does both, by turns.
        mirrored: max(L, T, M): the features are a part of the replicas' step.
        With a ring of one slot nothing is made while the model trains: max(L, D + M).
        """
        return max(seconds for _, seconds in self.lanes)

    @property
    def bound_by(self) -> str:
        """Name of the slowest lane."""
        return max(self.lanes, key=lambda lane: lane[1])[0]

    @property
    def lanes(self) -> tuple[tuple[str, float], ...]:
        """Lanes that work side by side, each with its seconds a step."""
        load = ("data loading", self.load)
        if self.layout == "mirrored":
            return load, ("transfer", self.transfer), ("training", self.train)
        if self.layout == "single":
            return load, ("the one device (features and training)", self.data + self.train)
        if self.slots == 1:
            return load, ("features, transfer and training by turns (one slot)", self.data + self.train)
        return load, ("the data device (features and transfer)", self.data), ("training", self.train)

    def gain_over(self, before: Costs) -> float:
        """Clips a second here ÷ clips a second before: (t₀ ÷ n₀) ÷ (t₁ ÷ n₁), t the ideal step, n its clips."""
        if self.step <= 0:
            return math.inf
        return (before.step / before.samples) / (self.step / self.samples)


def threads_needed(in_thread: float, goal: float, *, now: int, most: int) -> int:
    """Reading threads that bring a batch every `goal` seconds, where one takes `in_thread` seconds for it.

    ⌈1.25 · in_thread ÷ goal⌉, a quarter more than would just do, since a stage that is only just fast enough still
    makes the model wait now and then; between `now` and `most`.
    """
    if goal <= 0:
        return max(now, most)
    return max(now, min(most, -int(-1.25 * in_thread // goal)))
