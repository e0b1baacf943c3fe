"""HTTP/1.1 as the service speaks it: uvicorn's own protocol, which waits for slow clients, but not for ever."""

from __future__ import annotations

import asyncio
import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 15.0
"""How long a client may take from its first byte, or from connecting, to the end of its headers."""
HEADER_BYTES = 32 * 1024
"""Most bytes of a request's line and headers; a client that sends more gets 400."""
KEEP_ALIVE_SECONDS = 15
"""How long an open connection may wait for its next request."""


class Protocol(H11Protocol):
    """uvicorn sets no limit to the time that headers take, and answers what is no HTTP with plain text."""

    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The clock runs from the first moment."""
        super().connection_made(transport)
        self._time_headers()

    def data_received(self, data: bytes) -> None:
        """It runs until the headers are there, and again when others begin."""
        super().data_received(data)
        self._time_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """It stops."""
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets the error envelope too, and the connection's end."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        message = f"{msg} Expected HTTP/1.1 with at most {HEADER_BYTES // 1024} KiB of headers."
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_request"}
        body = json.dumps({"error": error}).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
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
