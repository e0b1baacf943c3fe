"""Playback: for how long the listener of a stream had heard all that was sent, and waited for more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[float], None]
"""Gets the seconds that the listener of a stream has waited after its first sound."""


class Playback:
    """A listener who plays a stream from its first sound on, at its own pace.

    What is sent is heard in the time that it takes to play; after that the listener waits (an underrun). A listener who
    takes it later, as one who has paused, has outrun nothing: the wait counts from then on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` tells seconds."""
        self._clock = clock
        self._until: float | None = None  # when all that was sent is heard; None: nothing was sent
        self._waited, self._waiting = 0.0, False

    @property
    def began(self) -> bool:
        """True once something was sent."""
        return self._until is not None

    @property
    def waited(self) -> float:
        """Seconds of waiting after the first sound, the present wait included."""
        return self._waited + (self._late() if self._waiting else 0.0)

    def taken(self) -> None:
        """The listener has taken all that was sent."""
        self._waiting = True
        if self._until is not None:
            self._until = max(self._until, self._clock())

    def sends(self, seconds: float) -> None:
        """So many seconds of sound are sent."""
        self._waited, self._waiting = self.waited, False
        self._until = max(self._until or 0.0, self._clock()) + seconds

    def _late(self) -> float:
        return 0.0 if self._until is None else max(0.0, self._clock() - self._until)


@contextmanager
def playing(report: Report) -> Iterator[Playback]:
    """The playback of a stream within the block, reported at its end where something was sent."""
    playback = Playback()
    try:
        yield playback
    finally:
        if playback.began:
            report(playback.waited)
