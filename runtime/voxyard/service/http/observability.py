"""Middleware around all: request IDs, access log, metrics, security headers, error responses; logging as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
import uuid
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voxyard.service.auth.api_keys import Client
from voxyard.service.errors import ServiceError, UnavailableError
from voxyard.service.http.admission import PUBLIC_PATHS, PUBLIC_PREFIXES
from voxyard.service.http.errors import ConnectionCut, answer, failure
from voxyard.service.http.metrics import UNMATCHED, ServiceMetrics

FIELDS = ("client", "address", "method", "path", "status", "seconds", "bytes")
"""Fields of the access log besides `time`, `level`, `logger`, `message` and `request_id`."""

request_id: ContextVar[str | None] = ContextVar("voxyard_request_id", default=None)
"""Id of the current request; threads that a request starts inherit it."""

_LONGEST = 20_000


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON; data from clients cannot forge another line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its newline."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_LONGEST],
        }
        if (found := getattr(record, "request_id", None) or request_id.get()) is not None:
            line["request_id"] = found
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)[-_LONGEST:]
        return json.dumps(line, ensure_ascii=True, default=str)


class _StderrHandler(logging.Handler):
    """Writes to the current standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record in one call, so that the lines of several threads do not mix."""
        try:
            line = self.format(record)
        except Exception as error:  # noqa: BLE001 (a wrong log call must not fail a request)
            line = json.dumps({"level": "error", "message": f"a log record cannot be formatted: {error!r}"})
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def configure_json_logging(*, verbose: bool = False) -> None:
    """Sends all logging of this process to standard error as JSON; `verbose` adds debug records."""
    handler = _StderrHandler()
    handler.setFormatter(JsonFormatter())
    handler.addFilter(_not_yet_logged)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("voxyard").setLevel(logging.DEBUG if verbose else logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn").setLevel(logging.INFO if verbose else logging.WARNING)


def request_line(message: str, level: int, fields: Mapping[str, object]) -> None:
    """Writes a request's access log line; `fields` are `request_id` and some of FIELDS."""
    logging.getLogger("voxyard.service.requests").log(level, "%s", message, extra=dict(fields))


def _not_yet_logged(record: logging.LogRecord) -> bool:
    """Log filter: drops uvicorn's traceback of a cut connection or a cancellation, which the access log has."""
    error = record.exc_info[1] if record.exc_info else None
    return not (record.name == "uvicorn.error" and isinstance(error, ConnectionCut | asyncio.CancelledError))


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
"""Defaults of every response; the page plays fetched audio from `blob:` URLs."""
CLIENT_CLOSED_REQUEST = 499
"""Status, in log and metrics, of a request whose client disconnected before the response (as in nginx)."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_STARTS = frozenset({"http.response.start", "websocket.http.response.start", "websocket.accept"})
_BODIES = frozenset({"http.response.body", "websocket.http.response.body"})
_QUIET_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})


class ObservabilityMiddleware:
    """Observes every request, also refused ones: outside all others of the application."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request, from its headers to the end of its response, or of its WebSocket."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        request = _RequestState(scope, receive, send)
        token = request_id.set(request.id)
        self._metrics.request_started()
        try:
            await self._handle(scope, request)
        finally:
            request_id.reset(token)
            self._metrics.request_finished(_route(scope), request.method, request.status, request.seconds)
            request.log_line()

    async def _handle(self, scope: Scope, request: _RequestState) -> None:
        try:
            await self._app(scope, request.receive, request.send)
            return
        except ConnectionCut as cut:
            if request.started:
                request.cut = str(cut) or "it could not be completed"
                raise
            log.warning("request failed before its response: %s", cut)
        except asyncio.CancelledError:  # the server cuts what is left at the end of a shutdown
            if not request.started:
                refusal = UnavailableError("the service is shutting down: retry in 10 s", retry_after=10)
                await answer(refusal)(scope, request.receive, request.send)
            raise
        except Exception as error:
            if request.disconnected:
                log.info("request failed after the client disconnected: %r", error)
                return
            cause = _cause(error)
            if request.started and scope["type"] == "websocket":
                log.exception("internal error in a WebSocket")
                await request.send({"type": "websocket.close", "code": 1011, "reason": request.id})
                return
            if request.started:
                request.cut = str(cause) or type(cause).__name__
                if not isinstance(cause, ServiceError):  # a ServiceError's message is enough
                    log.error("response could not be completed", exc_info=error)
                raise ConnectionCut(request.cut) from None
            log.exception("internal error in a request")
        await failure(request.id)(scope, request.receive, request.send)


