"""Graceful shutdown: nothing more is begun, and the chunks that workers have in hand are waited for."""

from __future__ import annotations

import time

from voxyard.service.documents.queue import Desk
from voxyard.service.streaming.speech_request import PRIORITY, Turnstile
from voxyard.speech.pool.drain import Drain
from voxyard.speech.pool.pool import Pool


class Work:
    """Work of the service beside answering: its documents, and the speech that open requests wait for.

    Documents wait in the store for the next start. Requests that have begun are still spoken while they are open.
    """

    def __init__(self, desk: Desk, turnstile: Turnstile, pool: Pool) -> None:
        self._desk, self._turnstile, self._pool = desk, turnstile, pool
        self._drain: Drain | None = None
        self.cut = False  # nobody waits for anything any more

    @property
    def draining(self) -> bool:
        """True where no new work is begun."""
        return self._drain is not None

    def drain(self) -> None:
        """Begin nothing more. Returns at once."""
        self._turnstile.close()
        self._desk.drain()
        self._drain = self._pool.drain(below=PRIORITY)

    @property
    def drained(self) -> bool:
        """True where the documents' chunks that were with a worker have come back."""
        return self._drain is not None and self._drain.finished

    def awaited(self) -> str:
        """The chunks that are waited for, in words; empty where there are none."""
        if self._drain is None:
            return ""
        now = time.monotonic()
        return ", ".join(
            f"{each.chunks} {'chunk' if each.chunks == 1 else 'chunks'} of worker {each.device} "
            f"(in work for {now - each.since:.0f} s)"
            for each in self._drain.pending
        )
