"""Rate limiter: a token bucket per API key."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from voxyard.service.errors import BusyError

_MINUTE = 60.0
REFUSALS = 50.0
"""Refusals that a key is told in a second: one that asks again at once takes no more of the service than these."""
LONGEST_PAUSE = 5.0
"""Most seconds that a refusal is kept back."""


class RateLimiter:
    """Token buckets by API key name: capacity `per_minute`, refilled at that rate; 0 disables the limit.

    A key with a rate of its own has a bucket of that.

    May be used from several threads. Only names of valid keys get a bucket, which bounds their number.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}  # name → tokens left, and the clock at that count
        self._told: dict[str, float] = {}  # name → clock at which the last refusal is told

    def admit(self, name: str, own: int | None = None) -> None:
        """As `take`. Raises BusyError where no token is left."""
        if wait := self.take(name, own):
            raise BusyError(
                f"rate limit exceeded: {self.rate(own):g} requests per minute for the key {name}; "
                f"retry in {whole_seconds(wait)} s",
                retry_after=wait,
            )

    def take(self, name: str, own: int | None = None) -> float:
        """Takes a token; returns 0.0, or where none is left the seconds until the next, without taking one.

        `own` is the rate of the key itself, a minute; the smaller one counts.
        """
        most = self.rate(own)
        if most <= 0:
            return 0.0
        with self._lock:
            now = self._clock()
            left, counted = self._buckets.get(name, (most, now))
            left = min(most, left + (now - counted) * most / _MINUTE)
            wait = 0.0 if left >= 1 else (1 - left) * _MINUTE / most
            self._buckets[name] = (left if wait else left - 1, now)
        return wait

    def pause(self, name: str) -> float:
        """Seconds after which a refusal is told: none at first, then so that a key gets `REFUSALS` a second."""
        with self._lock:
            now = self._clock()
            told = max(now, self._told.get(name, -math.inf) + 1 / REFUSALS)
            self._told[name] = told = min(told, now + LONGEST_PAUSE)
        return told - now

    def rate(self, own: int | None = None) -> float:
        """Requests a minute of a key with this rate of its own; 0 without a limit."""
        return self._most if own is None else min(float(own), self._most or float(own))


def whole_seconds(wait: float) -> int:
    """Seconds rounded up to a whole number, at least 1, as `Retry-After` needs them."""
    return max(1, math.ceil(wait))
