"""Connection to PostgreSQL that gives a silent server up."""

from __future__ import annotations

import time
from typing import TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.rows import Row

STATEMENT_SECONDS = 10
"""Longest statement; the server ends it."""
SILENCE_SECONDS = STATEMENT_SECONDS + 2.0
"""Silence in a statement after which the connection is given up: a server that hangs ends nothing."""
Value = TypeVar("Value")


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
