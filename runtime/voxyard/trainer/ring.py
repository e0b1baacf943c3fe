"""Ring: a bounded buffer of batches on the model device, filled by producer threads while the model trains."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")

INTERRUPT_SECONDS = 0.2  # how soon a consumer that waits for a stalled producer notices a signal


class Ring(Generic[T, U]):
    """`slots` batches at the most: those being made, those that wait, and the one that is being trained on.

    With 3 slots (triple buffering) one is filled, one waits, one is in use; with 1 nothing overlaps. Batches come out
    in the order in which they were taken, also where several threads make one each.
    """

    def __init__(self, take: Callable[[], T | None], make: Callable[[T], U], slots: int, *, threads: int = 1) -> None:
        """`take` gives the next item (None after the last), one thread at a time; `make` makes its batch."""
        self.slots = slots
        self._take, self._make = take, make
        self._free = threading.Semaphore(slots)
        self._turn = threading.Lock()
        self._change = threading.Condition()
        self._made: dict[int, U | BaseException] = {}
        self._next = self._drawn = self._making = 0
        self._ended = self._closed = self._paused = self._in_use = False
        self.first_ready = threading.Event()
        self._threads = [
            threading.Thread(target=self._fill, name=f"voxyard-ring-{number}", daemon=True)
            for number in range(min(threads, slots))
        ]

    def start(self) -> None:
        """Starts the producers."""
        for thread in self._threads:
            thread.start()

    @property
    def depth(self) -> int:
        """Batches that wait to be trained on."""
        return len(self._made)

    @property
    def full(self) -> bool:
        """The producers can do nothing more before a batch is taken."""
        with self._change:
            return len(self._made) + self._in_use >= self.slots or (self._ended and not self._making)

    def get(self, interrupted: Callable[[], bool] = lambda: False) -> tuple[U | None, float]:
        """The next batch (None after the last, or once `interrupted` says so) and the seconds spent waiting for it.

        Gives back the slot of the batch before. Raises, with its traceback, what a producer raised.
        """
        begin = time.perf_counter()
        if self._in_use:
            self._in_use = False
            self._free.release()
        with self._change:
            while not (self._next in self._made or self._at_end() or self._closed or interrupted()):
                self._change.wait(INTERRUPT_SECONDS)
            batch = self._made.pop(self._next, None)
            if batch is None:
                return None, time.perf_counter() - begin
            if isinstance(batch, BaseException):
                self._made[self._next] = batch
                raise batch
            self._next += 1
            self._in_use = True
            return batch, time.perf_counter() - begin

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Scope in which no batch is being made: entered when those in progress are ready."""
        with self._change:
            self._paused = True
            self._change.wait_for(lambda: not self._making or self._closed)
        try:
            yield
        finally:
            with self._change:
                self._paused = False
                self._change.notify_all()

    def close(self) -> None:
        """Ends the producers after the batches that they are making, and drops what waits."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        for _ in self._threads:
            self._free.release()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._made.clear()

    def _at_end(self) -> bool:
        return self._ended and self._next == self._drawn

    def _fill(self) -> None:
        while True:
            self._free.acquire()
            number, made = self._produce()
            with self._change:
                if made is not None:
                    self._made[number] = made
                    self._making -= 1
                self._ended = self._ended or made is None or isinstance(made, BaseException)
                self._change.notify_all()
            self.first_ready.set()
            if made is None or isinstance(made, BaseException):
                self._free.release()  # the other threads end the same way
                return

    def _produce(self) -> tuple[int, U | BaseException | None]:
        """The number of a batch, and the batch, what making it raised, or None after the last."""
        with self._turn:
            if self._closed or self._ended:
                return self._drawn, None
            number = self._drawn
            item: T | None = None
            failure: Exception | None = None
            try:
                item = self._take()
            except Exception as error:  # noqa: BLE001 (raised again in get())
                failure = error
            if item is None and failure is None:
                return number, None
            with self._change:
                self._change.wait_for(lambda: not self._paused or self._closed)
                self._drawn += 1
                self._making += 1
        if item is None:
            return number, failure
        try:
            return number, self._make(item)
        except Exception as error:  # noqa: BLE001 (raised again in get())
            return number, error
