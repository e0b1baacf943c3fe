"""One speech request: from a text in the pool to bytes for a client, as sound or as server-sent events."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import time
from collections.abc import AsyncGenerator, Iterator

from voxyard.service.errors import BusyError, ServiceError, UnavailableError
from voxyard.service.streaming.audio_response import Arrivals, Recording, SpeechFailedError, in_thread
from voxyard.speech.audio.encoder import Format
from voxyard.speech.audio.joining import Pauses, join
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.pool import Pool
from voxyard.speech.requests import SAMPLE_RATE, Boundary, Result
from voxyard.speech.script import Script

PRIORITY = 1  # before documents: somebody waits
OUTPUT_TOKENS = 50  # a second of sound, in the usage that OpenAI's clients ask for
_WEIGHT = 0.2  # of the newest request in the mean


class Turnstile:
    """Limits concurrent speech requests; estimates Retry-After."""

    def __init__(self, places: int) -> None:
        self._places, self._taken, self._seconds = places, 0, 1.0
        self._closed = False

    @property
    def taken(self) -> int:
        """Requests that are inside."""
        return self._taken

    def close(self) -> None:
        """Admit no more requests; those inside stay."""
        self._closed = True

    @contextlib.contextmanager
    def enter(self) -> Iterator[None]:
        """A place for as long as the request is spoken and sent.

        Raises:
            BusyError: all are taken.
            UnavailableError: the service ends.
        """
        if self._closed:
            raise UnavailableError("the service is going down: try again soon", retry_after=10.0)
        if self._taken >= self._places:
            raise BusyError(
                f"{self._taken} speech requests are being spoken, which is all that this service takes at a time: "
                "wait and try again, or send a document",
                retry_after=float(max(1, math.ceil(self._seconds / self._places))),
            )
        self._taken += 1
        began = time.monotonic()
        try:
            yield
        finally:
            self._taken -= 1
            self._seconds += _WEIGHT * (time.monotonic() - began - self._seconds)


class Speech:
    """One speech request in the pool. Reading `sound` or `events` drives it; closing them cancels it."""

    def __init__(
        self,
        pool: Pool,
        turnstile: Turnstile,
        script: Script,
        pauses: Pauses,
        format: Format,
        speed: float,
    ) -> None:
        self._pool, self._turnstile, self._script = pool, turnstile, script
        self._pauses, self._format, self._speed = pauses, format, speed
        self._samples = 0

    async def sound(self) -> AsyncGenerator[bytes, None]:
        """Encoded sound, some with every chunk.

        Raises:
            ServiceError: too many requests, a chunk that could not be spoken, no worker.
        """
        if (waiting := self._pool.waiting) is not None:
            raise UnavailableError(f"no worker speaks yet, they wait: {waiting}", retry_after=10)
        with self._turnstile.enter(), contextlib.closing(self._recording()) as recording:
            arrivals = Arrivals()
            try:
                job = self._pool.submit(
                    self._script.requests, priority=PRIORITY, listening=True, deliver=arrivals.deliver
                )
            except SpeechError as error:
                raise UnavailableError(f"no worker speaks: {error}", retry_after=5) from error
            try:
                for chunk in self._script.chunks:
                    outcome = await arrivals.take(chunk.index, job)
                    if outcome.result is None:
                        raise SpeechFailedError(str(outcome.failure))
                    yield await in_thread(recording.add, (outcome.result, chunk.ending))
                self._samples = recording.position
                yield await in_thread(recording.finish)
            finally:
                job.cancel()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The same as OpenAI's server-sent events. After the first one, an error is an event, too."""
        sent = False
        async with contextlib.aclosing(self.sound()) as sound:
            try:
                async for piece in sound:
                    if piece:
                        sent = True
                        yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
            except (ServiceError, SpeechError) as error:
                if sent:
                    said = {"message": str(error), "type": "server_error", "param": None}
                    yield _event({"type": "error", "error": {**said, "code": getattr(error, "code", "speech_failed")}})
                raise
        yield _event({"type": "speech.audio.done", "usage": self._usage()})

    def _recording(self) -> Recording[tuple[Result, Boundary]]:
        return Recording(lambda spoken: join(spoken, self._pauses), self._format, speed=self._speed)

    def _usage(self) -> dict[str, int]:
        asked = sum(chunk.tokens for chunk in self._script.chunks)
        made = math.ceil(self._samples / self._speed / SAMPLE_RATE * OUTPUT_TOKENS)
        return {"input_tokens": asked, "output_tokens": made, "total_tokens": asked + made}


def _event(data: dict[str, object]) -> bytes:
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
