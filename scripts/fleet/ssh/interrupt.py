"""Ctrl-C while hosts are only read: the exchanges with them end at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fleet.errors import FleetError

POLL_SECONDS = 0.2  # between two looks for it, of what waits for a host
_asked = threading.Event()


class InterruptedByOperatorError(FleetError):
    """The operator typed Ctrl-C before the hosts had answered."""

    exit_code = 130  # as shells say it of SIGINT


@contextmanager
def reading(note: str = "nothing was changed") -> Iterator[None]:
    """A block that changes no host: a Ctrl-C ends it, and the exchanges that its threads are in.

    Raises InterruptedByOperatorError with `note` at its end, whatever else it ends with. Only for the main thread.
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
    """Raises InterruptedByOperatorError after a Ctrl-C in `reading`."""
    if _asked.is_set():
        raise InterruptedByOperatorError("interrupted before it had answered")
