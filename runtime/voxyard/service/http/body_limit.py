"""Body limit: size, speed and values of request bodies; a connection with an unread body is closed."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from voxyard.service.errors import ServiceError, TooLargeError
from voxyard.service.http.errors import TooSlowError

MOST_VALUES = 100_000
"""Names and values of a body: twice what a document of the most chapters has. Each takes about 100 bytes once built."""
MOST_DEPTH = 32
_STEP = 1 << 16  # bytes that are looked at together, which bounds what counting takes
_NO_STRUCTURE = bytes(set(range(256)) - set(b",:[]{}"))


class JsonLimit:
    """Counts the values of a JSON text in UTF-8, piece by piece, in time and memory that do not depend on its form."""

    def __init__(self, *, values: int = MOST_VALUES, depth: int = MOST_DEPTH) -> None:
        self._most_values, self._most_depth = values, depth
        self._values = self._depth = 0
        self._in_string = False
        self._rest = b""  # a backslash whose character is in the next piece

    def count(self, text: bytes) -> None:
        """Counts what a piece of the text has.

        Raises:
            TooLargeError: there are too many values.
            ServiceError: they are nested too deeply, or the text is not UTF-8.
        """
        for start in range(0, len(text), _STEP):
            self._count(text[start : start + _STEP])

    def _count(self, piece: bytes) -> None:
        if b"\0" in piece:  # in UTF-16 and UTF-32, which are JSON's no more, quotes would be found in the wrong places
            raise ServiceError("invalid JSON body: found a zero byte, expected UTF-8")
        piece = (self._rest + piece).replace(b"\\\\", b"")
        self._rest = b"\\" if piece.endswith(b"\\") else b""
        parts = piece.removesuffix(self._rest).replace(b'\\"', b"").split(b'"')
        structure = b"".join(parts[self._in_string :: 2]).translate(None, _NO_STRUCTURE)
        self._in_string ^= len(parts) % 2 == 0
        self._values += len(structure) - structure.count(b"]") - structure.count(b"}")
        if self._values > self._most_values:
            raise TooLargeError(f"JSON body with more than {self._most_values:,} names and values: send a smaller one")
        for brackets in structure.translate(None, b",:"):
            self._depth += 1 if brackets in b"[{" else -1
            if self._depth > self._most_depth:
                raise ServiceError(f"JSON body nested more than {self._most_depth} deep: /docs has its fields")


def check_json(text: str | bytes) -> None:
    """Checks a whole JSON text. Raises as `JsonLimit.count`."""
    JsonLimit().count(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)


COMPRESSIONS = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd", "compress"})
"""Values of Content-Encoding that change the body; some clients name their charset there."""


class CompressedError(ServiceError):
    """The request's body is compressed."""

    status = 415


GRACE_SECONDS = 20.0
"""Time limit of a body, in addition to its size divided by MIN_BYTES_PER_SECOND."""
MIN_BYTES_PER_SECOND = 16 * 1024
LINGER_SECONDS = 2.0
"""Time limit for each next piece of a refused body: closing at once could lose the response (TCP reset)."""
LINGER_BYTES = 16 << 20
"""Most bytes of a refused body that are read and discarded, or the body's limit where that is more."""


class LimitedBody:
    """Request body with limits on size and speed, and on the values of JSON; `receive` replaces the server's.

    The limits apply to the bytes received: Content-Length may be wrong or missing. After a refusal, `receive` raises
    it at each call and `refusal` returns it, so that an incomplete body is never taken for a complete one.
    """

    def __init__(self, scope: Scope, receive: Receive, limit: int, *, grace: float = GRACE_SECONDS) -> None:
        """`limit` in bytes, `grace` in seconds."""
        headers = Headers(scope=scope)
        declared = headers.get("content-length", "")
        self._receive, self._limit, self._grace = receive, limit, grace
        self._received, self._waited = 0, 0.0
        self._complete = "transfer-encoding" not in headers and declared in ("", "0")
        self._answered = False
        self._refusal: ServiceError | None = None
        self._json = JsonLimit() if is_json(headers) else None
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding in COMPRESSIONS and not self._complete:
            self._refusal = CompressedError(f"the body is compressed ({encoding}): send it without Content-Encoding")
        if declared and "transfer-encoding" in headers:  # a proxy before this may have seen its end elsewhere
            self._refusal = ServiceError("found Content-Length and Transfer-Encoding: send one of them")
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > limit):
            self._refuse_size()

    def refusal(self) -> ServiceError | None:
        """Error that refuses the body; None while it is within the limits."""
        return self._refusal

    @property
    def unread(self) -> bool:
        """True where more of it may arrive."""
        return not self._complete

    async def receive(self) -> Message:
        """Next message. Raises TooLargeError or TooSlowError, or ServiceError for JSON that is nested too deeply."""
        if self._refusal is not None:
            raise self._refusal
        if self._complete or self._answered:  # only `linger` reads now
            message = await self._receive()
            self._count(message)
            return message
        return await self._next()

    async def _next(self) -> Message:
        clock = asyncio.get_running_loop().time
        began = clock()
        timeout = self._grace + self._received / MIN_BYTES_PER_SECOND - self._waited
        try:
            async with asyncio.timeout(max(timeout, 0)):
                message = await self._receive()
        except TimeoutError:
            self._refusal = TooSlowError(
                f"body too slow: {self._received} bytes in {self._waited + clock() - began:.0f} s, "
                f"expected at least {MIN_BYTES_PER_SECOND // 1024} KiB/s: retry over a faster connection"
            )
            raise self._refusal from None
        self._waited += clock() - began
        self._count(message)
        if self._received > self._limit:
            raise self._refuse_size()
        if self._json is not None:
            try:
                self._json.count(message.get("body", b""))
            except ServiceError as error:
                self._refusal = error
                raise
        return message

    def answered(self) -> None:
        """Marks the response as started: the rest of the body is discarded."""
        self._answered = True

    async def linger(self) -> None:
        """Reads and discards the rest of the body, limited in time and size."""
        most = self._received + max(self._limit, LINGER_BYTES)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace), asyncio.timeout(LINGER_SECONDS) as piece:
                while not self._complete and self._received < most:
                    self._count(await self._receive())
                    piece.reschedule(asyncio.get_running_loop().time() + LINGER_SECONDS)

    def _count(self, message: Message) -> None:
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._complete = True

    def _refuse_size(self) -> ServiceError:
        limit = f"{self._limit / 2**20:.0f} MiB" if self._limit >= 2**20 else f"{self._limit} bytes"
        self._refusal = TooLargeError(f"body larger than {limit}: send a smaller one")
        return self._refusal


def is_json(headers: Headers) -> bool:
    """True for every content type whose body may be read as JSON."""
    return "json" in headers.get("content-type", "").lower()


class ClosingSend:
    """`send` that closes the connection after a response which precedes the end of its request's body."""

    def __init__(self, body: LimitedBody, send: Send) -> None:
        self._body, self._send = body, send
        self._closing = False
        self.started = False

    async def __call__(self, message: Message) -> None:
        """Sends a message."""
        if message["type"] == "http.response.start":
            self.started = True
            self._body.answered()
            self._closing = self._body.unread
            if self._closing:
                message.setdefault("headers", [])
                MutableHeaders(scope=message)["connection"] = "close"
        elif self._closing and message["type"] == "http.response.body" and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._body.linger()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)
