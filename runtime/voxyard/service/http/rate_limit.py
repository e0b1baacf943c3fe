"""Rate limiter: a token bucket per API key."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

_MINUTE = 60.0


class RateLimiter:
    """Token buckets by API key name: capacity `per_minute`, refilled at that rate; 0 disables the limit.

    May be used from several threads. Only names of valid keys get a bucket, which bounds their number.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}  # name → tokens left, and the clock at that count

    def take(self, name: str) -> float:
        """Takes a token; returns 0.0, or where none is left the seconds until the next, without taking one."""
        if self._most <= 0:
            return 0.0
        with self._lock:
            now = self._clock()
            left, counted = self._buckets.get(name, (self._most, now))
            left = min(self._most, left + (now - counted) * self._most / _MINUTE)
            wait = 0.0 if left >= 1 else (1 - left) * _MINUTE / self._most
            self._buckets[name] = (left if wait else left - 1, now)
        return wait


def whole_seconds(wait: float) -> int:
    """Seconds rounded up to a whole number, at least 1, as `Retry-After` needs them."""
    return max(1, math.ceil(wait))
