"""Admission middleware: the path that is meant, authentication, rate limit, origin check, body size."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from urllib.parse import urlsplit

import anyio
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voxyard.service.auth.api_keys import COOKIE, Client, Keys
from voxyard.service.auth.sessions import PAGE_HEADER, session_cookie
from voxyard.service.config import ServiceSection
from voxyard.service.errors import (
    BusyError,
    ForbiddenError,
    NotFoundError,
    ServiceError,
    UnauthorizedError,
    UnavailableError,
)
from voxyard.service.fairness import FairThreads, fair_part
from voxyard.service.http.body_limit import ClosingSend, LimitedBody, is_json
from voxyard.service.http.errors import ConnectionCut, LargeHeadersError, TooManyConnectionsError, answer
from voxyard.service.http.protocol import CONNECTION, HEADER_BYTES, KEY_SECONDS, HttpProtocol
from voxyard.service.state import AppState
from voxyard.service.voices.submission import LARGEST_FILE

PUBLIC_PATHS = frozenset(
    {"/", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/session", "/favicon.ico"}
)  # fmt: skip
PUBLIC_PREFIXES = ("/page/",)
HEALTH_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Answered above the connection limit too, so that monitoring does not report a busy service as down."""
UPLOAD_PATHS = frozenset({"/v1/documents"})
VOICE_PATHS = frozenset({"/v1/audio/voices"})
KEY_HEADERS = ("api-key", "x-api-key", "xi-api-key")
"""Headers in which clients of Azure OpenAI, of gateways and of ElevenLabs send a key without `Authorization`."""
ANY_ORIGIN = "*"
"""Allowed origin that stands for all; no page of another origin begins or ends a session by it."""
MAX_IN_FLIGHT = 1000
KEY_FILE_SECONDS = 0.2
"""Time that a request waits for a key file that has changed. One of some thousand keys counts a little later."""
REVOKED_SECONDS = 2.0
"""Time between two looks whether the key of a WebSocket is still valid."""
_ADDRESS = re.compile(r"^https?://[^/]*", re.IGNORECASE)  # the form of HTTP for proxies, which every server takes
_SLASHES = re.compile(r"//+")
_BASE = re.compile(r"^(/openai(/deployments/[^/]+)?)?(/v1)*(?=/(audio|models)(/|$))|^(/v1){2,}(?=/|$)")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_MULTIPART = 64 * 1024  # bytes of a form besides its file
_ESCAPED = 12  # most bytes of a character in JSON: a surrogate pair of six-byte escapes


def usual(path: str) -> str:
    """The path that is meant: `/v1/audio/speech` of `//v1/audio/speech/`, `/audio/speech` and `/v1/v1/audio/speech`."""
    plain = _SLASHES.sub("/", _ADDRESS.sub("", path)).rstrip("/") or "/"
    return _BASE.sub("/v1", plain)


