"""Memory that a worker's allocator keeps for work that is over: given back once the worker is idle for a while."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

_log = logging.getLogger(__name__)

IDLE_SECONDS = 30.0
WORTH_BYTES = 256 << 20  # less is not given back: it would be asked for again with the next chunk


class IdleMemory:
    """Gives back, after so many seconds without a chunk, what grew; weights, caches and graphs stay."""

    def __init__(self, give_back: Callable[[], None], timer: Callable[..., threading.Timer] = threading.Timer) -> None:
        """`timer` makes what calls back later, from seconds and a function."""
        self._give_back, self._timer = give_back, timer
        self._lock = threading.Lock()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Scope in which a worker without a chunk waits for one; nothing is given back once it has ended."""
        over = threading.Event()

        def release() -> None:
            with self._lock:
                if not over.is_set():
                    self._give_back()

        timer = self._timer(IDLE_SECONDS, release)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                over.set()


def give_back() -> None:
    """Returns to the card what torch's allocator holds and no tensor uses, where that is worth it."""
    if not torch.cuda.is_initialized():
        return
    kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    if kept >= WORTH_BYTES:
        torch.cuda.empty_cache()
        _log.info("idle for %.0f s: up to %.1f GiB of GPU memory given back", IDLE_SECONDS, kept / 2**30)
