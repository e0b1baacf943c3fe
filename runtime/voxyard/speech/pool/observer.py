"""Observer interface of the pool; the default does nothing."""

from __future__ import annotations

from voxyard.speech.placement import Cause
from voxyard.speech.pool.scheduler import Census


class PoolObserver:
    """Called from the pool's thread: must return at once and not raise. `device` is a device's name."""

    def census(self, census: Census) -> None:
        """Workers and chunks, after each change."""

    def batch(self, device: str, chunks: int) -> None:
        """A worker got a chunk; with it, it has so many."""

    def waited(self, seconds: float) -> None:
        """A chunk was in the queue for so long before its worker got it."""

    def spoken(self, device: str, audio_seconds: float, seconds: float) -> None:
        """A chunk is done: so much sound, so long after its worker got it."""

    def worked(self, device: str, seconds: float) -> None:
        """A worker has had chunks for so long, since this was last told."""

    def trouble(self, device: str, cause: str) -> None:
        """A batch went wrong or a worker ended; its chunks may still be spoken."""

    def waits(self, device: str, cause: Cause | None) -> None:
        """The device cannot take its worker yet, for this cause; None: it can."""

    def gave_up(self, cause: str, *, silence: bool) -> None:
        """A chunk failed for good, or became silence."""

    def first_audio(self, seconds: float) -> None:
        """A job's first chunk was done so long after the job was submitted."""
