"""A job: a text's chunks in the pool, and their outcomes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from voxyard.speech.audio.wav import leading_silence
from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import Request, Result

OnFailure = Literal["fail", "silence"]
_SHOWN = 60  # characters of a chunk's text in a message


class ChunkFailedError(SpeechError):
    """A chunk could not be spoken. `index` counts from 0 in the job; `refused` as in Unspeakable."""

    def __init__(self, index: int, text: str, reason: str, *, refused: bool = False) -> None:
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        super().__init__(f"chunk {index} ({shown!r}) could not be spoken: {reason}")
        self.index, self.text, self.reason, self.refused = index, text, reason, refused


class JobEndedError(SpeechError):
    """The job was cancelled, or its pool has ended, before all chunks were spoken."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Outcome of a chunk: `result` unless it failed; both, where a failed chunk became silence."""

    index: int
    request: Request
    result: Result | None
    failure: ChunkFailedError | None = None
    worker: str = ""  # the device's name
    seconds: float = 0.0  # since its worker got it
    reduced: bool = False  # spoken in a batch made smaller by a lack of memory or a crash; last digits may differ


@dataclass(frozen=True)
class Progress:
    """Progress of a job, in chunks and seconds of audio."""

    total: int
    done: int
    failed: int
    audio_seconds: float
    estimated_done: float  # estimated seconds of audio of the chunks that are done
    estimated_total: float

    @property
    def share(self) -> float:
        """Share of the work that is done, 0 to 1: long chunks count for more."""
        if self.done >= self.total or self.estimated_total <= 0:
            return self.done / self.total if self.total else 1.0
        return self.estimated_done / self.estimated_total


class Job:
    """Chunks of one text in the pool, and their outcomes for a reader. Made by `Pool.submit`."""

    def __init__(
        self,
        number: int,
        requests: Sequence[Request],
        on_failure: OnFailure,
        cancel: Callable[[], None],
        listen: Callable[[bool], None],
        deliver: Callable[[Outcome], None] | None = None,
        tenant: str = "",
    ) -> None:
        self.number, self.tenant = number, tenant
        self.requests = tuple(requests)
        self.on_failure = on_failure
        self._cancel, self._listen, self._deliver = cancel, listen, deliver
        self._outcomes: dict[int, Outcome] = {}
        self._next = 0  # the first chunk that was not read
        self._done = self._failed = 0
        self._audio_seconds = self._estimated_done = 0.0
        self._estimated_total = sum(request.seconds for request in self.requests)
        self._ended: SpeechError | None = None
        self._changed = threading.Condition()

    @property
    def progress(self) -> Progress:
        """Progress up to now."""
        with self._changed:
            return Progress(
                len(self.requests),
                self._done,
                self._failed,
                self._audio_seconds,
                self._estimated_done,
                self._estimated_total,
            )

    @property
    def finished(self) -> bool:
        """True where every chunk has its outcome, or the job has ended without."""
        with self._changed:
            return self._ended is not None or self._done == len(self.requests)

    def outcomes(self, first: int = 0) -> Iterator[Outcome]:
        """Outcomes from chunk `first` on in text order, each as soon as it is there; each can be read once.

        Raises:
            JobEndedError: the job was cancelled, its pool ended, or another reader has read the outcome.
        """
        for index in range(first, len(self.requests)):
            yield self._take(index)

    def _take(self, index: int) -> Outcome:
        with self._changed:
            if self._deliver is not None or index < self._next:
                raise JobEndedError(f"chunk {index} of job {self.number} was read by another reader")
            self._changed.wait_for(lambda: index in self._outcomes or self._ended is not None)
            if index not in self._outcomes:
                raise self._ended or JobEndedError(f"chunk {index} of job {self.number} was not spoken")
            self._next = index + 1
            return self._outcomes.pop(index)

    def results(self) -> Iterator[Result]:
        """Result of every chunk in text order.

        Raises:
            ChunkFailedError: the text has reached a chunk that failed; the others are spoken to the end.
            JobEndedError: the job was cancelled or its pool ended.
        """
        for outcome in self.outcomes():
            if outcome.result is None:
                raise outcome.failure or JobEndedError(f"chunk {outcome.index} has no result")
            yield outcome.result

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is finished; False after a timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._ended is not None or self._done == len(self.requests), timeout=seconds
            )

    def listen(self, listening: bool = True) -> None:
        """Set whether somebody listens to the audio: then the earliest chunks go first."""
        self._listen(listening)

    def cancel(self) -> None:
        """Speak no more of it."""
        self._cancel()
        self.end(JobEndedError(f"job {self.number} was cancelled"))

    def add(self, outcome: Outcome) -> None:
        """Called by the pool: add the outcome of a chunk."""
        with self._changed:
            if self._deliver is None:
                self._outcomes[outcome.index] = outcome
            self._done += 1
            self._failed += outcome.failure is not None
            self._estimated_done += outcome.request.seconds
            self._audio_seconds += 0.0 if outcome.result is None else outcome.result.seconds
            self._changed.notify_all()
        if self._deliver is not None:
            self._deliver(outcome)

    def end(self, reason: SpeechError) -> None:
        """Called by the pool: no more outcomes will come."""
        with self._changed:
            if self._ended is None and self._done < len(self.requests):
                self._ended = reason
            self._changed.notify_all()


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
