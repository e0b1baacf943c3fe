"""Graceful shutdown: starts no new work and waits for the chunks that workers are synthesizing."""

from __future__ import annotations

import time

from voxyard.service.documents.queue import ChangeNotifier, DocumentQueue
from voxyard.service.streaming.speech_request import PRIORITY, ConcurrencyLimiter
from voxyard.speech.pool.drain import Drain
from voxyard.speech.pool.pool import Pool


class GracefulShutdown:
    """Drains the document queue and the worker pool.

    Unfinished documents stay in the store for the next start. Speech requests in progress continue while they are open.
    """

    def __init__(self, queue: DocumentQueue, limiter: ConcurrencyLimiter, pool: Pool, notifier: ChangeNotifier) -> None:
        self._queue, self._limiter, self._pool, self._notifier = queue, limiter, pool, notifier
        self._drain: Drain | None = None
        self._announced = False
        self.forced = False  # a second signal came: the pool is closed without waiting

    def announce(self) -> None:
        """Reports the service as not ready, so that a gateway sends no new work, and still accepts all requests."""
        self._announced = True

    @property
    def announced(self) -> bool:
        """True once the shutdown has begun."""
        return self._announced or self.draining

    @property
    def draining(self) -> bool:
        """True once `drain` was called."""
        return self._drain is not None

    def drain(self) -> None:
        """Starts no new work. Returns at once."""
        self._limiter.close()
        self._queue.drain()
        self._drain = self._pool.drain(below=PRIORITY)

    @property
    def drained(self) -> bool:
        """True where no worker has a document's chunk in progress any more."""
        return self._drain is not None and self._drain.finished

    def end_streams(self) -> None:
        """Ends the streams of unfinished documents, to which nothing is added before the next start."""
        self._notifier.close()

    def describe_pending(self) -> str:
        """Chunks in progress, as `2 chunks on worker cuda:0 (running for 3 s)`; empty where there are none."""
        if self._drain is None:
            return ""
        now = time.monotonic()
        return ", ".join(
            f"{each.chunks} {'chunk' if each.chunks == 1 else 'chunks'} on worker {each.device} "
            f"(running for {now - each.since:.0f} s)"
            for each in self._drain.pending
        )
