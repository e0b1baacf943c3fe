"""Serves a registry's metrics over HTTP, in a thread of its own."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server

from voxyard.telemetry.errors import TelemetryError


class MetricsServer:
    """A running server; `close` stops it and frees its port."""

    def __init__(self, server: WSGIServer, thread: threading.Thread) -> None:
        self._server, self._thread = server, thread
        self.port: int = server.server_port

    def close(self) -> None:
        """Stops serving; a second call does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve(registry: CollectorRegistry, host: str, port: int) -> MetricsServer:
    """Answers `GET /metrics` on host:port until closed.

    Raises TelemetryError where the address cannot be listened on.
    """
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except (OSError, OverflowError) as error:
        raise TelemetryError(
            f"metrics cannot be served on {host}:{port} ({error}): choose another --metrics-port "
            "(0 is off), or another --metrics-host"
        ) from error
    return MetricsServer(server, thread)
