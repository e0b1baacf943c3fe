"""Serves metrics and health over HTTP or HTTPS, in threads of its own."""

from __future__ import annotations

import base64
import binascii
import contextlib
import logging
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from voxyard.telemetry.errors import TelemetryError
from voxyard.telemetry.exposition import readable_accept
from voxyard.telemetry.web_config import BasicAuth, WebConfig

REQUEST_SECONDS = 15.0
"""Time of a connection, from its first byte to the last one of its answer."""
MOST_CLIENTS = 64
MOST_OF_ADDRESS = 16


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    address: str
    end: float
    answered: bool = False  # its request has come


class Connections:
    """Open connections by their sockets. May be used from several threads.

    Where all places are taken, those of an address or those of all, the oldest connection whose request has not come
    gives way: a reader sends its request at once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[socket.socket, _Connection] = {}  # in order of arrival

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, request: socket.socket, address: str) -> bool:
        """Takes a place for a new connection; False where there is none."""
        with self._lock:
            by_address = Counter(each.address for each in self._open.values())
            if by_address[address] >= MOST_OF_ADDRESS and not self._make_room(address):
                return False
            if len(self._open) >= MOST_CLIENTS and not self._make_room(by_address.most_common(1)[0][0]):
                return False
            self._open[request] = _Connection(request, address, self._clock() + REQUEST_SECONDS)
            return True

    def wrapped(self, request: socket.socket, tls: socket.socket) -> None:
        """Notes that a connection goes on in another socket."""
        with self._lock:
            found = self._open.pop(request, None)
            if found is None:  # it has given way
                _end(tls)
                return
            found.socket = tls
            self._open[tls] = found

    def answering(self, request: socket.socket) -> None:
        """Notes that a connection's request has come."""
        with self._lock:
            if found := self._open.get(request):
                found.answered = True

    def remove(self, request: socket.socket) -> None:
        """Frees the place of a connection that is closed."""
        with self._lock:
            self._open.pop(request, None)

    def end_overdue(self) -> None:
        """Ends the connections whose time is over."""
        with self._lock:
            now = self._clock()
            for each in [each for each in self._open.values() if each.end <= now]:
                self._end(each)

    def _make_room(self, address: str) -> bool:
        silent = (each for each in self._open.values() if each.address == address and not each.answered)
        oldest = min(silent, key=lambda each: each.end, default=None)
        if oldest is not None:
            self._end(oldest)
        return oldest is not None

    def _end(self, connection: _Connection) -> None:
        del self._open[connection.socket]
        _end(connection.socket)


def _end(request: socket.socket) -> None:
    """Has the thread that reads or writes see the connection's end."""
    with contextlib.suppress(OSError):  # it is closed
        socket.socket.shutdown(request, socket.SHUT_RDWR)  # that of a TLS socket would take its session from the thread


log = logging.getLogger("voxyard.telemetry")

CLIENT_SECONDS = 10.0
"""Time after which the connection of a silent client is closed."""

Health = Callable[[], tuple[bool, str]]
"""Health: True where it is healthy, and one line about it."""
Respond = Callable[..., Any]


class MetricsServer:
    """A running server; `close` stops it and frees its port."""

    def __init__(self, server: _Server, readers: _Readers) -> None:
        self._server, self._readers = server, readers
        self._thread = threading.Thread(target=server.serve_forever, name="voxyard-metrics", daemon=True)
        self._thread.start()
        self.port: int = server.server_port

    def wait_for_reader(self, most: float) -> None:
        """Waits until the metrics are read once more, where they are scraped regularly; at most so many seconds.

        What was set last is seen this way. A reader that is late by more than its interval is not waited for.
        """
        self._readers.wait(most)

    def close(self) -> None:
        """Stops serving; a second call does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    registry: CollectorRegistry,
    host: str,
    port: int,
    *,
    flags: str = "--metrics-",
    web: WebConfig | None = None,
    health: Health | None = None,
    ready: Health | None = None,
) -> MetricsServer:
    """Answers GET and HEAD of `/metrics`, `/healthz` and `/readyz` on host:port until closed; port 0 takes a free one.

    The two health pages need no password: they tell nothing but a state. Raises TelemetryError where the address
    cannot be listened on, or a certificate not be used; it names the flags (`flags` and
    port or host) that are the way out.
    """
    web = web or WebConfig()
    readers = _Readers()
    application = _Application(registry, web, health, ready, readers)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        server = _Server((host, port), family, web)
    except (OSError, OverflowError) as error:
        raise TelemetryError(
            f"metrics cannot be served on {host}:{port} ({error}): choose another {flags}port "
            f"(0 is {'off' if flags == '--metrics-' else 'any free one'}), or another {flags}host"
        ) from error
    server.set_app(application)
    return MetricsServer(server, readers)


class _Readers:
    """Times at which the metrics were read."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._times: deque[float] = deque(maxlen=2)

    def note(self) -> None:
        """Records a read of the metrics."""
        with self._changed:
            self._times.append(time.monotonic())
            self._changed.notify_all()

    def wait(self, most: float) -> None:
        """Waits for the next read, where there were two before."""
        with self._changed:
            if len(self._times) < 2:
                return
            first, last = self._times
            patience = last + 2 * (last - first) - time.monotonic()
            self._changed.wait_for(lambda: self._times[-1] > last, timeout=max(0.0, min(most, patience)))


