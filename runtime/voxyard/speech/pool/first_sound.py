"""Time to first sound: from a listener's request to the first audible sample."""

from __future__ import annotations

from voxyard.speech.audio.silence import leading_silence
from voxyard.speech.requests import Result


class FirstSound:
    """Measures one job's time to first sound. Times are seconds of one clock.

    A listener plays the chunks in text order, each as soon as it and those before it are there. Silence at the
    beginning, which a listener cannot tell from waiting, counts; a pause between two chunks does not.
    """

    def __init__(self, since: float) -> None:
        """`since` is the time of the request."""
        self._since = self._played = since  # _played: until when the chunks before the next are heard
        self._there: dict[int, tuple[float, float, float | None]] = {}  # when, duration, leading silence
        self._next = 0

    def add(self, index: int, result: Result, now: float) -> float | None:
        """Record a chunk that is there; the seconds to the first sound, as soon as they are known."""
        self._there[index] = now, result.seconds, leading_silence(result.audio, result.sample_rate)
        while self._next in self._there:
            when, duration, silence = self._there.pop(self._next)
            begins = max(when, self._played)
            if silence is not None:
                return begins + silence - self._since
            self._played = begins + duration
            self._next += 1
        return None
