"""Prefetch: what threads make ahead, in order and bounded: host batches (input), batches on the model device (ring)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")

INTERRUPT_SECONDS = 0.2  # how soon a consumer that waits for a stalled producer notices a signal


class Prefetch(Generic[T, U]):
    """Batches made of items by threads side by side; they come out in the order of the items.

    Never more than `most` are held: being made, ready, and with `lends` the one that was taken last, until the next
    one is asked for. With three (triple buffering) one is filled, one waits, one is in use; with one nothing overlaps.
    """

    def __init__(
        self,
        items: Iterator[T],
        make: Callable[[T], U],
        *,
        threads: int,
        most: int,
        lends: bool = False,
        name: str = "prefetch",
    ) -> None:
        """Starts the threads, which have this name. `items` is asked by one of them at a time."""
        self._items, self._make, self._lends, self._name = items, make, lends, name
        lock = threading.Lock()
        self._change, self._room = threading.Condition(lock), threading.Condition(lock)  # for the taker, for threads
        self._made: dict[int, U | Exception] = {}
        self._drawn = self._taken = 0
        self._in_use = self._drawing = self._ended = self._closed = self._paused = False
        self._threads: dict[int, threading.Thread] = {}
        self.first_ready = threading.Event()
        self.resize(threads=threads, most=most)

    def resize(self, *, threads: int, most: int) -> None:
        """Other numbers from now on. Threads that are too many end after the batch that they make; none is dropped."""
        with self._room:
            self.most, self._wanted = most, min(threads, most)
            self._room.notify_all()
            for number in range(0 if self._closed or self._ended else self._wanted):
                if number not in self._threads:
                    self._threads[number] = thread = threading.Thread(
                        target=self._work, args=(number,), name=f"voxyard-{self._name}-{number}", daemon=True
                    )
                    thread.start()

    @property
    def ready(self) -> int:
        """Batches that are ready to be taken."""
        return len(self._made)

    @property
    def held(self) -> int:
        """Batches that are being made, ready or in use."""
        return self._drawn - self._taken + self._in_use

    @property
    def full(self) -> bool:
        """No more batches will be made before one is taken."""
        with self._change:
            return len(self._made) + self._in_use >= self.most or (self._ended and not self._making)

    def get(self, interrupted: Callable[[], bool] = lambda: False) -> U | None:
        """The next batch; None after the last, and once `interrupted` says so.

        Raises, with its traceback, what the next item or making its batch raised, which is the end.
        """
        with self._change:
            if self._in_use:
                self._in_use = False
                self._room.notify()
            while not (self._taken in self._made or self._closed or self._at_end() or interrupted()):
                self._change.wait(INTERRUPT_SECONDS)
            made = self._made.get(self._taken)
            if made is None:
                return None
            if isinstance(made, Exception):
                raise made
            del self._made[self._taken]
            self._taken += 1
            self._in_use = self._lends
            self._room.notify()
            return made

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Scope in which no batch is being made: entered when those in progress are ready."""
        with self._change:
            self._paused = True
            self._change.wait_for(lambda: not self._making or self._closed)
        try:
            yield
        finally:
            with self._room:
                self._paused = False
                self._room.notify_all()

    def close(self) -> None:
        """Ends the threads after the batches that they are making, and drops what is ready."""
        with self._change:
            self._closed = True
            self._change.notify_all()
            self._room.notify_all()
            threads = list(self._threads.values())
        for thread in threads:
            thread.join()
        self._made.clear()

    @property
    def _making(self) -> int:
        return self._drawn - self._taken - len(self._made)

    def _at_end(self) -> bool:
        return self._ended and self._taken == self._drawn

    def _work(self, number: int) -> None:
        while (drawn := self._draw(number)) is not None:
            place, item = drawn
            try:
                made = item if isinstance(item, Exception) else self._make(item)
            except Exception as error:  # noqa: BLE001 (raised again in get())
                made = error
            with self._change:
                self._made[place] = made
                self._ended = self._ended or isinstance(made, Exception)
                self._change.notify_all()
            self.first_ready.set()

    def _draw(self, number: int) -> tuple[int, T | Exception] | None:
        """The next item, or why there is none, and its place, once there is room; None where the thread is to end."""
        with self._room:
            self._room.wait_for(lambda: self._leaves(number) or (not self._drawing and self.held < self.most))
            if self._leaves(number):
                self._leave(number)
                return None
            self._drawing = True
        item = self._next()
        with self._room:
            self._room.wait_for(lambda: not self._paused or self._closed)
            self._drawing = False
            if item is None or self._closed:
                self._ended = True
                self.first_ready.set()  # there may be none
                self._change.notify_all()
                self._leave(number)
                return None
            self._room.notify()
            self._drawn += 1
            return self._drawn - 1, item

    def _next(self) -> T | Exception | None:
        try:
            return next(self._items, None)
        except Exception as error:  # noqa: BLE001 (raised again in get())
            return error

    def _leaves(self, number: int) -> bool:
        return self._closed or self._ended or number >= self._wanted

    def _leave(self, number: int) -> None:
        del self._threads[number]
        self._room.notify_all()  # what woke this thread may have been meant for another
