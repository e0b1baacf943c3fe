"""Streaming audio: outcomes ordered, joined, encoded, and sent while the client is connected."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Generic, TypeVar

import anyio
from anyio.to_thread import run_sync
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from voxyard.service.errors import ServiceError, UnavailableError, UnspeakableTextError
from voxyard.service.http.logging import ConnectionCut
from voxyard.service.streaming.concurrency import Cut
from voxyard.speech.audio.encoder import Encoder, Format
from voxyard.speech.audio.joining import Piece
from voxyard.speech.audio.tags import NO_TAGS, Tags
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.job import ChunkFailedError, Job, Outcome
from voxyard.speech.requests import SAMPLE_RATE

BLOCK = 1 << 16  # bytes per ASGI message
STALL = 120.0  # time limit in seconds for the client to read a block
POLL_SECONDS = 1.0  # between two checks whether the job has ended


Part = TypeVar("Part")


class SpeechFailedError(ServiceError):
    """A chunk could not be synthesized or encoded."""

    status, code, kind = 500, "speech_failed", "server_error"


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


class StreamEncoder(Generic[Part]):
    """Encodes a stream of parts: `join` gives the piece of audio of the next part.

    Its methods block, and are called from worker threads, one at a time. `position` is the number of samples joined
    so far, including pauses; `seconds` is how long the parts of this stream take to play.
    """

    def __init__(
        self,
        join: Callable[[Part], Piece],
        format: Format,
        *,
        speed: float = 1.0,
        samples: int | None = None,
        tags: Tags = NO_TAGS,
    ) -> None:
        self._encoder = Encoder(format, SAMPLE_RATE, speed=speed, samples=samples, tags=tags)
        self._join = join
        self._lock = threading.Lock()  # close() waits for a running encode
        self._closed = False
        self.position, self.seconds, self._speed = 0, 0.0, speed

    def add(self, part: Part) -> bytes:
        """Adds the next part; returns the bytes that are ready to send."""
        with self._lock:
            if self._closed:
                return b""
            piece = self._join(part)
            self.position = piece.end
            self.seconds += len(piece.audio) / SAMPLE_RATE / self._speed
            return self._encoder.encode(piece.audio)

    def finish(self) -> bytes:
        """Ends the stream; returns its last bytes."""
        with self._lock:
            return b"" if self._closed else self._encoder.finish()

    def close(self) -> None:
        """Releases the encoder."""
        with self._lock:
            self._closed = True
            self._encoder.close()


class AudioStreamingResponse(Response):
    """Streaming response to a client that may disconnect at any moment.

    An error before the first byte becomes an error response. A later one cuts the connection, so that the client does
    not take partial audio for complete audio. A client that disconnects, or reads no block within `stall` seconds,
    closes `body`. So does `cut`.
    """

    def __init__(
        self,
        body: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        stall: float | None = None,
        cut: Cut | None = None,
    ) -> None:
        self.status_code, self.media_type, self.background = 200, media_type, None
        self._pieces, self._started = body, False
        self._stall = STALL if stall is None else stall
        self._cut = cut
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})})
        if "content-length" in self.headers:
            del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the body. Raises a ServiceError for an error before the first byte, ConnectionCut for a later one."""
        if scope["method"] == "HEAD":  # nothing is synthesized or encoded
            await self._pieces.aclose()
            await self._send(send, b"", more=False)
            return
        failure: ServiceError | ConnectionCut | None = None

        async def until_cut(cut: Cut) -> None:
            nonlocal failure
            failure = ConnectionCut(await cut.wait())
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(_until_disconnected, receive, group.cancel_scope.cancel)
            if self._cut is not None:
                group.start_soon(until_cut, self._cut)
            try:
                await self._send_all(send)
            except (ServiceError, ConnectionCut) as error:
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _send_all(self, send: Send) -> None:
        async with contextlib.aclosing(self._pieces) as pieces:
            try:
                async for piece in pieces:
                    for at in range(0, len(piece), BLOCK):
                        await self._send(send, piece[at : at + BLOCK], more=True)
            except (ServiceError, SpeechError, TimeoutError, OSError) as error:
                if not self._started:
                    raise _service_error(error) from error
                raise ConnectionCut(str(error) or type(error).__name__) from error
        await self._send(send, b"", more=False)

    async def _send(self, send: Send, block: bytes, *, more: bool) -> None:
        with anyio.fail_after(self._stall):
            if not self._started:
                self._started = True
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": block, "more_body": more})


async def _until_disconnected(receive: Receive, then: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    then()


def _service_error(error: Exception) -> ServiceError:
    return error if isinstance(error, ServiceError) else SpeechFailedError(str(error) or type(error).__name__)


async def in_thread(
    encode: Callable[..., bytes], *arguments: object, limiter: anyio.CapacityLimiter | None = None
) -> bytes:
    """Result of a StreamEncoder's method, run in a worker thread. A cancelled stream waits for its end."""
    return await run_sync(encode, *arguments, limiter=limiter)
