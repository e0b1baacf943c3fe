"""Observer interface of the pool; the default does nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from voxyard.speech.placement import RefusalCause
from voxyard.speech.pool.scheduler import PoolStats

Charge = Callable[[str, int, float, float], None]
"""Gets what a tenant has had spoken: characters of its text, seconds of audio, seconds of workers.

As an observer, it returns at once.
"""


class PoolObserver:
    """Called from the pool's thread: must return at once and not raise. `device` is a device's name."""

    def stats(self, stats: PoolStats) -> None:
        """Counts of workers and chunks, after each change."""

    def chunk_sent(self, device: str, chunks: int) -> None:
        """A worker got a chunk; with it, it has so many."""

    def chunk_waited(self, seconds: float) -> None:
        """A chunk was in the queue for so long before its worker got it."""

    def chunk_spoken(self, device: str, audio_seconds: float, seconds: float) -> None:
        """A chunk is done: seconds of audio, and seconds since its worker got it."""

    def chunk_checked(self, device: str, model: str, faults: Sequence[str]) -> None:
        """A spoken chunk was checked by its engine, which found these faults after its own retries."""

    def worked(self, device: str, seconds: float) -> None:
        """A worker has had chunks for so long, since the last call."""

    def failure(self, device: str, cause: str) -> None:
        """A batch failed or a worker ended; its chunks may still be spoken."""

    def device_waits(self, device: str, cause: RefusalCause | None) -> None:
        """The device cannot take its worker yet, for this cause; None: it can."""

    def chunk_failed(self, cause: str, *, silence: bool) -> None:
        """A chunk failed for good, or became silence."""

    def first_audio(self, seconds: float) -> None:
        """A listener has the first audible sample of a job so long after the request."""
