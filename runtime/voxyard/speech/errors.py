"""SpeechError: the one exception type between a text and its audio; work that is given up half-way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class SpeechError(Exception):
    """A message for the user: what was found, what was expected, what to do. `exit_code` is the command's."""

    exit_code: int = 2


_given_up: ContextVar[threading.Event | None] = ContextVar("given_up", default=None)


class GivenUpError(SpeechError):
    """Nobody wants the result any more."""


@contextmanager
def given_up_by(event: threading.Event) -> Iterator[None]:
    """Has the work of the block, in this thread, end at its next `check_wanted` once the event is set."""
    token = _given_up.set(event)
    try:
        yield
    finally:
        _given_up.reset(token)


def check_wanted() -> None:
    """Raises GivenUpError where the work is given up."""
    given_up = _given_up.get()
    if given_up is not None and given_up.is_set():
        raise GivenUpError("given up: its client has gone")
