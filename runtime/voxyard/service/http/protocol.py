"""HTTP/1.1 protocol: uvicorn's own, with a timeout for slow headers and an error envelope for invalid requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from voxyard.service.http.connection_limit import CONNECTION, KEY_SECONDS, ConnectionLimit

HEADER_SECONDS = 15.0
"""Time limit from a client's first byte, or from connecting, to the end of its headers."""
HEADER_BYTES = 32 * 1024
"""Most bytes of a request's line and headers; a client that sends more gets 400."""
KEEP_ALIVE_SECONDS = 15
"""Time limit of an open connection for its next request."""


class Protocol(H11Protocol):
    """uvicorn sets no limit to the time that headers take, and answers what is no HTTP with plain text.

    Each request's state has its connection, which the `limit` counts while it has shown no valid key.
    """

    _header_timer: asyncio.TimerHandle | None = None

    def __init__(self, limit: ConnectionLimit, *, app_state: dict[str, Any], **uvicorns: Any) -> None:
        super().__init__(app_state={**app_state, CONNECTION: self}, **uvicorns)
        self._limit = limit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The clock runs from the first moment."""
        super().connection_made(transport)
        self._time_headers()
        if self.shown_none() is not None:
            self.loop.call_later(KEY_SECONDS, self._end_probation)

    def data_received(self, data: bytes) -> None:
        """It runs until the headers are there, and again when others begin."""
        super().data_received(data)
        self._time_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """It stops."""
        self._stop_timer()
        self._limit.release(self)
        super().connection_lost(exc)

    def shown_key(self) -> None:
        """Its request has a valid key: it is not counted until it sends one without."""
        self._limit.release(self)

    def shown_none(self) -> str | None:
        """It has begun, or its request has no valid key: the reason for refusing it; None within the limit."""
        admitted = self._limit.admit(self, self.client[0] if self.client else "")
        return None if admitted else self._limit.message()

    def refuse(self) -> None:
        """Refuses the connection: sends the error, unless it has been answered before, and closes it."""
        answered = cast("object | None", self.cycle) is not None  # uvicorn has none before the first request
        if not answered and self.conn.our_state is h11.IDLE:
            self._hang_up(503, "Service Unavailable", self._limit.message(), "server_error", "unavailable")
        self.transport.close()

    def _end_probation(self) -> None:
        """No key has come in time; a request that is being answered was let in."""
        if self.conn.their_state is h11.IDLE and self._limit.on_probation(self):
            self.refuse()

    def send_400_response(self, msg: str) -> None:
        """Error envelope for a request that is no HTTP; closes the connection."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        message = f"{msg} Expected HTTP/1.1 with at most {HEADER_BYTES // 1024} KiB of headers."
        self._hang_up(400, "Bad Request", message, "invalid_request_error", "invalid_request")

    def _hang_up(self, status: int, phrase: str, message: str, kind: str, code: str) -> None:
        """The error envelope without an application, and the connection's end."""
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
        idle = self.timeout_keep_alive_task is not None  # between two requests another clock runs
        if not waiting or idle:
            self._stop_timer()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
