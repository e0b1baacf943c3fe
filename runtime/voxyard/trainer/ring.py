"""Ring: a bounded buffer of batches on the model device, filled by one producer thread while the model trains."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

INTERRUPT_SECONDS = 0.2  # how soon a consumer that waits for a stalled producer notices a signal


class Ring(Generic[T]):
    """`slots` batches at the most: the one being made, those that wait, and the one that is being trained on.

    With 3 slots (triple buffering) one is filled, one waits, one is in use; with 1 nothing overlaps.
    """

    def __init__(self, produce: Callable[[], T | None], slots: int) -> None:
        """`produce` makes the next batch (None after the last) and is called in the ring's own thread only."""
        self.slots = slots
        self._produce = produce
        self._free = threading.Semaphore(slots)
        self._change = threading.Condition()
        self._waiting: deque[T] = deque()
        self._error: BaseException | None = None
        self._ended = self._closed = self._in_use = False
        self.first_ready = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="voxyard-ring", daemon=True)

    def start(self) -> None:
        """Starts the producer."""
        self._thread.start()

    @property
    def depth(self) -> int:
        """Batches that wait to be trained on."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """The producer can do nothing more before a batch is taken."""
        with self._change:
            return len(self._waiting) + self._in_use >= self.slots or self._ended

    def get(self, interrupted: Callable[[], bool] = lambda: False) -> tuple[T | None, float]:
        """The next batch (None after the last, or once `interrupted` says so) and the seconds spent waiting for it.

        Gives back the slot of the batch before. Raises, with its traceback, what the producer raised.
        """
        begin = time.perf_counter()
        if self._in_use:
            self._in_use = False
            self._free.release()
        with self._change:
            while not (self._waiting or self._ended or self._closed or interrupted()):
                self._change.wait(INTERRUPT_SECONDS)
            if self._waiting:
                self._in_use = True
                return self._waiting.popleft(), time.perf_counter() - begin
            if self._error is not None:
                raise self._error
            return None, time.perf_counter() - begin

    def close(self) -> None:
        """Ends the producer after the batch that it is making, and drops what waits."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        self._free.release()
        if self._thread.is_alive():
            self._thread.join()
        self._waiting.clear()

    def _fill(self) -> None:
        error: BaseException | None = None
        try:
            while True:
                self._free.acquire()
                if self._closed:
                    break
                batch = self._produce()
                if batch is None:
                    break
                with self._change:
                    self._waiting.append(batch)
                    self._change.notify_all()
                self.first_ready.set()
        except Exception as caught:  # noqa: BLE001 (raised again in get())
            error = caught
        with self._change:
            self._error, self._ended = error, True
            self._change.notify_all()
        self.first_ready.set()
