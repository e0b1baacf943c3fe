"""Speech request: synthesis of one text, streamed as audio or as server-sent events."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import time
from collections.abc import AsyncGenerator

from voxyard.service.errors import ServiceError, UnavailableError
from voxyard.service.server_paths import without_paths
from voxyard.service.streaming.audio_response import (
    OrderedOutcomes,
    SpeechFailedError,
    StreamEncoder,
    in_thread,
    speech_error,
)
from voxyard.service.streaming.concurrency import ConcurrencyLimiter, Cut
from voxyard.service.streaming.playback import Report, playing
from voxyard.speech.audio.encoder import Format
from voxyard.speech.audio.joining import Joiner, Pauses
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.pool import Pool
from voxyard.speech.requests import SAMPLE_RATE, Boundary, Result
from voxyard.speech.script import Script

PRIORITY = 1  # before documents of the same key: a client waits
WORKERLESS_SECONDS = 15.0
"""How long a request waits whose workers have all gone: their servers are away, or their GPUs' memory is taken."""
OUTPUT_TOKENS = 50  # per second of audio, in the usage that OpenAI's clients read


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
        client: str = "",
        share: float = 1.0,
        joiner: Joiner | None = None,
        on_heard: Report = lambda _: None,
    ) -> None:
        """`client` is the name of the API key, with its share of the workers; `joiner` has the text before.

        `on_heard` gets how long its listener has waited after the first sound.
        """
        self._on_heard = on_heard
        self._client, self._share = client, share
        self.cut = Cut()
        self._pool, self._limiter, self._script = pool, limiter, script
        self._format, self._speed = format, speed
        self._joiner = Joiner(pauses) if joiner is None else joiner
        self._samples = 0
        self._worker_seen = time.monotonic()

    async def audio(self) -> AsyncGenerator[bytes, None]:
        """Encoded audio, chunk by chunk.

        Raises:
            ServiceError: too many requests, a failed chunk, or no worker.
        """
        if (waiting := self._pool.waiting) is not None:
            raise UnavailableError(f"no worker can start yet: {waiting}", retry_after=10)
        with self._limiter.acquire(self._client, self.cut) as place, contextlib.closing(self._encoder()) as encoder:
            outcomes = OrderedOutcomes(len(self._script.requests), place.spoken)
            try:
                job = self._pool.submit(
                    self._script.requests,
                    priority=PRIORITY,
                    listening=True,
                    deliver=outcomes.deliver,
                    tenant=self._client,
                    share=self._share,
                )
            except SpeechError as error:
                raise UnavailableError(f"no worker available: {error}", retry_after=5) from error
            try:
                with playing(self._on_heard) as playback:
                    for chunk in self._script.chunks:
                        playback.taken()
                        outcome = await outcomes.take(chunk.index, job, self._check_workers)
                        if outcome.result is None:
                            raise speech_error(outcome.failure)
                        before = encoder.seconds
                        piece = await in_thread(encoder.add, (outcome.result, chunk.joint))
                        playback.sends(encoder.seconds - before)
                        yield piece
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

    def _encoder(self) -> StreamEncoder[tuple[Result, Boundary | float]]:
        return StreamEncoder(lambda spoken: self._joiner.add(*spoken), self._format, speed=self._speed)

    def _usage(self) -> dict[str, int]:
        asked = sum(chunk.tokens for chunk in self._script.chunks)
        made = math.ceil(self._samples / self._speed / SAMPLE_RATE * OUTPUT_TOKENS)
        return {"input_tokens": asked, "output_tokens": made, "total_tokens": asked + made}


def error_fields(error: ServiceError | SpeechError) -> dict[str, str | None]:
    """Fields of an error in an event or a message."""
    told = error if isinstance(error, ServiceError) else SpeechFailedError(str(error))
    return {"message": without_paths(str(error)), "type": told.kind, "param": told.parameter, "code": told.code}


def _event(data: dict[str, object]) -> bytes:
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
