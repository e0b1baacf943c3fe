"""Streaming audio: parts joined, encoded, and sent while the client is connected and hears them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from voxyard.service.errors import ServiceError
from voxyard.service.http.errors import ConnectionCut
from voxyard.speech.audio.encoder import NO_TAGS, Encoder, Format, Tags
from voxyard.speech.audio.joining import Piece
from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import SAMPLE_RATE

BLOCK = 1 << 16  # bytes per ASGI message
STALL = 120.0  # time limit in seconds for the client to read a block
OnHeard = Callable[[float], None]
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


Part = TypeVar("Part")


class SpeechFailedError(ServiceError):
    """A chunk could not be synthesized or encoded."""

    status, code, kind = 500, "speech_failed", "server_error"


class StreamEncoder(Generic[Part]):
    """Encodes a stream of parts for a listener: `join` gives the piece of audio of the next part.

    `position` is the number of samples joined so far, including pauses. `heard` gets how long the listener has waited
    after the first sound. With `amend`, `head` is at the end the beginning of the file with its length.
    """

    def __init__(
        self,
        join: Callable[[Part], Piece],
        format: Format,
        *,
        speed: float = 1.0,
        samples: int | None = None,
        amend: bool = False,
        tags: Tags = NO_TAGS,
        heard: OnHeard | None = None,
    ) -> None:
        self._open = partial(Encoder, format, SAMPLE_RATE, speed=speed, samples=samples, amend=amend, tags=tags)
        self._join, self._heard = join, heard
        self._lock = threading.Lock()  # closing waits for a running encode
        self.position, self._speed, self.head = 0, speed, b""

    async def encoded(
        self, parts: AsyncGenerator[Part, None], count: int, threads: anyio.CapacityLimiter | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Bytes of `count` parts, each encoded in a worker thread as soon as it is there, the end with the last one.

        Closing it closes `parts`, and waits for the thread.
        """
        encoder, playback = self._open(), Playback()
        try:
            async with contextlib.aclosing(parts):
                async for part in parts:
                    count -= 1
                    block, seconds = await run_sync(self._add, encoder, part, not count, limiter=threads)
                    playback.sends(seconds)
                    yield block
                    playback.taken()
        finally:
            with self._lock:
                encoder.close()
            if self._heard is not None and playback.began:
                self._heard(playback.waited)

    def _add(self, encoder: Encoder, part: Part, last: bool) -> tuple[bytes, float]:
        """The bytes that are ready with this part, and the seconds that it takes to play. Blocks."""
        with self._lock:
            piece = self._join(part)
            self.position = piece.end
            block = encoder.encode(piece.audio) + (encoder.finish() if last else b"")
            self.head = encoder.head
            return block, len(piece.audio) / SAMPLE_RATE / self._speed


class Cut:
    """Order to cut a response."""

    def __init__(self) -> None:
        self._event, self._reason = asyncio.Event(), ""

    def now(self, reason: str) -> None:
        """Has the response cut."""
        self._reason = reason
        self._event.set()

    async def wait(self) -> str:
        """Waits until the response is to be cut; the reason."""
        await self._event.wait()
        return self._reason


class LiveResponse(Response):
    """Response, audio or events, that is sent while it is made, to a client that may disconnect at any moment.

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

        async def until_gone() -> None:
            await _until_disconnected(receive)
            group.cancel_scope.cancel()

        async def until_cut(cut: Cut) -> None:
            nonlocal failure
            failure = ConnectionCut(await cut.wait())
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(until_gone)
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


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _service_error(error: Exception) -> ServiceError:
    return error if isinstance(error, ServiceError) else SpeechFailedError(str(error) or type(error).__name__)


Made = TypeVar("Made")


async def while_connected(request: Request, work: Coroutine[Any, Any, Made]) -> Made:
    """What `work` returns; the request's body has been read. Raises ClientDisconnect where the client goes before."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_until_disconnected(request.receive))
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)
