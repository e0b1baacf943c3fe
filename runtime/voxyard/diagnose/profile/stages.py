"""Stages of a batch: the time of each alone, with its statistics. No TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Stage = Literal["load", "features", "transfer", "train"]

NAMES: Mapping[Stage, str] = {
    "load": "data loading",
    "features": "features on the data device",
    "transfer": "transfer to the model device",
    "train": "training on the model device",
}
"""Each stage in words."""


@dataclass(frozen=True)
class Figures:
    """Figures of a series of durations in seconds; `count` is 0 where there was none."""

    count: int
    mean: float
    std: float
    min: float
    p50: float
    p95: float
    max: float

    @property
    def variation(self) -> float:
        """Standard deviation ÷ mean."""
        return self.std / self.mean if self.mean else 0.0


def figures(seconds: Collection[float]) -> Figures:
    """The figures of a series (population standard deviation; percentiles by linear interpolation)."""
    if not seconds:
        return Figures(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    ordered = sorted(seconds)
    mean = math.fsum(ordered) / len(ordered)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / len(ordered))
    return Figures(
        count=len(ordered), mean=mean, std=std, min=ordered[0],
        p50=percentile(ordered, 0.5), p95=percentile(ordered, 0.95), max=ordered[-1],
    )  # fmt: skip


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` (0…1) of a sorted series lies, interpolated between its neighbours."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


@dataclass(frozen=True)
class StageTimes:
    """One stage measured alone: seconds a batch, and its share of the sum of all stages."""

    stage: Stage
    seconds: tuple[float, ...]  # a value a batch, in the order they were made
    share: float  # 0…1
    note: str = ""

    @property
    def figures(self) -> Figures:
        """Mean, standard deviation, percentiles."""
        return figures(self.seconds)

    @property
    def mean(self) -> float:
        """Mean seconds a batch."""
        return self.figures.mean

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        found = asdict(self.figures)
        return {"batches": found.pop("count"), **asdict(self), **found}


def with_shares(
    measured: Mapping[Stage, Sequence[float]], notes: Mapping[Stage, str] | None = None
) -> tuple[StageTimes, ...]:
    """The stages in their order, each with its share: its mean ÷ the sum of the means."""
    means = {stage: figures(seconds).mean for stage, seconds in measured.items()}
    total = math.fsum(means.values()) or 1.0
    notes = notes or {}
    return tuple(
        StageTimes(stage, tuple(seconds), means[stage] / total, notes.get(stage, ""))
        for stage, seconds in measured.items()
    )
