"""Thread for calls that may never return."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class CallThread:
    """Makes one call at a time in a daemon thread of its own, so that one which hangs blocks no other.

    There is never more than this one thread: while `busy` it takes no further call. `changed` is notified when a call
    has ended. All but the call itself belongs to one thread, the owner's.
    """

    def __init__(self, name: str, changed: threading.Condition) -> None:
        self._name, self._changed = name, changed
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended: tuple[Any, Exception | None] | None = None
        self.busy = False
        self.begun = 0.0  # monotonic: when the latest call was asked for
        self.hung = False  # set by the owner for the latest call

    @property
    def ident(self) -> int:
        """The thread's number as `threading.get_ident` gives it; 0 before the first call."""
        return (self._thread.ident or 0) if self._thread else 0

    @property
    def free(self) -> bool:
        """True where it takes a call: none is under way, and the latest was collected."""
        return not self.busy and not self.answered

    @property
    def answered(self) -> bool:
        """True where a call has ended and was not collected yet."""
        return self._ended is not None

    def begin(self, call: Callable[[], Any]) -> None:
        """Makes this call in the thread. Raises RuntimeError where another is still under way."""
        if self.busy:
            raise RuntimeError(f"{self._name} is in a call: ask it again when that has ended")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self.busy, self.begun, self.hung, self._ended = True, time.monotonic(), False, None
        self._calls.put(call)

    def collect(self) -> Any:
        """Result of the call that ended; raises its exception, and RuntimeError where none has ended."""
        if self._ended is None:
            raise RuntimeError(f"{self._name} has nothing to collect: see `answered`")
        (value, error), self._ended = self._ended, None
        if error is not None:
            raise error
        return value

    def end(self) -> None:
        """Ends the thread after the call under way, if that ever returns."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            ended: tuple[Any, Exception | None]
            try:
                ended = call(), None
            except Exception as error:  # noqa: BLE001 — whatever it is, `collect` raises it
                ended = None, error
            with self._changed:
                self._ended, self.busy = ended, False
                self._changed.notify_all()
