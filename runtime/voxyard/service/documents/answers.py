"""Answers of a PostgreSQL server: when there was one, and connections that give a silent server up."""

from __future__ import annotations

import math
import time
from typing import TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.rows import Row

ANSWER_SECONDS = 3.0
"""Time since the last answer after which the database counts as not answering: it is asked twice a second."""
STATEMENT_SECONDS = 10
"""Longest statement; the server ends it."""
SILENCE_SECONDS = STATEMENT_SECONDS + 2.0
"""Silence in a statement after which the connection is given up: a server that hangs ends nothing."""
AWAY_SECONDS = 10.0
"""Time after a question without an answer in which nobody else waits for one; longer than two attempts to connect."""
Value = TypeVar("Value")


class Answers:
    """When the server has answered, and when it has not; of all threads."""

    def __init__(self) -> None:
        self._answered, self._missed = time.monotonic(), -math.inf

    def answered(self) -> None:
        """The server has answered."""
        self._answered = time.monotonic()

    def missed(self) -> None:
        """A question was given up, or the connection was lost."""
        self._missed = time.monotonic()

    @property
    def fresh(self) -> bool:
        """True where there was an answer just now."""
        return time.monotonic() - self._answered < ANSWER_SECONDS

    @property
    def away(self) -> bool:
        """True where asking is in vain: a question was given up, and nothing was answered for some time before it."""
        return self._missed - self._answered >= ANSWER_SECONDS and time.monotonic() - self._missed < AWAY_SECONDS


class ImpatientConnection(psycopg.Connection[Row]):
    """Connection that is closed where the server says nothing for `silence` seconds; None waits without end.

    libpq's time limits are of the network: of a server whose processes stand still, the kernel answers.
    """

    silence: float | None = SILENCE_SECONDS

    def wait(self, gen: PQGen[Value], interval: float = 0.1, timeout: float | None = None) -> Value:
        """As psycopg's; all that waits for the server comes here. Raises psycopg.OperationalError."""
        if timeout is not None or self.silence is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(_until_silent(gen, self.silence), interval)
        except _SilentError:
            self.close()
            raise


class _SilentError(psycopg.OperationalError):
    pass


def _until_silent(gen: PQGen[Value], seconds: float) -> PQGen[Value]:
    try:
        wanted, heard = next(gen), time.monotonic()
        while True:
            ready = yield wanted
            if ready:
                heard = time.monotonic()
            elif time.monotonic() - heard >= seconds:
                raise _SilentError(f"no answer for {seconds:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        value: Value = end.value
        return value
