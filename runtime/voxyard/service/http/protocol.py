"""HTTP/1.1 protocol: uvicorn's own, with a timeout for slow headers, an error envelope for invalid requests, and a
limit of connections without a valid API key, which are counted apart from those with one; what a gateway forwards.

uvicorn has neither that timeout nor a hook for a connection's start and end, which the limit of connections without a
key needs; so these classes use parts that uvicorn does not document. They are listed in `PRIVATE_PARTS`, the
version is pinned to a minor one, and a test runs the server's tests on uvicorn's next one as soon as there is one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import h11
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from voxyard.service.config import PATH_PREFIX

MAX_CONNECTIONS = 1024
MAX_PER_ADDRESS = 256
FILES_SHARE = 4
"""Connections without a key use at most this fraction (1/4) of the process's open files."""
KEY_SECONDS = 2.0
"""Time in which a connection above the limit must send a valid key."""
CONNECTION = "connection"
"""Key of the request's `HttpProtocol` in its state."""
_LOG_SECONDS = 60.0

log = logging.getLogger("voxyard.service")


class ConnectionLimit:
    """Limits a server's connections without a key, per address and in total; used from its event loop.

    A connection counts from its start. One above the limits is on probation: it has `KEY_SECONDS` to send a valid key.
    So clients with a key are admitted while others exhaust the limit. Where the open files for such connections are
    exhausted, the connection longest on probation is closed. Behind a reverse proxy all clients have the proxy's
    address; requests with a key are not counted there either.
    """

    def __init__(
        self, files: int, *, max_connections: int = MAX_CONNECTIONS, max_per_address: int = MAX_PER_ADDRESS
    ) -> None:
        """`files` is the limit of open files of the process."""
        self._room = max(2, files // FILES_SHARE)
        self._max_connections, self._max_per_address = min(max_connections, self._room // 2), max_per_address
        self._admitted: dict[HttpProtocol, str] = {}
        self._per_address: Counter[str] = Counter()
        self._on_probation: dict[HttpProtocol, None] = {}  # in order of arrival
        self._logged = -_LOG_SECONDS

    def __len__(self) -> int:
        return len(self._admitted) + len(self._on_probation)

    def admit(self, connection: HttpProtocol, address: str) -> bool:
        """Counts a new connection, or one whose request has no valid key; True within the limits."""
        if connection in self._admitted:
            return True
        if len(self._admitted) < self._max_connections and self._per_address[address] < self._max_per_address:
            self._on_probation.pop(connection, None)
            self._admitted[connection] = address
            self._per_address[address] += 1
            return True
        if connection not in self._on_probation:
            self._log(address)
            while self._on_probation and len(self) >= self._room:
                oldest = next(iter(self._on_probation))
                del self._on_probation[oldest]
                oldest.refuse()
            self._on_probation[connection] = None
        return False

    def release(self, connection: HttpProtocol) -> None:
        """Stops counting a connection that sent a valid key or is closed."""
        self._on_probation.pop(connection, None)
        address = self._admitted.pop(connection, None)
        if address is not None:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    def on_probation(self, connection: HttpProtocol) -> bool:
        """True for a connection above the limits."""
        return connection in self._on_probation

    def message(self) -> str:
        """Error message for a connection above the limits."""
        return (
            f"too many connections without a valid API key (limit: {self._max_per_address} per address, "
            f"{self._max_connections} in total): send the header `Authorization: Bearer KEY`, or retry later"
        )

    def _log(self, address: str) -> None:
        now = time.monotonic()
        if now - self._logged >= _LOG_SECONDS:
            self._logged = now
            log.warning(
                "%d connections without a valid API key, %d of them from %s: refusing further ones without a key",
                len(self),
                self._per_address[address],
                address or "an unknown address",
            )


HEADER_SECONDS = 15.0
"""Time limit from the connection's start, or a request's first byte, to the end of the headers."""
HEADER_BYTES = 32 * 1024
"""Maximum bytes of a request's line and headers; larger ones get 400."""
KEEP_ALIVE_SECONDS = 15
"""Idle time after which a connection is closed."""

HALF_CLOSED_SECONDS = 5.0
"""Time in which the answer must begin where a client ended its sending side: it waits for it, or has gone."""

READ_BYTES = 4096
"""Bytes of a WebSocket that are read in one go."""
MOST_UNTAKEN, UNTAKEN_SECONDS = 1000, 10.0
"""Most frames within this time that the application does not take."""

PRIVATE_PARTS: Mapping[type, tuple[str, ...]] = {
    H11Protocol: (
        "client", "conn", "cycle", "loop", "on_response_complete", "send_400_response", "timeout_keep_alive_task",
        "transport",
    ),
    RequestResponseCycle: ("disconnected", "more_body", "response_complete", "response_started"),
    WebSocketsSansIOProtocol: (
        "app_state", "close_sent", "conn", "curr_msg_data_type", "frames", "handle_events", "handle_parser_exception",
        "handshake_complete", "loop", "send", "send_receive_event_to_app", "transport",
    ),
    ServerProtocol: ("events",),
    ProxyHeadersMiddleware: ("trusted_hosts",),
}  # fmt: skip
"""Parts of uvicorn's and websockets' classes that this module uses or replaces, and these do not document."""


class HttpProtocol(H11Protocol):
    """Adds to uvicorn's protocol a time limit for headers and an error envelope for invalid HTTP.

    Each request's state has its connection, which `limit` counts while it has sent no valid key.
    """

    _header_timer: asyncio.TimerHandle | None = None
    _half_closed = False

    def __init__(self, limit: ConnectionLimit, *, app_state: dict[str, Any], **uvicorns: Any) -> None:
        super().__init__(app_state={**app_state, CONNECTION: self}, **uvicorns)
        self._limit = limit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the header timer."""
        super().connection_made(transport)
        self._time_headers()
        if self.refuse_keyless() is not None:
            self.loop.call_later(KEY_SECONDS, self._end_probation)

    def data_received(self, data: bytes) -> None:
        """Stops the header timer once the headers are complete, restarts it for the next request."""
        super().data_received(data)
        self._time_headers()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keeps the connection for the answer, as `nc -N` and some proxies expect; TLS has no such half."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        waits = cycle is not None and not cycle.more_body and not cycle.response_started
        self._half_closed = waits and self.transport.get_extra_info("sslcontext") is None
        if self._half_closed:
            self.loop.call_later(HALF_CLOSED_SECONDS, self._end_half_closed)
        return self._half_closed

    def on_response_complete(self) -> None:
        """Closes a connection whose client sends no more, once all its requests are answered."""
        super().on_response_complete()
        if self._half_closed and self.cycle.response_complete:
            self.transport.close()

    def _end_half_closed(self) -> None:
        if not self.cycle.response_started:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the header timer."""
        self._stop_timer()
        self._limit.release(self)
        super().connection_lost(exc)

    def admit_keyed(self) -> None:
        """Its request has a valid key: it is not counted until a request without one."""
        self._limit.release(self)

    def refuse_keyless(self) -> str | None:
        """It is new, or its request has no valid key: reason for refusing it; None within the limit."""
        admitted = self._limit.admit(self, self.client[0] if self.client else "")
        return None if admitted else self._limit.message()

    def refuse(self) -> None:
        """Closes the connection; sends the error first, unless an earlier request was answered."""
        answered = cast("object | None", self.cycle) is not None  # uvicorn has none before the first request
        if not answered and self.conn.our_state is h11.IDLE:
            self._send_error(503, "Service Unavailable", self._limit.message(), "server_error", "unavailable")
        self.transport.close()

    def _end_probation(self) -> None:
        """Refuses a connection that sent no key in time; a request in progress was admitted."""
        if self.conn.their_state is h11.IDLE and self._limit.on_probation(self):
            self.refuse()

    def send_400_response(self, msg: str) -> None:
        """Sends the error envelope for invalid HTTP and closes the connection."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        if cast("object | None", self.cycle) is not None:
            self.cycle.disconnected = True  # what the application answers to the part that was valid is dropped
        message = f"{msg} Expected HTTP/1.1 with at most {HEADER_BYTES // 1024} KiB of headers."
        self._send_error(400, "Bad Request", message, "invalid_request_error", "invalid_request")

    def _send_error(self, status: int, phrase: str, message: str, kind: str, code: str) -> None:
        """Sends an error envelope without the application and closes the connection."""
        error = {"message": message, "type": kind, "param": None, "code": code}
        body = json.dumps({"error": error}).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=phrase.encode()),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _time_headers(self) -> None:
        waiting = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        idle = self.timeout_keep_alive_task is not None  # the keep-alive timer runs between requests
        if not waiting or idle:
            self._stop_timer()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol of a WebSocket, which takes over a connection: it no longer counts once it is lost.

    uvicorn reads no further while the application has messages to take. What that never takes (pings, pongs, fragments,
    all after the end) is counted, and ends the connection where it is too much. Little is read in one go, so that no
    client holds up the others.
    """

    _untaken, _since = 0, 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Has the transport read little at a time, where it is one of plain TCP."""
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES

    def data_received(self, data: bytes) -> None:
        """Handles what has come, until the connection is closed."""
        for at in range(0, len(data), READ_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[at : at + READ_BYTES])

    def handle_events(self) -> None:
        """Handles frames; too many that the application does not take end the connection."""
        if (now := self.loop.time()) - self._since > UNTAKEN_SECONDS:
            self._untaken, self._since = 0, now
        self._untaken += sum(self.close_sent or _is_untaken(each) for each in self.conn.events)
        if self._untaken <= MOST_UNTAKEN:
            super().handle_events()
            return
        if not self.close_sent:
            self.conn.fail(1008, f"more than {MOST_UNTAKEN} pings or fragments in {UNTAKEN_SECONDS:g} s")
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()

    def send_receive_event_to_app(self) -> None:
        """Passes a message on; text that is no UTF-8 ends the connection, which uvicorn would log as an error."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                log.info("a WebSocket sent text that is not UTF-8 and is closed")
                self.conn.send_close(1007, "text that is not UTF-8")
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    async def send(self, message: Any) -> None:
        """Sends a message; a response in place of the WebSocket is complete, which uvicorn would log as an error."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the HTTP protocol, which is not told any more."""
        self.app_state[CONNECTION].admit_keyed()
        super().connection_lost(exc)


def _is_untaken(event: object) -> bool:
    """True for a frame that becomes no message of its own."""
    return isinstance(event, Frame) and (event.opcode in (Opcode.PING, Opcode.PONG) or not event.fin)


PREFIX = "prefix"
"""Key in a request's state: the path below which its client sees the service, "" for none."""
_PREFIX = re.compile(PATH_PREFIX)
_LONGEST_PREFIX = 200


class Forwarded(ProxyHeadersMiddleware):
    """Outermost middleware of the server: believes `X-Forwarded-*` of the hosts in FORWARDED_ALLOW_IPS alone.

    Without the variable that is this machine. `root_path` is the prefix where none is believed.
    """

    def __init__(self, app: ASGIApp, root_path: str = "") -> None:
        super().__init__(app, os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1"))  # type: ignore[arg-type]
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # type: ignore[override]
        """Handles one request, or the application's lifespan."""
        if scope["type"] != "lifespan":
            address, prefix = scope.get("client"), self._root_path
            if address is not None and address[0] in self.trusted_hosts:
                given = Headers(scope=scope).get("x-forwarded-prefix", "").strip().rstrip("/")
                prefix = given if len(given) <= _LONGEST_PREFIX and _PREFIX.fullmatch(given) else prefix
            scope.setdefault("state", {})[PREFIX] = prefix
        await super().__call__(scope, receive, send)  # type: ignore[arg-type]


def prefix_of(scope: Scope) -> str:
    """The path below which the client of a request sees the service; "" for none."""
    return str(scope.get("state", {}).get(PREFIX, ""))
