"""Times of the updates that a step makes apart from the others: a vocoder's. No TensorFlow."""

from __future__ import annotations

import threading
from collections.abc import Callable


class UpdateTimes:
    """Seconds of each such update, of a whole run and of its present phase; from several threads."""

    def __init__(self) -> None:
        self.told: Callable[[float], None] = lambda _seconds: None  # is called with each
        self._change = threading.Lock()
        self._run, self._phase = (0, 0.0), (0, 0.0)

    def add(self, seconds: float) -> None:
        """One update, unless it was traced (compiled)."""
        with self._change:
            self._run, self._phase = ((count + 1, total + seconds) for count, total in (self._run, self._phase))
        self.told(seconds)

    def begin_phase(self) -> None:
        """From now on the updates are others: a vocoder's discriminators take part."""
        with self._change:
            self._phase = (0, 0.0)

    @property
    def run_mean(self) -> float | None:
        """Mean seconds of an update in this run."""
        return _mean(*self._run)

    @property
    def mean(self) -> float | None:
        """Mean seconds of an update in the present phase; of the run where nothing of the phase was timed yet."""
        return _mean(*self._phase) or self.run_mean

    @property
    def count(self) -> int:
        """Updates of the present phase that were timed."""
        return self._phase[0]


def _mean(count: int, total: float) -> float | None:
    return total / count if count else None
