"""Speech request: synthesis of one text, streamed as audio or as server-sent events."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import time
from collections.abc import AsyncGenerator, Iterator

from voxyard.service.errors import BusyError, ServiceError, UnavailableError
from voxyard.service.streaming.audio_response import OrderedOutcomes, SpeechFailedError, StreamEncoder, in_thread
from voxyard.speech.audio.encoder import Format
from voxyard.speech.audio.joining import Pauses, join
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.pool import Pool
from voxyard.speech.requests import SAMPLE_RATE, Boundary, Result
from voxyard.speech.script import Script

PRIORITY = 1  # before documents: a client waits
OUTPUT_TOKENS = 50  # per second of audio, in the usage that OpenAI's clients read
_MEAN_WEIGHT = 0.2  # of the latest request in the moving average


class ConcurrencyLimiter:
    """Limits concurrent speech requests; estimates Retry-After."""

    def __init__(self, limit: int) -> None:
        self._limit, self._active, self._seconds = limit, 0, 1.0
        self._closed = False

    @property
    def active(self) -> int:
        """Requests in progress."""
        return self._active

    def close(self) -> None:
        """Admits no more requests; those in progress continue."""
        self._closed = True

    @contextlib.contextmanager
    def acquire(self) -> Iterator[None]:
        """Slot of one request, for the block.

        Raises:
            BusyError: all slots are in use.
            UnavailableError: the service is shutting down.
        """
        if self._closed:
            raise UnavailableError("the service is shutting down: retry in 10 s", retry_after=10.0)
        if self._active >= self._limit:
            wait = max(1, math.ceil(self._seconds / self._limit))
            raise BusyError(
                f"{self._active} of {self._limit} speech requests in progress; retry in {wait} s, or submit a document",
                retry_after=float(wait),
            )
        self._active += 1
        began = time.monotonic()
        try:
            yield
        finally:
            self._active -= 1
            self._seconds += _MEAN_WEIGHT * (time.monotonic() - began - self._seconds)


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
    ) -> None:
        self._pool, self._limiter, self._script = pool, limiter, script
        self._pauses, self._format, self._speed = pauses, format, speed
        self._samples = 0

    async def audio(self) -> AsyncGenerator[bytes, None]:
        """Encoded audio, chunk by chunk.

        Raises:
            ServiceError: too many requests, a failed chunk, or no worker.
        """
        if (waiting := self._pool.waiting) is not None:
            raise UnavailableError(f"no worker can start yet: {waiting}", retry_after=10)
        with self._limiter.acquire(), contextlib.closing(self._encoder()) as encoder:
            outcomes = OrderedOutcomes()
            try:
                job = self._pool.submit(
                    self._script.requests, priority=PRIORITY, listening=True, deliver=outcomes.deliver
                )
            except SpeechError as error:
                raise UnavailableError(f"no worker available: {error}", retry_after=5) from error
            try:
                for chunk in self._script.chunks:
                    outcome = await outcomes.take(chunk.index, job)
                    if outcome.result is None:
                        raise SpeechFailedError(str(outcome.failure))
                    yield await in_thread(encoder.add, (outcome.result, chunk.ending))
                self._samples = encoder.position
                yield await in_thread(encoder.finish)
            finally:
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
                    error_fields = {"message": str(error), "type": "server_error", "param": None}
                    yield _event(
                        {"type": "error", "error": {**error_fields, "code": getattr(error, "code", "speech_failed")}}
                    )
                raise
        yield _event({"type": "speech.audio.done", "usage": self._usage()})

    def _encoder(self) -> StreamEncoder[tuple[Result, Boundary]]:
        return StreamEncoder(lambda spoken: join(spoken, self._pauses), self._format, speed=self._speed)

    def _usage(self) -> dict[str, int]:
        asked = sum(chunk.tokens for chunk in self._script.chunks)
        made = math.ceil(self._samples / self._speed / SAMPLE_RATE * OUTPUT_TOKENS)
        return {"input_tokens": asked, "output_tokens": made, "total_tokens": asked + made}


def _event(data: dict[str, object]) -> bytes:
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
