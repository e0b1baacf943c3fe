"""Validation: mean losses over the clips that are held out, in the shapes of the training, on all devices of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus import ExampleSource
from voxyard.trainer.input import BatchAssembler, HostBatch
from voxyard.trainer.sampler import BatchPlan, BatchSampler, Bucket, smallest_fitting
from voxyard.trainer.step import Arrays, TrainStep

if TYPE_CHECKING:
    from voxyard.trainer.hosts.collectives import Hosts

log = logging.getLogger("voxyard.trainer")


class HeldOutValidation:
    """The held-out clips as batches. The buckets are the training's, so that nothing is traced for other shapes.

    Each replica, and each host, has its share of the batches; the means are those of one device, digit by digit.
    """

    def __init__(
        self,
        source: ExampleSource,
        buckets: Sequence[Bucket],
        *,
        rows: int,
        hop_length: int,
        max_bad_share: float,
        hosts: Hosts | None = None,
    ) -> None:
        self._hosts = hosts
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

    def run(
        self,
        step: TrainStep,
        progress: Callable[[], None] = lambda: None,
        *,
        every: int = 1,
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> dict[str, float]:
        """Mean of each loss per clip, over each `every`th batch; {} without a clip. Over hosts all of them call it.

        `progress` is called after each batch of this host; it reads its clips within `reading`.
        """
        plans = self._plans()[::every]
        if not plans:
            return {}
        index, count = (0, 1) if self._hosts is None else (self._hosts.group.index, self._hosts.group.count)
        mine = list(range(index, len(plans), count))
        sums: dict[str, NDArray[np.float64]] = {}  # of each batch, 0 where another host has it
        for places in self._together(plans, mine or [0], step.replicas):  # without one, it learns the losses' names
            with reading():
                batches = [self._assemble(plans[place][0]).arrays for place in places]
            for place, losses in zip(places, step.evaluate_each(batches), strict=True):
                for name, values in losses.items():
                    own = float(values[: plans[place][1]].sum()) if mine else 0.0
                    sums.setdefault(name, np.zeros(len(plans)))[place] = own
                progress()
        if self._hosts is not None:
            sums = self._hosts.merged(sums)
        clips = sum(real for _, real in plans)
        return {name: sum(of_batches.tolist()) / clips for name, of_batches in sums.items()}

    def trace(self, step: TrainStep) -> None:
        """One batch of each shape, so that a validation traces and compiles nothing."""
        for batch, _ in self._assembled(list({plan.bucket: (plan, real) for plan, real in self._plans()}.values())):
            step.evaluate_each([batch.arrays])

    def first(self) -> Arrays | None:
        """The arrays of the first batch, None without a clip."""
        found = next(self._assembled(self._plans()[:1]), None)
        return None if found is None else found[0].arrays

    @staticmethod
    def _together(
        plans: Sequence[tuple[BatchPlan, int]], places: Sequence[int], replicas: int
    ) -> Iterator[Sequence[int]]:
        """The places in groups of one bucket, as many as there are replicas."""
        for _, of_bucket in groupby(places, key=lambda place: plans[place][0].bucket):
            alike = list(of_bucket)
            yield from (alike[begin : begin + replicas] for begin in range(0, len(alike), replicas))

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
