"""Validation: mean losses over the clips that are held out, in the shapes of the training."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from voxyard.corpus import ExampleSource
from voxyard.trainer.input import BatchAssembler, HostBatch
from voxyard.trainer.sampler import BatchPlan, BatchSampler, Bucket, smallest_fitting
from voxyard.trainer.step import Arrays, TrainStep

log = logging.getLogger("voxyard.trainer")


class HeldOutValidation:
    """The held-out clips as batches. The buckets are the training's, so that nothing is traced for other shapes."""

    def __init__(
        self,
        source: ExampleSource,
        buckets: Sequence[Bucket],
        *,
        rows: int,
        hop_length: int,
        max_bad_share: float,
    ) -> None:
        frames = source.samples // hop_length
        self._fitting = smallest_fitting(frames, source.token_lengths, tuple(buckets))
        self._buckets, self._rows = tuple(buckets), rows
        everything = BatchSampler(frames, source.token_lengths, buckets=None, rows=1, seed=0, window=0)
        self._assemble = BatchAssembler(source, everything, hop_length=hop_length, seed=0, max_bad_share=max_bad_share)
        left_out = int((self._fitting < 0).sum())
        if left_out:
            log.warning("%d of %d validation clips are longer than any training clip: left out", left_out, len(source))

    @property
    def batches(self) -> int:
        """Batches of a whole validation."""
        return len(self._plans())

    def run(self, step: TrainStep, progress: Callable[[], None] = lambda: None, *, every: int = 1) -> dict[str, float]:
        """Mean of each loss per clip, over each `every`th batch; {} without a clip.

        `progress` is called after each batch.
        """
        sums: dict[str, float] = {}
        clips = 0
        for batch, real in self._assembled(self._plans()[::every]):
            for name, values in step.evaluate(batch.arrays).items():
                sums[name] = sums.get(name, 0.0) + float(values[:real].sum())
            clips += real
            progress()
        return {name: total / clips for name, total in sums.items()}

    def trace(self, step: TrainStep) -> None:
        """One batch of each shape, so that a validation traces and compiles nothing."""
        for batch, _ in self._assembled(list({plan.bucket: (plan, real) for plan, real in self._plans()}.values())):
            step.evaluate(batch.arrays)

    def first(self) -> Arrays | None:
        """The arrays of the first batch, None without a clip."""
        found = next(self._assembled(self._plans()[:1]), None)
        return None if found is None else found[0].arrays

    def _assembled(self, plans: Sequence[tuple[BatchPlan, int]]) -> Iterator[tuple[HostBatch, int]]:
        return ((self._assemble(plan), real) for plan, real in plans)

    def _plans(self) -> list[tuple[BatchPlan, int]]:
        """Batches, the last of a bucket filled up by repeating clips; and how many of their rows count."""
        plans = []
        for position, bucket in enumerate(self._buckets):
            members = np.flatnonzero(self._fitting == position)
            for begin in range(0, len(members), self._rows):
                part = members[begin : begin + self._rows]
                clips = tuple(int(clip) for clip in np.resize(part, self._rows))
                plans.append((BatchPlan(0, 0, bucket, clips), len(part)))
        return plans
