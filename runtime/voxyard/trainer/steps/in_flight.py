"""Steps in flight: those that the model device was given, one of them ahead of the one that it computes. No TensorFlow.

The device never waits for the host to learn of a result: while a step is computed, the next one is handed over. The
losses of each step are copied to the host beside that, and their arrival is the end of the step.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, Self

from voxyard.trainer.sampler import BatchPlan

AHEAD = 1  # steps handed over beside the one that is computed


class Losses(Protocol):
    """Losses of a step on its device."""

    def read(self) -> Mapping[str, float]:
        """The values by name, once the step is computed."""


@dataclass(frozen=True)
class EndedStep:
    """One step that the device has computed. Times are those of one clock, in seconds."""

    plan: BatchPlan
    free: float  # the device had nothing left to compute from before
    asked: float  # the loop asked for the batch
    got: float  # the loop had the batch
    done: float  # the device had computed the step
    traced: bool  # a function was traced (compiled) for it
    losses: Losses

    @property
    def step(self) -> int:
        """Number of the step, from 1."""
        return self.plan.step + 1

    @property
    def duration(self) -> float:
        """The whole step, its wait for data included."""
        return self.done - self.free

    @property
    def wait(self) -> float:
        """Of it, the time in which the device had nothing to compute because the batch was not there."""
        return max(0.0, min(self.got, self.done) - max(self.asked, self.free))


@dataclass
class _Launched:
    plan: BatchPlan
    asked: float
    got: float
    traced: bool
    losses: Losses
    end: Future[tuple[Mapping[str, float], float]] | None = field(default=None)


@dataclass(frozen=True)
class _Values:
    """Losses that lie on the host already."""

    values: Mapping[str, float]

    def read(self) -> Mapping[str, float]:
        """The values by name."""
        return self.values


class StepsInFlight:
    """Order of the steps of a loop, from their launch to their end. A context: its threads live from `with` to its end.

    `asynchronous` devices (GPUs) compute a step after its call has returned: the end of each is waited for in a thread
    of its own, and by the loop only when one more is in flight than AHEAD. Others have computed it by then.
    """

    def __init__(self, *, asynchronous: bool) -> None:
        self.asynchronous = asynchronous
        self._launched: deque[_Launched] = deque()
        self._free = time.perf_counter()

    def __enter__(self) -> Self:
        self._readers = ThreadPoolExecutor(AHEAD + 1, thread_name_prefix="voxyard-losses")
        self.restart()
        return self

    def __exit__(self, *_: object) -> None:
        self._readers.shutdown(cancel_futures=True)

    def restart(self) -> None:
        """The next step counts from now: the device was used for something else."""
        self._free = time.perf_counter()

    def launched(self, plan: BatchPlan, losses: Losses, *, asked: float, got: float, traced: bool) -> None:
        """Takes a step that was handed over to the device."""
        one = _Launched(plan, asked, got, traced, losses)
        if self.asynchronous:
            one.end = self._readers.submit(_read, losses)
        self._launched.append(one)

    def ended(self) -> Iterator[EndedStep]:
        """The steps that ended; waits while more than AHEAD are handed over beside the one that is computed."""
        yield from self._ended(AHEAD if self.asynchronous else 0)

    def drain(self) -> Iterator[EndedStep]:
        """Waits for all steps in flight."""
        yield from self._ended(0)

    def _ended(self, keep: int) -> Iterator[EndedStep]:
        while len(self._launched) > keep:
            one = self._launched.popleft()
            losses, done = one.losses, time.perf_counter()
            if one.end is not None:
                values, done = one.end.result()
                losses = _Values(values)
            # A step ends after the one before it; a thread that learns of that too late may have a later time.
            free, self._free = self._free, max(self._free, done)
            yield EndedStep(one.plan, free, one.asked, one.got, self._free, one.traced, losses)


def _read(losses: Losses) -> tuple[Mapping[str, float], float]:
    values = losses.read()
    return values, time.perf_counter()
