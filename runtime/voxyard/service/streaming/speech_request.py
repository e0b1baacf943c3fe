"""Speech request: its place among the concurrent ones, and its synthesis as audio or as server-sent events."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator

import anyio

from voxyard.service.errors import BusyError, ServiceError, UnavailableError, UnspeakableTextError, without_paths
from voxyard.service.fairness import LimitsOf, fair_part, no_limits
from voxyard.service.streaming.audio_response import Cut, OnHeard, SpeechFailedError, StreamEncoder
from voxyard.speech.audio.encoder import Format
from voxyard.speech.audio.joining import Joiner, Pauses
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.job import ChunkFailedError, Job, Outcome
from voxyard.speech.pool.pool import Pool
from voxyard.speech.requests import SAMPLE_RATE, Boundary, Result
from voxyard.speech.script import Script

MAX_UNREAD_BYTES = 64 * 2**20
"""Most synthesized audio of one key that waits for slow readers; above it the oldest of these is cut."""
_MEAN_WEIGHT = 0.2  # of the latest request in the moving average

_log = logging.getLogger(__name__)


class Place:
    """Place of one speech request: freed when its speech is synthesized, also where the client has not read it."""

    def __init__(self, limiter: ConcurrencyLimiter, owner: str, cut: Cut) -> None:
        self.owner, self.cut = owner, cut
        self.unread: Callable[[], int] | None = None  # bytes that are synthesized and not read, once all are
        self._limiter, self._free = limiter, False
        self._began = time.monotonic()

    def spoken(self, unread: Callable[[], int]) -> None:
        """Frees the place: all is synthesized, and the reader has `unread()` bytes of it before it."""
        self.unread = unread
        self._release()
        self._limiter.limit_unread(self.owner)

    def end(self) -> None:
        """Frees the place, where it is not; the request has ended."""
        self._release()
        self._limiter.forget(self)

    def _release(self) -> None:
        if not self._free:
            self._free = True
            self._limiter.release(self.owner, time.monotonic() - self._began)


class ConcurrencyLimiter:
    """Limits concurrent speech requests, in all and by key; estimates Retry-After. Used from one event loop.

    Where all places are taken, a key with fewer than its fair part of them still gets one. Slow readers keep no place;
    the audio that waits for them is limited by key.
    """

    def __init__(self, limit: int, limits: LimitsOf = no_limits, *, max_unread_bytes: int = MAX_UNREAD_BYTES) -> None:
        self._limit, self._limits, self._max_unread_bytes = limit, limits, max_unread_bytes
        self._active: Counter[str] = Counter()
        self._places: dict[Place, None] = {}  # in order of arrival
        self._seconds = 1.0
        self._closed = False

    @property
    def active(self) -> int:
        """Requests whose speech is being synthesized."""
        return self._active.total()

    @property
    def open(self) -> int:
        """Requests whose response is not read to its end."""
        return len(self._places)

    def close(self) -> None:
        """Admits no more requests; those in progress continue."""
        self._closed = True

    @contextlib.contextmanager
    def acquire(self, owner: str = "", cut: Cut | None = None) -> Iterator[Place]:
        """Place of one request of this key, for the block at the longest; `cut` is told where it reads too slowly.

        Raises:
            BusyError: all places are in use, or all that the key may have.
            UnavailableError: the service is shutting down.
        """
        self.check(owner)
        self._active[owner] += 1
        place = Place(self, owner, Cut() if cut is None else cut)
        self._places[place] = None
        try:
            yield place
        finally:
            place.end()

    def release(self, owner: str, seconds: float) -> None:
        """Counts a place as free that was taken for so long."""
        self._active[owner] -= 1
        self._active += Counter()  # drops the keys without requests
        self._seconds += _MEAN_WEIGHT * (seconds - self._seconds)

    def forget(self, place: Place) -> None:
        """Forgets a request that has ended."""
        self._places.pop(place, None)

    def limit_unread(self, owner: str) -> None:
        """Cuts the oldest slow readers of a key, while more of its audio waits for readers than may."""
        waiting = [(place, place.unread()) for place in self._places if place.owner == owner and place.unread]
        unread = sum(size for _, size in waiting)
        for place, size in waiting:
            if unread <= self._max_unread_bytes:
                return
            unread -= size
            self.forget(place)
            reason = (
                f"{size / 2**20:.1f} MiB of synthesized audio were not read, and slow readers of the key "
                f"{owner or '(none)'} leave more than {self._max_unread_bytes / 2**20:g} MiB: the oldest is cut"
            )
            _log.warning("%s", reason)
            place.cut.now(reason)

    def check(self, owner: str) -> None:
        """Refuses what `acquire` would refuse now: before anything is prepared for it. Raises as `acquire`."""
        if self._closed:
            raise UnavailableError("the service is shutting down: retry in 10 s", retry_after=10.0)
        own, most = self._active[owner], self._limits(owner).speech_requests
        wait = max(1, math.ceil(self._seconds / self._limit))
        if most is not None and own >= most:
            raise BusyError(
                f"{own} of {most} speech requests of the key {owner} in progress; retry in {wait} s, or submit a "
                "document",
                retry_after=float(wait),
            )
        if self.active >= self._limit and own + 1 > fair_part(self._limit, owner, self._active, self._limits):
            raise BusyError(
                f"{self.active} of {self._limit} speech requests in progress; retry in {wait} s, or submit a document",
                retry_after=float(wait),
            )


PRIORITY = 1  # before documents of the same key: a client waits
WORKERLESS_SECONDS = 15.0
"""How long a request waits whose workers have all gone: their servers are away, or their GPUs' memory is taken."""
POLL_SECONDS = 1.0  # between two checks whether the job has ended
WITH_LENGTH: frozenset[Format] = frozenset({"wav", "flac"})
"""Formats whose files begin with their length, which a stream does not know; players that need it show hours."""
OUTPUT_TOKENS = 50  # per second of audio, in the usage that OpenAI's clients read


