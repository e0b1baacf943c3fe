"""Interpreter lock of this process: how often another thread holds it. Threads that wait for it share one core."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

LOOK_SECONDS = 0.1
HELD_SECONDS = 1e-3
"""Wait from which the lock was held: giving it up and taking it again costs microseconds, a thread that computes in
Python keeps it for 5 ms (sys.getswitchinterval)."""


class LockWatch:
    """Gives the lock up ten times a second and sees whether another thread takes it. A context.

    Free where threads wait for a disk or a network, or compute outside of the interpreter (NumPy, decoders).
    """

    def __init__(self, looked: Callable[[bool], None] = lambda _held: None) -> None:
        """`looked` is called with each look, in the watch's own thread."""
        self._looked = looked
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="voxyard-lock-watch", daemon=True)
        self.looks = self.held = 0

    @property
    def share(self) -> float:
        """Share of the looks at which another thread held the lock, 0…1; 0 before the first."""
        return self.held / self.looks if self.looks else 0.0

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def close(self) -> None:
        """Ends the looks."""
        self._ended.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            begin = time.perf_counter()
            time.sleep(0)
            held = time.perf_counter() - begin > HELD_SECONDS
            self.looks, self.held = self.looks + 1, self.held + held
            self._looked(held)
