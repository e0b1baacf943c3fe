"""ASGI middleware: request IDs, access log, metrics, security headers, error responses."""

from __future__ import annotations

import logging
import re
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voxyard.service.auth.api_keys import Client
from voxyard.service.errors import ServiceError
from voxyard.service.http.admission import OPEN_FOLDERS, OPEN_PATHS
from voxyard.service.http.errors import failure
from voxyard.service.http.logging import ConnectionCut, request_id, request_line
from voxyard.service.http.metrics import UNMATCHED, ServiceMetrics

log = logging.getLogger("voxyard.service")

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; media-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""On every answer that does not bring its own; `blob:` is how a page plays what it has fetched itself."""
GONE = 499
"""The status, in log and metrics, of a request whose client went away before it was answered."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_QUIET_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})


class FrameMiddleware:
    """Outermost ASGI middleware: it handles each request, refused or not."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, from its headers to the end of its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(scope, receive, send)
        token = request_id.set(request.id)
        self._metrics.began()
        try:
            await self._answer(scope, request)
        finally:
            request_id.reset(token)
            self._metrics.ended(_route(scope), scope["method"], request.status, request.seconds)
            request.write_line()

    async def _answer(self, scope: Scope, request: _Request) -> None:
        try:
            await self._app(scope, request.receive, request.send)
            return
        except ConnectionCut as cut:
            if request.started:
                request.cut = str(cut) or "it could not be finished"
                raise
            log.warning("a request ended without an answer: %s", cut)
        except Exception as error:
            if request.gone:
                log.info("a request ended with its client: %r", error)
                return
            cause = _cause(error)
            if request.started:
                request.cut = str(cause) or type(cause).__name__
                if not isinstance(cause, ServiceError):  # a room's own error is told in its sentence
                    log.error("an answer could not be finished", exc_info=error)
                raise ConnectionCut(request.cut) from None
            log.exception("a request failed")
        await failure(request.id)(scope, request.receive, request.send)


class _Request:
    """State of one request; its `receive` and `send` watch the messages that pass through them."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        self.id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        self._scope, self._receive, self._send = scope, receive, send
        self._state = scope.setdefault("state", {})
        self._state["request_id"] = self.id
        self._began = time.monotonic()
        self._status: int | None = None
        self._finished = False
        self.bytes = 0
        self.gone = False
        self.cut = ""

    @property
    def started(self) -> bool:
        """True where the response has begun."""
        return self._status is not None

    @property
    def status(self) -> int:
        """The answer's status; 499 where the client did not wait for one."""
        if self._status is not None:
            return self._status
        return GONE if self.gone else 500

    @property
    def seconds(self) -> float:
        """Since the request's headers."""
        return time.monotonic() - self._began

    async def receive(self) -> Message:
        """Notes a client that goes away."""
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self._finished:
            self.gone = True
        return message

    async def send(self, message: Message) -> None:
        """Adds headers, counts bytes."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message.setdefault("headers", [])
            self._dress(MutableHeaders(scope=message))
        await self._send(message)
        if message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
            self._finished = not message.get("more_body", False)

    def _dress(self, headers: MutableHeaders) -> None:
        headers["X-Request-Id"] = self.id
        for name, value in SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        path = self._scope["path"]
        if path not in OPEN_PATHS and not path.startswith(OPEN_FOLDERS):
            headers.setdefault("Cache-Control", "private, no-cache")
        elif path == "/session":
            headers["Cache-Control"] = "no-store"

    def write_line(self) -> None:
        """The request's line in the log; its query is left out, for it may hold a secret."""
        client, address = self._state.get("client"), self._scope.get("client")
        message, level = "request", logging.DEBUG if self._scope["path"] in _QUIET_PATHS else logging.INFO
        if self.cut:
            message, level = f"request cut: {self.cut}", logging.WARNING
        elif self.gone:
            message = "the client went away"
        elif not self._finished:
            message, level = "request cut: the service is going down", logging.WARNING
        elif self.status >= 500:
            level = logging.WARNING
        request_line(
            message,
            level,
            {
                "request_id": self.id,
                "client": client.name if isinstance(client, Client) else None,
                "address": address[0] if address else None,
                "method": self._scope["method"],
                "path": self._scope["path"][:500],
                "status": self.status,
                "seconds": round(self.seconds, 6),
                "bytes": self.bytes,
            },
        )


def _cause(error: Exception) -> BaseException:
    """Starlette wraps an error for which there is a handler when it comes too late for one."""
    return error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error


def _route(scope: Scope) -> str:
    """The template of the route, as `/v1/documents/{id}`; never the path, which would make a metric without end."""
    included = scope.get("fastapi", {}).get("effective_route_context")  # knows the prefix of an included router
    for route in (included, scope.get("route")):
        if template := getattr(route, "path_format", None) or getattr(route, "path", None):
            return str(template)
    return UNMATCHED
