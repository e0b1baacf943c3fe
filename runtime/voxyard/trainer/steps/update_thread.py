"""Thread of the updates on a second device, one after the other in the order of the steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

T = TypeVar("T")
Values = dict[str, float]

AHEAD = 2  # steps that the first device may be ahead


class UpdateThread(Generic[T]):
    """A queue of batches and the thread that trains on them; the first failure ends it."""

    def __init__(self, update: Callable[[T], Values]) -> None:
        """`update` trains on a batch and gives the losses."""
        self._update = update
        self._room = threading.Semaphore(AHEAD + 1)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="voxyard-updates")
        self._last: Future[Values] | None = None
        self._failure: Exception | None = None
        self.blocked_seconds = 0.0  # in which `submit` waited for room

    def submit(self, batch: T) -> Future[Values]:
        """Takes the batch of the next step; waits for room. Raises what an update before it has raised."""
        begin = time.perf_counter()
        self._room.acquire()
        self.blocked_seconds += time.perf_counter() - begin
        if self._failure is not None:
            self._room.release()
            raise self._failure
        self._last = self._thread.submit(self._train, batch)
        return self._last

    def drain(self) -> None:
        """Waits for all that was submitted. Raises what an update has raised."""
        if self._last is not None:
            wait([self._last])
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Ends the thread after the update that it is making."""
        self._thread.shutdown(cancel_futures=True)

    def _train(self, batch: T) -> Values:
        try:
            if self._failure is not None:
                raise self._failure
            return self._update(batch)
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._room.release()
