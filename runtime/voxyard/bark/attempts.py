"""Attempts at chunks: a chunk that sounds wrong is spoken again, and the attempt with the fewest faults counts."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from voxyard.bark.errors import BarkError
from voxyard.bark.pipeline import ChunkWork
from voxyard.bark.quality import Fault
from voxyard.bark.voices import VoicePrompt
from voxyard.speech.engine import Answer, ChunkSource
from voxyard.speech.requests import Cancelled, Request, Result, Unspeakable

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio


@dataclass(frozen=True)
class ChunkFacts:
    """Measurements of one attempt; they leave the engine as `Result.facts`."""

    text_tokens: int
    semantic_tokens: int
    frames: int
    seconds: float  # of audio
    attempt: int  # number of the attempt that is heard
    attempts: int  # how many were made
    batch_size: int  # rows of the batch it ran in; another number may change the last digits of the audio
    cap_reached: bool  # the semantic stage was cut off at its limit
    silence: float  # share of the audio below the threshold
    clipping: float  # share of the samples at full scale
    faults: tuple[Fault, ...]  # objections of the quality check
    word_errors: float | None = None  # word error rate of a recogniser's transcript; None: not checked
    words_unchecked: str | None = None  # reason why they were not checked though a recogniser is named


@dataclass(frozen=True, eq=False)
class Attempt:
    """Audio of one attempt, mono float32 in [−1, 1], with its measurements."""

    audio: Audio
    facts: ChunkFacts


@dataclass
class ChunkInFlight:
    """A chunk in the stages, and the attempts made at it so far."""

    request: Request  # of the first attempt
    voice: VoicePrompt | None
    tokens: Sequence[int]
    attempts: list[Attempt] = field(default_factory=list)

    def next_request(self) -> Request:
        """Request of the next attempt: the first one's, with a higher attempt number."""
        return replace(self.request, attempt=self.request.attempt + len(self.attempts))


class ChunksInFlight:
    """Feeds the stages: chunks to be spoken again first, then new ones of the source."""

    def __init__(
        self,
        source: ChunkSource,
        accept: Callable[[Request], ChunkInFlight],
        max_attempts: int,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`accept` tokenizes a chunk and finds its voice; it raises BarkError where the model cannot take them.

        Where nothing is in flight, the next chunk is waited for in the context `waiting`.
        """
        self._waiting = waiting
        self._source, self._accept, self._max_attempts = source, accept, max_attempts
        self._chunks: dict[int, ChunkInFlight] = {}
        self._retries: deque[int] = deque()
        self._cancelled: list[int] = []  # the stages have not been told of them
        self._refused: list[Answer] = []
        self._numbers = itertools.count()

    def __getitem__(self, number: int) -> ChunkInFlight:
        return self._chunks[number]

    def take(self, room: int, wait: bool) -> Sequence[ChunkWork] | None:
        """Up to `room` chunks for free rows; with `wait` None where no more will come."""
        entering = [self._retries.popleft() for _ in range(min(room, len(self._retries)))]
        waits = wait and not entering
        with self._waiting() if waits else nullcontext():
            fresh = self._source.take(room - len(entering), wait=waits)
        if wait and not entering and not fresh:
            return None
        for request in fresh:
            try:
                chunk = self._accept(request)
            except BarkError as error:
                self._refused.append((request, Unspeakable(str(error))))
                continue
            entering.append(next(self._numbers))
            self._chunks[entering[-1]] = chunk
        return [self._work(number) for number in entering]

    def holds(self, number: int) -> bool:
        """False where its cancelling was seen, or it was answered; for any thread."""
        return number in self._chunks

    def wanted(self, numbers: Iterable[int]) -> set[int]:
        """Those of the chunks that the source has not cancelled."""
        self._look()
        return {number for number in numbers if number in self._chunks}

    def take_cancelled(self) -> Sequence[int]:
        """Numbers of the chunks that the source has cancelled; each is returned once."""
        self._look()
        cancelled, self._cancelled = self._cancelled, []
        return cancelled

    def _look(self) -> None:
        for request in self._source.cancelled():
            number = next((number for number, chunk in self._chunks.items() if chunk.request == request), None)
            if number is None:
                continue
            del self._chunks[number]
            self._retries = deque(each for each in self._retries if each != number)
            self._cancelled.append(number)
            self._refused.append((request, Cancelled()))

    def take_refused(self) -> list[Answer]:
        """Answers for chunks that were not accepted, or cancelled; each is returned once."""
        refused, self._refused = self._refused, []
        return refused

    def complete(self, number: int, attempt: Attempt, sample_rate: int) -> Answer | None:
        """Record an attempt; the chunk's answer, or None where it is spoken again."""
        chunk = self._chunks[number]
        chunk.attempts.append(attempt)
        if attempt.facts.faults and len(chunk.attempts) < self._max_attempts:
            self._retries.append(number)
            return None
        del self._chunks[number]
        return chunk.request, _best(chunk, sample_rate)

    def _work(self, number: int) -> ChunkWork:
        chunk = self._chunks[number]
        return ChunkWork(number, chunk.next_request(), chunk.voice, chunk.tokens)


def _best(chunk: ChunkInFlight, sample_rate: int) -> Result | Unspeakable:
    """The first attempt with the fewest faults, among these the fewest wrong words; its facts count the attempts."""
    number, attempts = chunk.request.chunk, chunk.attempts
    best = min(attempts, key=lambda each: (len(each.facts.faults), each.facts.word_errors or 0.0))
    if "not finite" in best.facts.faults:
        return Unspeakable(
            f"chunk {number} has samples that are NaN or infinite in each of {len(attempts)} attempts: the weights or "
            "the voice are damaged, or the precision is too low for this model; try --precision float32"
        )
    return Result(number, best.audio, sample_rate, asdict(replace(best.facts, attempts=len(attempts))))