def speech_error(failure: ChunkFailedError | None) -> ServiceError:
    """Error of a request whose chunk failed: the client's where the engine refuses its text."""
    if failure is not None and failure.refused:
        return UnspeakableTextError(str(failure), parameter="input")
    return SpeechFailedError(str(failure))


class OrderedOutcomes:
    """Outcomes delivered by the pool's thread in any order, and taken in text order on the event loop.

    `on_complete` is called on the event loop once `total` outcomes have come, with a function that gives the bytes of
    audio that are not taken yet.
    """

    def __init__(self, total: int, on_complete: Callable[[Callable[[], int]], None]) -> None:
        self._loop, self._on_complete = asyncio.get_running_loop(), on_complete
        self._missing = total
        self._outcomes: dict[int, Outcome] = {}
        self._changed = asyncio.Event()

    def deliver(self, outcome: Outcome) -> None:
        """Delivers an outcome; called from the pool's thread."""
        self._outcomes[outcome.index] = outcome
        self._missing -= 1
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._changed.set)
            if not self._missing:
                self._loop.call_soon_threadsafe(self._on_complete, self.waiting_bytes)

    def waiting_bytes(self) -> int:
        """Bytes of audio that are delivered and not taken."""
        results = (outcome.result for outcome in tuple(self._outcomes.values()))
        return sum(result.audio.nbytes for result in results if result is not None)

    async def take(self, index: int, job: Job, check: Callable[[], None] = lambda: None) -> Outcome:
        """Outcome of a chunk, which is removed. `check` is called now and then, and may raise.

        Raises:
            UnavailableError: the job ended without it.
        """
        while index not in self._outcomes:
            check()
            self._changed.clear()
            progress = job.progress
            if job.finished and progress.done < progress.total:
                raise UnavailableError("the workers stopped before the text was complete: retry in 5 s", retry_after=5)
            if index not in self._outcomes:
                with anyio.move_on_after(POLL_SECONDS):
                    await self._changed.wait()
        return self._outcomes.pop(index)