class PathsMiddleware:
    """ASGI middleware: replaces a request's path by the one that is meant, before anything goes by it.

    A redirect would contain the Host header that the client sent, and turns POST into GET in some clients.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "lifespan":
            scope["path"] = usual(scope["path"])
        await self._app(scope, receive, send)


class AdmissionMiddleware:
    """ASGI middleware: admits or refuses a request before its body is read."""

    def __init__(self, app: ASGIApp, state: AppState) -> None:
        self._app, self._state = app, state
        section = state.section
        self._upload = (section.max_upload_mib << 20) + _MULTIPART
        self._text = min(self._upload, _ESCAPED * section.max_characters + _MULTIPART)
        self._small = largest_text(section)
        self._voice = max(LARGEST_FILE + _MULTIPART, self._small)
        self._origins = frozenset(section.origins())
        self._in_flight: Counter[str] = Counter()  # by key
        self._refresh: asyncio.Task[None] | None = None  # of the keys
        self._refresh_threads = FairThreads("voxyard-keys")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "lifespan":
            _leave_session_cookie(scope)
        if scope["type"] == "websocket":
            await self._handle_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = LimitedBody(scope, receive, self._largest_body(scope))
        closing = ClosingSend(body, send)
        await self._refresh_keys()
        try:
            counted = self._admit(scope)
        except ServiceError as error:
            await self._pause(scope, error)
            await answer(error)(scope, receive, closing)
            return
        with self._counted(counted):
            await self._forward(scope, body, closing)

    async def _handle_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a WebSocket, which ends once its key is revoked."""
        await self._refresh_keys()
        try:
            counted = self._admit(scope)
        except ServiceError as error:
            await self._pause(scope, error)
            await answer(error)(scope, receive, send)
            return
        client, accepted, revoked = scope["state"]["client"], False, ""

        async def answering(message: Message) -> None:
            nonlocal accepted
            accepted = accepted or message["type"] != "websocket.close"
            if accepted:
                await send(message)
            else:  # the router has closed what it knows no route for
                refusal = NotFoundError("no WebSocket at this path: one is at /v1/audio/speech/stream")
                await answer(refusal)(scope, receive, send)

        with self._counted(counted):
            async with anyio.create_task_group() as group:

                async def until_revoked() -> None:
                    nonlocal revoked
                    try:
                        while True:
                            await anyio.sleep(REVOKED_SECONDS)
                            await self._check_revoked(client)
                    except ConnectionCut as cut:
                        revoked = str(cut)
                        group.cancel_scope.cancel()

                group.start_soon(until_revoked)
                await self._app(scope, receive, answering)
                group.cancel_scope.cancel()
        if revoked:
            await send({"type": "websocket.close", "code": 1008, "reason": revoked})

    async def _pause(self, scope: Scope, error: ServiceError) -> None:
        """Keeps a refusal back that a key over its rate has just been told."""
        if isinstance(error, BusyError):
            await anyio.sleep(self._state.rate_limiter.pause(scope["state"]["client"].name))

    @contextmanager
    def _counted(self, name: str | None) -> Iterator[None]:
        """Counts a request of a key as in flight, for the block."""
        if name is None:
            yield
            return
        self._in_flight[name] += 1
        try:
            yield
        finally:
            self._in_flight[name] -= 1
            self._in_flight += Counter()  # drops the keys without requests

    def _largest_body(self, scope: Scope) -> int:
        """Most bytes of a request's body."""
        if scope["method"] == "POST" and scope["path"] in UPLOAD_PATHS:
            return self._text if is_json(Headers(scope=scope)) else self._upload
        return self._voice if scope["method"] == "POST" and scope["path"] in VOICE_PATHS else self._small

    async def _refresh_keys(self) -> None:
        """Has a key file that has changed read in a thread, and waits for it; for a long one, not to its end."""
        keys = self._state.keys
        if keys is None or not keys.changed:
            return
        if self._refresh is None or self._refresh.done():
            self._refresh = asyncio.create_task(self._refresh_threads.run("", keys.refresh))
            await asyncio.wait([self._refresh], timeout=KEY_FILE_SECONDS)

    async def _check_revoked(self, client: Client | None) -> None:
        """Raises ConnectionCut where the key of a request has been revoked since it was admitted."""
        keys = self._state.keys
        if client is None or keys is None:
            return
        await self._refresh_keys()
        if not keys.valid(client):
            raise ConnectionCut("its API key was revoked")

    async def _forward(self, scope: Scope, body: LimitedBody, send: ClosingSend) -> None:
        async def unless_refused(message: Message) -> None:
            if send.started:
                await self._check_revoked(scope["state"]["client"])
            if body.refusal() is None or send.started:
                await send(message)

        if body.refusal() is None:
            try:
                await self._app(scope, body.receive, unless_refused)
            except Exception:
                if body.refusal() is None or send.started:
                    raise
        if (refusal := body.refusal()) is not None and not send.started:
            await answer(refusal)(scope, body.receive, send)

    def _admit(self, scope: Scope) -> str | None:
        """Name of the key for which the request counts as in flight; None without: it counts as a connection.

        Stores the client in the scope's state. Raises the ServiceError that refuses the request.
        """
        headers, path, method = Headers(scope=scope), scope["path"], scope.get("method", "GET")
        public = path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES)
        _check_size(scope)
        _check_zero(scope)
        if self._state.keys is None:
            _check_host(headers)
        if scope["type"] == "websocket":  # pages of any origin may open one, with cookies and without a preflight
            cookie = COOKIE in cookie_parser(headers.get("cookie", ""))
            self._check_origin("POST", headers, frozenset() if cookie else self._origins)
        found = self._authenticate(method, headers, public=public)
        known = isinstance(found, Client)
        _count_connection(scope, known=known)
        counted = found.name if isinstance(found, Client) else None
        if not public and not self._has_room(counted or ""):
            raise UnavailableError(
                f"{self._in_flight.total()} of {MAX_IN_FLIGHT} requests in flight: retry in 1 s", retry_after=1
            )
        if public or self._state.keys is None:
            self._check_origin(method, headers, self._origins - {ANY_ORIGIN} if public else self._origins)
            scope["state"]["client"] = None if public else found
            return counted
        if isinstance(found, ServiceError):
            raise found
        scope["state"]["client"] = client = found
        self._state.take_request(client.name)
        return counted

    def _has_room(self, name: str) -> bool:
        """True where a request of this key may be in flight: within the limit, or within its part of it."""
        if self._in_flight.total() < MAX_IN_FLIGHT:
            return True
        return self._in_flight[name] + 1 <= fair_part(MAX_IN_FLIGHT, name, self._in_flight, self._state.limits)

    def _authenticate(self, method: str, headers: Headers, *, public: bool) -> Client | ServiceError:
        """Client of a request, or the error that refuses it."""
        if self._state.keys is None:
            return UnauthorizedError("no API key is required") if public else Client("")
        try:
            return self._client(self._state.keys, method, headers)
        except ServiceError as error:
            return error

    def _client(self, keys: Keys, method: str, headers: Headers) -> Client:
        """Client of a request, by its API key or its session cookie."""
        if (key := _key(headers)) is not None:
            if (client := keys.client(key)) is None:
                raise UnauthorizedError("unknown API key: `voxyard keys list` shows the names of the known keys")
            return client
        sessions, cookie = self._state.sessions, cookie_parser(headers.get("cookie", "")).get(COOKIE)
        if sessions is not None and cookie is not None:
            if (client := sessions.client(cookie)) is None:
                raise UnauthorizedError("the session has expired: enter the API key again")
            if method not in _SAFE and headers.get(PAGE_HEADER) != "1":
                raise ForbiddenError(
                    f"missing header: requests with a session cookie that change something need `{PAGE_HEADER}: 1`"
                )
            return client
        raise UnauthorizedError("an API key is required: send the header `Authorization: Bearer KEY`")

    @staticmethod
    def _check_origin(method: str, headers: Headers, allowed: AbstractSet[str | None]) -> None:
        """CSRF protection without keys, and of WebSockets, by the headers that browsers set. Raises ForbiddenError."""
        if method in _SAFE or headers.get(PAGE_HEADER) == "1":  # cross-origin, this header needs a CORS preflight
            return
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site in ("same-origin", "none") or origin in allowed or (origin is not None and ANY_ORIGIN in allowed):
            return
        foreign = origin is not None and origin.partition("://")[2] != headers.get("host", "")
        if foreign or site in ("cross-site", "same-site"):
            raise ForbiddenError(
                f"origin {(origin or 'of another site')[:200]} is not allowed: add it to --allowed-origins"
            )


