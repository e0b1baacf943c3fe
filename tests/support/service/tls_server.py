"""A small server on loopback that answers 200 with a page, in plain HTTP or TLS, and counts what it was asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = b"voxyard_up 1.0\n"


@dataclass
class RunningServer:
    """Its port, and the paths that it was asked for."""

    port: int
    asked: list[str] = field(default_factory=list)


@contextmanager
def running_server(certificate: Path | None, port: int = 0) -> Iterator[RunningServer]:
    """Answers until the block ends, on a free port unless given; beside the certificate lies its key, suffix .key."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(PAGE)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Handshakes that fail are no news."""

    server = Server(("127.0.0.1", port), Answers)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, f"{certificate}.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield RunningServer(int(server.server_address[1]), asked)
    finally:
        server.shutdown()
        server.server_close()
