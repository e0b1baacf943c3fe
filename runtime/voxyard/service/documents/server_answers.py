"""Answers of a server that holds what the service needs, a database or a bucket: when there was one, and when not."""

from __future__ import annotations

import math
import time

ANSWER_SECONDS = 3.0
"""Time since the last answer after which a database counts as not answering: it is asked twice a second."""
AWAY_SECONDS = 10.0
"""Time after a question without an answer in which nobody else waits for one; longer than two attempts to connect."""
LOG_SECONDS = 10.0
"""Time between two log lines about a server that does not answer."""


class ServerAnswers:
    """When the server has answered, and when it has not; of all threads."""

    def __init__(self) -> None:
        self._answered, self._missed, self._told = time.monotonic(), -math.inf, -math.inf

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

    def is_to_be_told(self) -> bool:
        """True at most every ten seconds: where it is time to log that there is no answer."""
        if time.monotonic() - self._told < LOG_SECONDS:
            return False
        self._told = time.monotonic()
        return True