class SpeechRequest:
    """Speech request in the pool. Iterating `audio` or `events` runs it; closing the iterator cancels it."""

    def __init__(
        self,
        pool: Pool,
        limiter: ConcurrencyLimiter,
        script: Script,
        pauses: Pauses,
        format: Format,
        speed: float,
        *,
        owner: str = "",
        share: float = 1.0,
        joiner: Joiner | None = None,
        whole: bool = False,
        on_heard: OnHeard | None = None,
    ) -> None:
        """`owner` is the name of the API key, with its share of the workers; `joiner` has the text before.

        `whole`: the audio comes in one piece, its length in its header. `on_heard` gets how long its listener has
        waited after the first sound.
        """
        self._owner, self._share = owner, share
        self.cut = Cut()
        self._pool, self._limiter, self._script = pool, limiter, script
        self._speed, joiner = speed, Joiner(pauses) if joiner is None else joiner
        self._encoder = StreamEncoder[tuple[Result, Boundary | float]](
            lambda spoken: joiner.add(*spoken), format, speed=speed, amend=whole, heard=on_heard
        )
        self._whole = whole
        self._worker_seen = time.monotonic()

    async def audio(self) -> AsyncGenerator[bytes, None]:
        """Encoded audio, chunk by chunk.

        Raises:
            ServiceError: too many requests, a failed chunk, or no worker.
        """
        if (waiting := self._pool.waiting) is not None:
            raise UnavailableError(f"no worker can start yet: {waiting}", retry_after=10)
        with self._limiter.acquire(self._owner, self.cut) as place:
            blocks = self._encoder.encoded(self._spoken(place), len(self._script.chunks))
            async with contextlib.aclosing(blocks):
                if self._whole:
                    content = b"".join([block async for block in blocks])
                    place.spoken(lambda: len(content))
                    yield self._encoder.head + content[len(self._encoder.head) :]
                async for block in blocks:
                    yield block

    async def _spoken(self, place: Place) -> AsyncGenerator[tuple[Result, Boundary | float], None]:
        """The sound of each chunk in text order, as soon as it is spoken, with what ends there."""
        outcomes = OrderedOutcomes(len(self._script.requests), place.spoken)
        try:
            job = self._pool.submit(
                self._script.requests,
                priority=PRIORITY,
                listening=True,
                deliver=outcomes.deliver,
                tenant=self._owner,
                share=self._share,
            )
        except SpeechError as error:
            raise UnavailableError(f"no worker available: {error}", retry_after=5) from error
        try:
            for chunk in self._script.chunks:
                outcome = await outcomes.take(chunk.index, job, self._check_workers)
                if outcome.result is None:
                    raise speech_error(outcome.failure)
                yield outcome.result, chunk.joint
        finally:
            if not job.finished:
                job.cancel()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The audio as OpenAI's server-sent events. After the first event, an error is an event, too."""
        sent = False
        async with contextlib.aclosing(self.audio()) as audio:
            try:
                async for piece in audio:
                    if piece:
                        sent = True
                        yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
            except (ServiceError, SpeechError) as error:
                if sent:
                    yield _event({"type": "error", "error": error_fields(error)})
                raise
        yield _event({"type": "speech.audio.done", "usage": self._usage()})

    def _check_workers(self) -> None:
        """Raises UnavailableError where no worker has had its model loaded for long, and none can start."""
        now = time.monotonic()
        if any(worker.state in ("ready", "busy") for worker in self._pool.workers()):
            self._worker_seen = now
        elif now - self._worker_seen >= WORKERLESS_SECONDS and (waiting := self._pool.waiting) is not None:
            raise UnavailableError(f"no worker can start any more: {waiting}", retry_after=10)

    def _usage(self) -> dict[str, int]:
        asked = sum(chunk.tokens for chunk in self._script.chunks)
        made = math.ceil(self._encoder.position / self._speed / SAMPLE_RATE * OUTPUT_TOKENS)
        return {"input_tokens": asked, "output_tokens": made, "total_tokens": asked + made}


def error_fields(error: ServiceError | SpeechError) -> dict[str, str | None]:
    """Fields of an error in an event or a message."""
    told = error if isinstance(error, ServiceError) else SpeechFailedError(str(error))
    return {"message": without_paths(str(error)), "type": told.kind, "param": told.parameter, "code": told.code}


def _event(data: dict[str, object]) -> bytes:
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
