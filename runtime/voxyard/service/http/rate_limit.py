"""Rate limiter: a token bucket per API key."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

_MINUTE = 60.0


class Rates:
    """Token buckets by name: `per_minute` requests at once, refilled at that rate; 0 sets no limit.

    May be used from several threads. The names are those of API keys, so there are never more buckets than keys
    that were ever valid.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}  # name → turns left, and when that was counted

    def take(self, name: str) -> float:
        """Takes a turn: 0.0 if there was one, else the seconds until there is; a refusal costs no turn."""
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
    """A wait as the header Retry-After writes it: whole seconds, at least one, never too few."""
    return max(1, math.ceil(wait))