class _Application:
    """WSGI application: health pages, and metrics behind basic auth where it is configured."""

    def __init__(
        self,
        registry: CollectorRegistry,
        web: WebConfig,
        health: Health | None,
        ready: Health | None,
        readers: _Readers,
    ) -> None:
        self._metrics, self._readers = make_wsgi_app(registry), readers
        self._basic_auth = BasicAuth(web.users) if web.users else None
        self._headers = list(web.headers.items())
        self._states = {"/healthz": health or _well, "/readyz": ready or health or _well}

    def __call__(self, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "HEAD":
            return self._answer(environ, respond)
        started: list[tuple[str, list[tuple[str, str]]]] = []
        body = b"".join(self._answer(environ, lambda status, headers: started.append((status, headers))))
        ((status, headers),) = started
        respond(status, [*headers, ("Content-Length", str(len(body)))])
        return []

    def _answer(self, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return respond(status, [*headers, *self._headers], *more)

        path = environ.get("PATH_INFO", "")
        if path in self._states:
            well, line = self._states[path]()
            return _text(start, "200 OK" if well else "503 Service Unavailable", line)
        if self._basic_auth is not None and not self._admitted(self._basic_auth, environ.get("HTTP_AUTHORIZATION", "")):
            return _text(start, "401 Unauthorized", "a user and a password are needed", _CHALLENGE)
        if path == "/metrics":
            head = environ["REQUEST_METHOD"] == "HEAD"
            asked = environ | {"HTTP_ACCEPT": readable_accept(environ.get("HTTP_ACCEPT"))}
            pages: Iterable[bytes] = self._metrics(asked | {"REQUEST_METHOD": "GET"} if head else asked, start)
            if not head:  # it reads nothing
                self._readers.note()
            return pages
        if path == "/":
            return _text(start, "200 OK", "voxyard: /metrics /healthz /readyz")
        return _text(start, "404 Not Found", "there are /metrics, /healthz and /readyz")

    @staticmethod
    def _admitted(basic_auth: BasicAuth, header: str) -> bool:
        kind, _, credentials = header.partition(" ")
        if kind.lower() != "basic":
            return False
        try:
            name, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        return bool(colon) and basic_auth.accepts(name, password)


_CHALLENGE = ("WWW-Authenticate", 'Basic realm="voxyard", charset="UTF-8"')


def _well() -> tuple[bool, str]:
    return True, "ok"


def _text(start: Respond, status: str, line: str, *headers: tuple[str, str]) -> Iterable[bytes]:
    body = (line + "\n").encode()
    start(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
    return [body]


class _Server(ThreadingMixIn, WSGIServer):
    """A thread a connection, within the limits of `connections`; TLS handshakes happen in those threads."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], family: int, web: WebConfig) -> None:
        self.address_family = socket.AddressFamily(family)
        self._web = web
        self._context = web.context()
        self._certificate_age = self._age()
        self.connections = Connections()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Binds without the reverse name lookup of the standard library."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def service_actions(self) -> None:
        """Ends what takes too long; called twice a second."""
        self.connections.end_overdue()

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for this connection, or its end where there are too many."""
        if self.connections.admit(request, client_address[0]):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, from its TLS handshake to its end."""
        try:
            request.settimeout(CLIENT_SECONDS)
            if self._context is not None:
                self._renew_certificate()
                plain = request
                request = self._context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
                self.connections.wrapped(plain, request)
                request.do_handshake()
            super().process_request_thread(request, client_address)
        except OSError as error:  # ssl.SSLError is one: a handshake with somebody who speaks something else
            log.debug("%s: %s", client_address[0], error)
            self.shutdown_request(request)
        finally:
            self.connections.remove(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnected; logs any other error with its traceback."""
        error = sys.exception()
        log.log(
            logging.DEBUG if isinstance(error, OSError) else logging.ERROR,
            "a request from %s ended early",
            client_address[0],
            exc_info=error,
        )

    def _renew_certificate(self) -> None:
        """Loads a certificate that was renewed on disk; a broken one does not replace the old one."""
        age = self._age()
        if age != self._certificate_age:
            try:
                self._context = self._web.context()
            except TelemetryError as error:
                log.warning("the old certificate stays in use: %s", error)
            self._certificate_age = age

    def _age(self) -> tuple[float, ...]:
        tls = self._web.tls
        files = [] if tls is None else [tls.cert_file, tls.key_file]
        return tuple(path.stat().st_mtime if path.exists() else 0.0 for path in files)


class _Handler(WSGIRequestHandler):
    """Logs no requests, and waits no longer than CLIENT_SECONDS for a line."""

    timeout = CLIENT_SECONDS
    server: _Server

    def parse_request(self) -> bool:
        """Reads the headers."""
        parsed = super().parse_request()
        self.server.connections.answering(self.connection)
        return parsed

    def log_message(self, *arguments: Any) -> None:
        """Requests are not logged: a scrape every second would fill a disk."""
