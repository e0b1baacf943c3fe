"""Admission middleware: authentication, rate limit, origin check, body size."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voxyard.service.auth.api_keys import COOKIE, Client, Keys
from voxyard.service.auth.sessions import PAGE_HEADER
from voxyard.service.errors import BusyError, ForbiddenError, ServiceError, UnauthorizedError, UnavailableError
from voxyard.service.http.body_limit import ClosingSend, GuardedBody
from voxyard.service.http.components import Frame
from voxyard.service.http.connection_limit import CONNECTION, KEY_SECONDS, Connection
from voxyard.service.http.errors import CrowdedError, LargeHeadersError, answer
from voxyard.service.http.protocol import HEADER_BYTES

OPEN_PATHS = frozenset(
    {"/", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/session", "/favicon.ico"}
)  # fmt: skip
OPEN_FOLDERS = ("/page/",)
HEALTH_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Answered above the connection limit too: a monitor is not to take a crowd for the service's end."""
UPLOAD_PATHS = frozenset({"/v1/documents"})
MOST_IN_FLIGHT = 1000
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_MULTIPART = 64 * 1024  # bytes of a form beside its file
_ESCAPED = 12  # bytes that a character takes at most in JSON: two escapes of six


class Door:
    """ASGI middleware that admits a request before a byte of its body is read, or answers it itself."""

    def __init__(self, app: ASGIApp, frame: Frame) -> None:
        self._app, self._frame = app, frame
        section = frame.section
        self._upload = (section.max_upload_mib << 20) + _MULTIPART
        self._small = _ESCAPED * section.max_input + _MULTIPART
        self._origins = frozenset(section.origins())
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        upload = scope["method"] == "POST" and scope["path"] in UPLOAD_PATHS
        body = GuardedBody(scope, receive, self._upload if upload else self._small)
        closing = ClosingSend(body, send)
        try:
            counted = self._admit(scope)
        except ServiceError as error:
            await answer(error)(scope, receive, closing)
            return
        self._in_flight += counted
        try:
            await self._pass_on(scope, body, closing)
        finally:
            self._in_flight -= counted

    async def _pass_on(self, scope: Scope, body: GuardedBody, send: ClosingSend) -> None:
        async def unless_refused(message: Message) -> None:
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

    def _admit(self, scope: Scope) -> bool:
        """True where the request counts as one in flight; one without a key does not: those are counted by connections.

        Raises the error that refuses the request; else the scope's state has its client, where it has one.
        """
        headers, path = Headers(scope=scope), scope["path"]
        public = path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)
        _check_size(scope)
        if self._frame.keys is None:
            _check_host(headers)
        who = self._whose(scope["method"], headers, public=public)
        known = isinstance(who, Client)
        _count_connection(scope, known=known)
        if self._in_flight >= MOST_IN_FLIGHT and not public:
            raise UnavailableError(f"{MOST_IN_FLIGHT} requests are being answered: try again soon", retry_after=1)
        if public or self._frame.keys is None:
            self._check_page(scope["method"], headers)
            scope["state"]["client"] = None if public else who
            return known
        if isinstance(who, ServiceError):
            raise who
        scope["state"]["client"] = client = who
        wait = self._frame.rates.take(client.name)
        if wait:
            raise BusyError(
                f"the key {client.name} may make {self._frame.section.rate_limit} requests in a minute",
                retry_after=wait,
            )
        return True

    def _whose(self, method: str, headers: Headers, *, public: bool) -> Client | ServiceError:
        """Client of a request, also on an open path; or the error that refuses it."""
        if self._frame.keys is None:
            return UnauthorizedError("no key is asked for") if public else Client("")
        try:
            return self._client(self._frame.keys, method, headers)
        except ServiceError as error:
            return error

    def _client(self, keys: Keys, method: str, headers: Headers) -> Client:
        """Client of a request, by its key or by the session of its page."""
        if (given := headers.get("authorization")) is not None:
            scheme, _, key = given.partition(" ")
            if scheme.lower() != "bearer" or not key.strip():
                raise UnauthorizedError("expected the header `Authorization: Bearer KEY`")
            if (client := keys.client(key.strip())) is None:
                raise UnauthorizedError(
                    "the API key is not known: `voxyard keys list` shows the names of those that are"
                )
            return client
        sessions, cookie = self._frame.sessions, cookie_parser(headers.get("cookie", "")).get(COOKIE)
        if sessions is not None and cookie is not None:
            if (client := sessions.client(cookie)) is None:
                raise UnauthorizedError("the session is over: give the API key again")
            if method not in _SAFE and headers.get(PAGE_HEADER) != "1":
                raise ForbiddenError(f"a request of the page that changes something bears the header {PAGE_HEADER}: 1")
            return client
        raise UnauthorizedError("an API key is needed: send the header `Authorization: Bearer KEY`")

    def _check_page(self, method: str, headers: Headers) -> None:
        """Origin check without keys: a browser's own headers tell whether a foreign page sent the request."""
        if method in _SAFE or headers.get(PAGE_HEADER) == "1":  # a foreign page cannot send this header unasked
            return
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site in ("same-origin", "none") or origin in self._origins:
            return
        foreign = origin is not None and urlsplit(origin).netloc != headers.get("host", "")
        if foreign or site in ("cross-site", "same-site"):
            raise ForbiddenError(
                f"{(origin or 'a foreign page')[:200]} may not do this: allowed_origins names the pages that may"
            )


def _count_connection(scope: Scope, *, known: bool) -> None:
    """Tells the request's connection whether it has shown a key. Raises CrowdedError where it is above the limit."""
    connection: Connection | None = scope["state"].get(CONNECTION)  # missing under another server than ours
    if connection is None:
        return
    if known:
        connection.shown_key()
    elif (reason := connection.shown_none()) is not None and scope["path"] not in HEALTH_PATHS:
        raise CrowdedError(reason, retry_after=KEY_SECONDS)


def _check_size(scope: Scope) -> None:
    """uvicorn holds headers to a size only while they come in pieces."""
    path = len(scope.get("raw_path", b"")) + len(scope.get("query_string", b""))
    if path + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > HEADER_BYTES:
        raise LargeHeadersError(
            f"the path and the headers have more than {HEADER_BYTES // 1024} KiB: send less of them"
        )


def is_loopback(host: str) -> bool:
    """True where a host's name or address can only mean this machine."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _check_host(headers: Headers) -> None:
    """DNS rebinding: a page's own name points at this machine, to get past the browser's origin rules."""
    given = headers.get("host")
    if given is None:
        return
    try:
        host = urlsplit(f"//{given}").hostname or ""
    except ValueError:
        host = ""
    if not is_loopback(host):
        raise ForbiddenError(
            f"without API keys this service answers as localhost or 127.0.0.1 only, not as {given[:200]}: "
            "make a key with `voxyard keys new NAME`"
        )
