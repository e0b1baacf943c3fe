"""Batch schedule: length buckets and an order that follows from (seed, epoch) alone. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxyard.trainer.errors import TrainerError

FRAME_STEP = 32  # a bucket's frames are a multiple of this: few shapes, little padding
TOKEN_STEP = 8

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class Bucket:
    """The padded shape of a batch: mel frames and text tokens."""

    frames: int
    tokens: int


@dataclass(frozen=True)
class BatchPlan:
    """One batch to be made: its step (from 0), its shape, and the clips that go into it."""

    step: int
    epoch: int
    bucket: Bucket
    clips: tuple[int, ...]


def plan_buckets(frames: Lengths, tokens: Lengths, *, rows: int, most: int) -> tuple[Bucket, ...]:
    """At most `most` buckets that hold about the same number of clips each, and at least `rows` of them.

    `frames` and `tokens` are the clips' lengths. Raises TrainerError where not even one batch can be filled.
    """
    clips = len(frames)
    if clips < rows:
        raise TrainerError(
            f"a batch needs {rows} clips and the corpus has {clips}: lower --batch-size (or --grad-accum), "
            "or bring more recordings"
        )
    count = min(most, clips // rows)
    order = np.argsort(frames, kind="stable")
    buckets: list[Bucket] = []
    for part in np.array_split(order, count):
        bucket = Bucket(
            frames=_round_up(int(frames[part].max()), FRAME_STEP),
            tokens=_round_up(int(tokens[part].max()), TOKEN_STEP),
        )
        if buckets and bucket.frames == buckets[-1].frames:
            bucket = Bucket(bucket.frames, max(bucket.tokens, buckets.pop().tokens))
        buckets.append(bucket)
    return tuple(buckets)


def smallest_fitting(frames: Lengths, tokens: Lengths, buckets: tuple[Bucket, ...]) -> NDArray[np.int64]:
    """For each clip the position of the smallest bucket that holds it, −1 where none does."""
    fitting = np.full(len(frames), -1, np.int64)
    for position in reversed(range(len(buckets))):
        bucket = buckets[position]
        fitting[(frames <= bucket.frames) & (tokens <= bucket.tokens)] = position
    return fitting


class BatchSampler:
    """Endless sequence of a run's batches, addressable by step, so that a resumed run continues with the next batch."""

    def __init__(
        self,
        frames: Lengths,
        tokens: Lengths,
        *,
        buckets: tuple[Bucket, ...] | None,
        rows: int,
        seed: int,
        window: int,
    ) -> None:
        """`rows` clips a batch; `window` is the size of the shuffle window in clips (0 keeps the corpus' order).

        Without `buckets` every batch has the shape of its own longest clip.
        """
        self.rows = rows
        self._frames, self._tokens = frames, tokens
        self._buckets = buckets
        self._seed, self._window = seed, window
        self._member = np.zeros(len(frames), np.int64) if buckets is None else smallest_fitting(frames, tokens, buckets)
        sizes = np.bincount(self._member[self._member >= 0], minlength=1)
        self.steps_per_epoch = int((sizes // rows).sum())
        if self.steps_per_epoch == 0:
            raise TrainerError(
                f"no length bucket holds the {rows} clips of a batch (largest: {int(sizes.max())}): "
                "lower --batch-size or --buckets"
            )

    def bucket_members(self, clip: int) -> NDArray[np.int64]:
        """The clips that share `clip`'s bucket."""
        return np.flatnonzero(self._member == self._member[clip])

    def batches(self, first: int, end: int | None) -> Iterator[BatchPlan]:
        """The batches of steps `first` to `end` − 1 (for ever without `end`)."""
        epoch, skip = divmod(first, self.steps_per_epoch)
        step = first
        while end is None or step < end:
            for bucket, clips in self._epoch(epoch)[skip:]:
                if end is not None and step >= end:
                    return
                yield BatchPlan(step, epoch, bucket, clips)
                step += 1
            epoch, skip = epoch + 1, 0

    def _epoch(self, epoch: int) -> list[tuple[Bucket, tuple[int, ...]]]:
        """An epoch's batches; what does not fill a batch is left out, other clips in every epoch."""
        waiting: dict[int, list[int]] = {}
        batches = []
        for clip in self._order(epoch):
            member = int(self._member[clip])
            if member < 0:
                continue
            clips = waiting.setdefault(member, [])
            clips.append(clip)
            if len(clips) == self.rows:
                batches.append((self._shape(member, clips), tuple(clips)))
                waiting[member] = []
        return batches

    def _shape(self, member: int, clips: list[int]) -> Bucket:
        if self._buckets is not None:
            return self._buckets[member]
        return Bucket(int(self._frames[clips].max()), int(self._tokens[clips].max()))

    def _order(self, epoch: int) -> Iterator[int]:
        """Clips in corpus order from a random start, shuffled within a window: nearly sequential for disks."""
        count = len(self._frames)
        if self._window == 0:
            yield from range(count)
            return
        draw = np.random.default_rng((self._seed, epoch))
        start = int(draw.integers(count))
        window: list[int] = []
        for position in range(count):
            clip = (start + position) % count
            if len(window) < self._window:
                window.append(clip)
                continue
            out = int(draw.integers(self._window))
            yield window[out]
            window[out] = clip
        yield from (window[i] for i in draw.permutation(len(window)))


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
