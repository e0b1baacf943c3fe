"""Receiver of webhooks on loopback, which keeps what was delivered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Numbers of deliveries by the path that each was sent to."""

    def __init__(self) -> None:
        self.deliveries: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                with receiver._lock:
                    receiver.deliveries.setdefault(self.path[1:], []).append(self.headers["X-Voxyard-Delivery"])
                self.send_response(204)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def port(self) -> int:
        """Port that it listens on."""
        return self.server.server_port

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Receiver]:
        """One that answers until the block ends."""
        made = cls()
        threading.Thread(target=made.server.serve_forever, daemon=True).start()
        try:
            yield made
        finally:
            made.server.shutdown()
            made.server.server_close()