class _RequestState:
    """State of one request, observed in its `receive` and `send`."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        self.id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        self._scope, self._receive, self._send = scope, receive, send
        self._state = scope.setdefault("state", {})
        self._state["request_id"] = self.id
        self._began = time.monotonic()
        self._status: int | None = None
        self._finished = False
        self.method = scope.get("method", "GET")  # of a WebSocket's handshake
        self.bytes = 0
        self.disconnected = False
        self.cut = ""

    @property
    def started(self) -> bool:
        """True where the response has begun."""
        return self._status is not None

    @property
    def status(self) -> int:
        """Status of the response; 499 where the client disconnected before it."""
        if self._status is not None:
            return self._status
        return CLIENT_CLOSED_REQUEST if self.disconnected else 500

    @property
    def seconds(self) -> float:
        """Seconds since the request's headers."""
        return time.monotonic() - self._began

    async def receive(self) -> Message:
        """Next message; records a disconnect."""
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self._finished:
            self.disconnected = True
        if message["type"] == "websocket.disconnect":
            self._finished = True
        return message

    async def send(self, message: Message) -> None:
        """Sends a message, adds headers, counts bytes, and lets others have their turn between two parts of a body."""
        if message["type"] in _STARTS:
            self._status = message.get("status", 101)
            message.setdefault("headers", [])
            self._add_headers(MutableHeaders(scope=message))
        await self._send(message)
        if message["type"] in _BODIES:
            self.bytes += len(message.get("body", b""))
            self._finished = not message.get("more_body", False)
        elif message["type"] == "websocket.send":
            self.bytes += len(message.get("bytes") or message.get("text") or b"")
        elif message["type"] == "websocket.close":
            self._status, self._finished = self._status or 403, True  # uvicorn's, where it was not accepted
        if message.get("more_body", False):
            await asyncio.sleep(0)  # also where the client reads faster than is sent, others have their turn

    def _add_headers(self, headers: MutableHeaders) -> None:
        headers["X-Request-Id"] = self.id
        for name, value in SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        path = self._scope["path"]
        if path not in PUBLIC_PATHS and not path.startswith(PUBLIC_PREFIXES):
            headers.setdefault("Cache-Control", "private, no-cache")
        elif path == "/session":
            headers["Cache-Control"] = "no-store"

    def log_line(self) -> None:
        """Writes the access log line, without the query, which may hold a secret."""
        client, address = self._state.get("client"), self._scope.get("client")
        message, level = "request", logging.DEBUG if self._scope["path"] in _QUIET_PATHS else logging.INFO
        if self.cut:
            message, level = f"request cut: {self.cut}", logging.WARNING
        elif self.disconnected:
            message = "client disconnected"
        elif not self._finished:
            message, level = "request cut: the service is shutting down", logging.WARNING
        elif self.status >= 500:
            level = logging.WARNING
        request_line(
            message,
            level,
            {
                "request_id": self.id,
                "client": client.name if isinstance(client, Client) else None,
                "address": address[0] if address else None,
                "method": self.method,
                "path": self._scope["path"][:500],
                "status": self.status,
                "seconds": round(self.seconds, 6),
                "bytes": self.bytes,
            },
        )


def _cause(error: Exception) -> BaseException:
    """Original error, where Starlette wrapped one that was raised after the start of the response."""
    return error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error


def _route(scope: Scope) -> str:
    """Route template such as `/v1/documents/{id}`, not the path, whose cardinality is unbounded."""
    included = scope.get("fastapi", {}).get("effective_route_context")  # knows the prefix of an included router
    for route in (included, scope.get("route")):
        if template := getattr(route, "path_format", None) or getattr(route, "path", None):
            return str(template)
    return UNMATCHED
