"""Synthesis throughput: seconds of audio per second, over the last chunks."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

WINDOW = 256  # chunks that the estimate covers
UNKNOWN = 30.0  # seconds until a retry, before the first measurement
_LEAST, _MOST = 1.0, 3600.0


class Throughput:
    """Throughput estimate over the last finished chunks. May be used from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made: deque[tuple[float, float]] = deque(maxlen=WINDOW)  # clock, seconds of audio
        self._lock = threading.Lock()

    def record(self, audio_seconds: float) -> None:
        """Records a finished chunk of so many seconds of audio."""
        with self._lock:
            self._made.append((self._clock(), audio_seconds))

    def rate(self) -> float | None:
        """Seconds of audio per second; None before the second chunk."""
        with self._lock:
            if len(self._made) < 2:
                return None
            (began, first), (ended, _) = self._made[0], self._made[-1]
            made = sum(seconds for _, seconds in self._made) - first
        return made / (ended - began) if ended > began and made > 0 else None

    def retry_after(self, audio_seconds: float) -> float:
        """Estimated seconds until so much audio is synthesized, 1 to 3600."""
        rate = self.rate()
        return UNKNOWN if rate is None else min(_MOST, max(_LEAST, audio_seconds / rate))
