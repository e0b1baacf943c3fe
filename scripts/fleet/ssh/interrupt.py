"""Ctrl-C handling while hosts are only read: running exchanges end immediately."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fleet.errors import FleetError

POLL_SECONDS = 0.2  # between two checks of a thread that waits for a host
_asked = threading.Event()


class InterruptedByOperatorError(FleetError):
    """Interrupted by Ctrl-C before all hosts had answered."""

    exit_code = 130  # shell convention for SIGINT


@contextmanager
def reading(note: str = "nothing was changed") -> Iterator[None]:
    """Read-only block: a Ctrl-C ends it, and the exchanges of its threads.

    Raises InterruptedByOperatorError with `note`, in place of any other error. Main thread only.
    """

    def end(*_: object) -> None:
        _asked.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if _asked.is_set():
            _asked.clear()
            raise InterruptedByOperatorError(f"interrupted by Ctrl-C: {note}") from None


def check() -> None:
    """Raises InterruptedByOperatorError after a Ctrl-C inside `reading`."""
    if _asked.is_set():
        raise InterruptedByOperatorError("interrupted before it had answered")
