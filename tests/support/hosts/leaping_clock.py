"""Cancellation with a leaping clock: waits take no time."""

from __future__ import annotations

from collections.abc import Callable

from fleet.rollout.context import Cancellation


class LeapingCancellation(Cancellation):
    """Cancellation whose waits return immediately; `then` is called after each wait with the elapsed seconds."""

    def __init__(self, then: Callable[[float], None] = lambda _: None) -> None:
        super().__init__()
        self.time = 0.0
        self.then = then

    def now(self) -> float:
        """Elapsed seconds."""
        return self.time

    def wait(self, seconds: float, *, rolling_back: bool = False) -> None:
        """Advance the clock."""
        self.time += seconds
        self.then(self.time)
        self.check(rolling_back=rolling_back)
