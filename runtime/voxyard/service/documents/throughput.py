"""Synthesis throughput: seconds of audio per second, measured as it comes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

WINDOW = 256  # chunks that are looked back on
UNKNOWN = 30.0  # seconds to wait where nothing has been measured yet
_LEAST, _MOST = 1.0, 3600.0


class Pace:
    """Throughput estimate from every finished chunk; called by one thread or several."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made: deque[tuple[float, float]] = deque(maxlen=WINDOW)  # when, seconds of sound
        self._lock = threading.Lock()

    def note(self, audio_seconds: float) -> None:
        """A chunk with so much sound has been spoken."""
        with self._lock:
            self._made.append((self._clock(), audio_seconds))

    def rate(self) -> float | None:
        """Seconds of sound made in a second; None until a few chunks show it."""
        with self._lock:
            if len(self._made) < 2:
                return None
            (began, first), (ended, _) = self._made[0], self._made[-1]
            made = sum(seconds for _, seconds in self._made) - first
        return made / (ended - began) if ended > began and made > 0 else None

    def retry_after(self, audio_seconds: float) -> float:
        """In how many seconds so much sound will have been made, 1 to 3600."""
        rate = self.rate()
        return UNKNOWN if rate is None else min(_MOST, max(_LEAST, audio_seconds / rate))
