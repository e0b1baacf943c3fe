"""Cancellation with a leaping clock: waits take no time."""

from __future__ import annotations

from collections.abc import Callable

from fleet.rollout.context import Cancellation


class LeapingCancellation(Cancellation):
    """`then` is called after each wait with the seconds since the beginning, and may ask to stop."""

    def __init__(self, then: Callable[[float], None] = lambda _: None) -> None:
        super().__init__()
        self.time = 0.0
        self.then = then

    def now(self) -> float:
        """Seconds since the beginning."""
        return self.time

    def wait(self, seconds: float, *, rolling_back: bool = False) -> None:
        """So many seconds are over."""
        self.time += seconds
        self.then(self.time)
        self.check(rolling_back=rolling_back)
