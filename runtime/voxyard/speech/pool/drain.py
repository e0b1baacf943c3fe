"""Drain of a pool: workers that still have chunks, until all of these are delivered."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class PendingWorker:
    """A worker that the drain waits for."""

    device: str
    chunks: int  # that it has not answered yet
    since: float  # when it got the first of them, by time.monotonic


class Drain:
    """Progress of draining the pool. Made by `Pool.drain`; may be read from any thread."""

    def __init__(self) -> None:
        self._pending: tuple[PendingWorker, ...] = ()
        self._finished = threading.Event()

    @property
    def pending(self) -> tuple[PendingWorker, ...]:
        """The workers that are waited for, as of the pool's last update; empty also before its first."""
        return self._pending

    @property
    def finished(self) -> bool:
        """True where every chunk that was with a worker has come to an end, and has been delivered."""
        return self._finished.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the drain has finished; False after a timeout."""
        return self._finished.wait(seconds)

    def update(self, pending: tuple[PendingWorker, ...]) -> None:
        """Called by the pool with the workers that it waits for now."""
        self._pending = pending
        if not pending:
            self._finished.set()
