"""Request bodies: as large as is allowed, as slow as is allowed, and never left unread on an open connection."""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from voxyard.service.errors import ServiceError, TooLargeError
from voxyard.service.http.errors import TooSlowError

GRACE_SECONDS = 20.0
"""Time limit of a body in all, beside the time that its bytes take at the slowest speed."""
SLOWEST = 16 * 1024  # bytes/s
LINGER_SECONDS = 2.0
"""How long we go on reading what we will not have: closing at once could take the answer from the client's hands."""


class GuardedBody:
    """A request's body while it streams in; `receive` takes the place of the server's.

    The limit holds for what really comes: Content-Length may lie or be missing. After a refusal, `receive` raises it
    whenever it is called, and `refusal` tells it, so that nobody can answer as if the body had been whole.
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
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > limit):
            self._refuse_size()

    def refusal(self) -> ServiceError | None:
        """Error for the body, as far as it has arrived; None while it is acceptable."""
        return self._refusal

    @property
    def unread(self) -> bool:
        """True where more of it may be on its way."""
        return not self._complete

    async def receive(self) -> Message:
        """The next piece. Raises TooLargeError or TooSlowError."""
        if self._refusal is not None:
            raise self._refusal
        if self._complete or self._answered:  # what comes now is nobody's concern but the linger's
            message = await self._receive()
            self._count(message)
            return message
        return await self._next()

    async def _next(self) -> Message:
        began = time.monotonic()
        patience = self._grace + self._received / SLOWEST - self._waited
        try:
            async with asyncio.timeout(max(patience, 0)):
                message = await self._receive()
        except TimeoutError:
            self._refusal = TooSlowError(
                f"the body came too slowly: {self._received} bytes in {self._waited + time.monotonic() - began:.0f} s, "
                f"expected {SLOWEST // 1024} KiB/s or more: send it again over a faster connection"
            )
            raise self._refusal from None
        self._waited += time.monotonic() - began
        self._count(message)
        if self._received > self._limit:
            raise self._refuse_size()
        return message

    def answered(self) -> None:
        """The response has begun: what is still to come of the body is not wanted."""
        self._answered = True

    async def linger(self) -> None:
        """Reads on, for a short time and not without end, what the client still sends."""
        most = self._received + max(self._limit, 1 << 20)
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while not self._complete and self._received < most:
                    self._count(await self._receive())
        except TimeoutError:
            pass

    def _count(self, message: Message) -> None:
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._complete = True

    def _refuse_size(self) -> ServiceError:
        limit = f"{self._limit / 2**20:.0f} MiB" if self._limit >= 2**20 else f"{self._limit} bytes"
        self._refusal = TooLargeError(f"the body has more than {limit}: send less at a time")
        return self._refusal


class ClosingSend:
    """`send` for a response that may come before its request has been read: then the connection ends with it."""

    def __init__(self, body: GuardedBody, send: Send) -> None:
        self._body, self._send = body, send
        self._closing = False
        self.started = False

    async def __call__(self, message: Message) -> None:
        """Passes a message on."""
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