def largest_text(section: ServiceSection) -> int:
    """Most bytes of a request, or of a WebSocket's message, with the text of a speech request."""
    return _ESCAPED * section.max_input + _MULTIPART


def _key(headers: Headers) -> str | None:
    """API key of a request; None without one. Raises UnauthorizedError for another kind of authorization."""
    given = headers.get("authorization")
    scheme, _, key = (given or "").partition(" ")
    found = [key if scheme.lower() == "bearer" else "", *(headers.get(name, "") for name in KEY_HEADERS)]
    if keys := [each.strip() for each in found if each.strip()]:
        return keys[0]
    if given is not None:
        raise UnauthorizedError("malformed Authorization header: expected `Authorization: Bearer KEY`")
    return None


def _leave_session_cookie(scope: Scope) -> None:
    """Takes all other cookies from a request: to parse a quoted one takes time by the square of its length."""
    headers = Headers(scope=scope)
    if "cookie" in headers:
        cookie = session_cookie(headers)
        kept = [] if cookie is None or '"' in cookie else [(b"cookie", f"{COOKIE}={cookie}".encode("latin-1"))]
        scope["headers"] = [*(each for each in scope["headers"] if each[0].lower() != b"cookie"), *kept]


def _count_connection(scope: Scope, *, known: bool) -> None:
    """Counts the request's connection by whether it sent a key. Raises TooManyConnectionsError above the limit."""
    connection: HttpProtocol | None = scope["state"].get(CONNECTION)  # missing under other servers
    if connection is None:
        return
    if known:
        connection.admit_keyed()
    elif (reason := connection.refuse_keyless()) is not None and scope["path"] not in HEALTH_PATHS:
        raise TooManyConnectionsError(reason, retry_after=KEY_SECONDS)


def _check_size(scope: Scope) -> None:
    """Limits the headers' size, which uvicorn checks only where they come in pieces."""
    path = len(scope.get("raw_path", b"")) + len(scope.get("query_string", b""))
    if path + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > HEADER_BYTES:
        raise LargeHeadersError(
            f"path and headers larger than {HEADER_BYTES // 1024} KiB: send fewer or shorter headers"
        )


def _check_zero(scope: Scope) -> None:
    """Refuses a zero byte in the path or the query, which no database takes. Raises ServiceError."""
    if "\0" in scope["path"] or b"%00" in scope.get("query_string", b""):
        raise ServiceError("the path or the query has a zero byte (%00): send it without")


def is_loopback(host: str) -> bool:
    """True for a host name or address of the loopback interface."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _check_host(headers: Headers) -> None:
    """Protection against DNS rebinding: without keys, only loopback names are served. Raises ForbiddenError."""
    given = headers.get("host")
    if given is None:
        return
    try:
        host = urlsplit(f"//{given}").hostname or ""
    except ValueError:
        host = ""
    if not is_loopback(host):
        raise ForbiddenError(
            f"host {given[:200]} is not allowed: without API keys only localhost and 127.0.0.1 are; create a key with "
            "`voxyard keys new NAME`"
        )
