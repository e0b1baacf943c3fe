"""Change notification: wakes the waiters of a document when it changes."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time


class ChangeNotifier:
    """Version number of each document, increased by each change.

    Versions start at the clock's microseconds, and so increase across restarts.
    """

    def __init__(self) -> None:
        self._next = itertools.count(time.time_ns() // 1000)
        self._versions: dict[str, int] = {}
        self._waiting: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self._lock = threading.Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closed

    def close(self) -> None:
        """Wakes all waiters: no document changes any more. May be called from any thread."""
        with self._lock:
            self._closed = True
            waiting = tuple(itertools.chain.from_iterable(self._waiting.values()))
        _wake(waiting)

    def version(self, id: str) -> int:
        """Current version of a document; 0 where it has not changed since the start."""
        with self._lock:
            return self._versions.get(id, 0)

    def bump(self, id: str) -> None:
        """Increases a document's version and wakes its waiters. May be called from any thread."""
        with self._lock:
            self._versions[id] = next(self._next)
            waiting = tuple(self._waiting.get(id, ()))
        _wake(waiting)

    def bump_waiting(self) -> None:
        """Increases the versions of all documents that are waited for: any of them may have changed."""
        with self._lock:
            ids = tuple(self._waiting)
        for id in ids:
            self.bump(id)

    def forget(self, id: str) -> None:
        """Removes a deleted document: wakes its waiters a last time, then drops its version."""
        with self._lock:
            self._versions.pop(id, None)
            waiting = tuple(self._waiting.get(id, ()))
        _wake(waiting)

    async def wait(self, id: str, seen: int, timeout: float) -> int:
        """Current version, as soon as it differs from `seen`, after `timeout` seconds, or at `close`."""
        event = asyncio.Event()
        entry = (asyncio.get_running_loop(), event)
        with self._lock:
            if self._closed or self._versions.get(id, 0) != seen:
                return self._versions.get(id, 0)
            self._waiting.setdefault(id, set()).add(entry)
        try:
            async with asyncio.timeout(timeout):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._waiting[id].discard(entry)
                if not self._waiting[id]:
                    del self._waiting[id]
        return self.version(id)


def _wake(waiting: tuple[tuple[asyncio.AbstractEventLoop, asyncio.Event], ...]) -> None:
    for loop, event in waiting:
        try:
            loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            if not loop.is_closed():  # a closed loop has no waiters
                raise
