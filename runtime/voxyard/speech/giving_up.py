"""Giving up: work that takes long asks now and then whether somebody still wants what it makes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from voxyard.speech.errors import SpeechError

_given_up: ContextVar[threading.Event | None] = ContextVar("given_up", default=None)


class GivenUpError(SpeechError):
    """Nobody wants the result any more."""


@contextmanager
def unless(given_up: threading.Event) -> Iterator[None]:
    """Has the work of the block, in this thread, end at its next `check` once the event is set."""
    token = _given_up.set(given_up)
    try:
        yield
    finally:
        _given_up.reset(token)


def check() -> None:
    """Raises GivenUpError where the work is given up."""
    given_up = _given_up.get()
    if given_up is not None and given_up.is_set():
        raise GivenUpError("given up: its client has gone")
