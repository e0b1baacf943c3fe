"""Adaptive input: reading threads and buffer of a run, raised where batches are waited for. Arithmetic only."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

WINDOW_SECONDS: Final = 10.0
WAITING: Final = 0.10
"""Share of a window that the data stage waits for batches, above which reading is too slow."""
CALM: Final = 0.01
"""And below which it is fast enough. Between the two nothing changes."""
WAITING_WINDOWS: Final = 2
"""Windows in a row, of which each waits, before more is taken: one alone is a hiccup."""
CALM_WINDOWS: Final = 30
"""Windows in a row, of which each is calm, before less is taken; and those for which a step up that was of no use is
not tried again."""
BETTER: Final = 1.05
"""Ratio of batches in a window after a step up and before it, from which on it was of use."""
MOST_THREADS: Final = 64


@dataclass(frozen=True, slots=True)
class InputSize:
    """Reading threads, and batches that may be held or be in the making."""

    threads: int
    buffer: int

    def __str__(self) -> str:
        return f"{self.threads} reading threads, buffer of {self.buffer}"


def largest(threads: int, buffer: int, fits: int) -> InputSize:
    """The most of a run that begins with so many, where the memory has room for `fits` batches.

    Four times the threads, 64 at the most, and twice the buffer: what reads wait for is latency, not cores.
    """
    room = max(buffer, min(2 * buffer, fits))
    return InputSize(min(max(threads, min(4 * threads, MOST_THREADS)), room), room)


class AdaptiveInput:
    """Size of an input, by the waits for its batches in windows of ten seconds.

    It doubles after two windows that waited, goes back where the doubling did not bring more batches, and halves
    towards its beginning after five minutes without a wait.
    """

    def __init__(
        self,
        begin: InputSize,
        most: InputSize,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tell` is given a line for each change."""
        self.size = self._begin = begin
        self._most, self._tell, self._clock = most, tell, clock
        self._start, self._waited, self._batches = clock(), 0.0, 0
        self._waiting = self._calm = self._hold = 0
        self._before: tuple[InputSize, float] | None = None  # a step up on trial: the size, batches a second before it

    def taken(self, waited: float) -> InputSize:
        """The size from now on, after a batch that was waited for so many seconds."""
        self._waited += waited
        self._batches += 1
        now = self._clock()
        if (seconds := now - self._start) >= WINDOW_SECONDS:
            share, rate = min(1.0, self._waited / seconds), self._batches / seconds
            self._start, self._waited, self._batches = now, 0.0, 0
            self._window(share, rate)
        return self.size

    def _window(self, share: float, rate: float) -> None:
        self._waiting = self._waiting + 1 if share > WAITING else 0
        self._calm = self._calm + 1 if share < CALM else 0
        self._hold = max(0, self._hold - 1)
        if self._before is not None and (self._waiting >= WAITING_WINDOWS or not self._waiting):
            size, rate_before = self._before
            self._before = None
            if self._waiting and rate < BETTER * rate_before:
                self._change(size, f"more brought no more batches ({rate:.3g}/s, {rate_before:.3g}/s before)")
                self._hold = CALM_WINDOWS
                return
        if self._waiting >= WAITING_WINDOWS and not self._hold:
            self._grow(share, rate)
        elif self._calm >= CALM_WINDOWS and self.size != self._begin:
            begin, size = self._begin, self.size
            less = InputSize(max(begin.threads, size.threads // 2), max(begin.buffer, size.buffer // 2))
            self._change(less, f"no wait for {CALM_WINDOWS * WINDOW_SECONDS:.0f} s")

    def _grow(self, share: float, rate: float) -> None:
        most, size = self._most, self.size
        more = InputSize(min(most.threads, 2 * size.threads), min(most.buffer, 2 * size.buffer))
        why = f"the data stage waited {share:.0%} of {WAITING_WINDOWS * WINDOW_SECONDS:.0f} s for batches"
        if more == size:
            self._tell(f"Adapting the input: {why}; {size} is the most here (voxyard profile tells what helps)")
            self._hold = CALM_WINDOWS
            return
        self._change(more, why)
        self._before = size, rate

    def _change(self, size: InputSize, why: str) -> None:
        self._tell(f"Adapting the input: {size}, before {self.size.threads} and {self.size.buffer}: {why}")
        self.size, self._waiting, self._calm = size, 0, 0
