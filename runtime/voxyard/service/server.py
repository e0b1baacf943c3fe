"""HTTP server: uvicorn on a socket opened beforehand, with graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import gc
import itertools
import logging
import math
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, cast

import uvicorn
from starlette.types import ASGIApp

from voxyard.host.signal_handlers import handling
from voxyard.service.config import ServiceSection
from voxyard.service.errors import ServiceError
from voxyard.service.http.admission import is_loopback, largest_text
from voxyard.service.http.protocol import (
    HEADER_BYTES,
    KEEP_ALIVE_SECONDS,
    ConnectionLimit,
    Forwarded,
    HttpProtocol,
    SocketProtocol,
)
from voxyard.service.http.tls import EVENT_LOOP, Certificate, open_certificate

if TYPE_CHECKING:
    from voxyard.service.shutdown import GracefulShutdown

log = logging.getLogger("voxyard.service")

SWITCH_SECONDS = 0.001
"""Time after which a thread that computes lets another one go on; Python's own is five times as long."""
_BACKLOG = 512  # connections waiting to be accepted
_OPEN_FILES = 16_384
_POLL_SECONDS = 0.1  # between two checks during shutdown
_TICKS_PER_RENEWAL = 100  # of 0.1 s
_PROGRESS_LOG_SECONDS = 5.0  # between two log lines during shutdown
_LAST_REQUEST_SECONDS = 0.5  # for the first request of a connection that was accepted last
_IDLE_CLOSE_SECONDS = 1  # for idle connections


def serve(
    app: ASGIApp,
    section: ServiceSection,
    *,
    listener: socket.socket | None = None,
    announce: Callable[[str], None] = lambda _address: None,
    graceful_shutdown: GracefulShutdown | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Answers requests until SIGTERM, SIGINT or `stop`; returns the command's exit code.

    `announce` gets the address, such as `http://127.0.0.1:8080`, once the server answers there; with a certificate in
    the settings, it speaks HTTPS. On shutdown, `/readyz` answers 503 and all is accepted for
    `section.lame_duck_seconds`; then `graceful_shutdown` starts no new work. Chunks in progress may finish for
    `section.drain_seconds`, open requests for `section.stop_seconds` from that moment, after which they are cut;
    `/readyz` and `/metrics` answer until then. Then the listener closes. A second signal ends the server at once.
    `listener` is a socket from `listen`; without it the address is bound now. Outside the main thread no signal
    handlers are installed.

    Raises:
        ServiceError: as `listen` and `open_certificate` do.
    """
    with listener or listen(section) as bound:
        _allow_open_files()
        certificate = open_certificate(section)
        config = _config(Forwarded(app, section.root_path), section, certificate)
        server = _Server(config, section, bound, announce, graceful_shutdown, stop, certificate)
        try:
            with _sharing_the_interpreter():
                server.run(sockets=[bound])
        except SystemExit:  # the application's own start failed; uvicorn has logged why
            return 1
        return 0 if server.started else 1


def listen(section: ServiceSection) -> socket.socket:
    """Listening socket on the configured address, opened before anything expensive is loaded; requests wait for it.

    Raises:
        ServiceError: the address does not exist or is in use, or it is reachable from other hosts without API keys.
    """
    host, port = section.host, section.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ServiceError(
            f"cannot resolve the listen address {host} ({error.strerror}): expected an address of this machine, "
            "such as 127.0.0.1"
        ) from error
    family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    if section.keys is None and not is_loopback(str(address[0])):
        raise ServiceError(
            f"{host} is reachable from other hosts, and no API keys are configured: create one with "
            "`voxyard keys new NAME --file keys.yaml` and start with `--keys keys.yaml`, or use `--host 127.0.0.1`"
        )
    # IPPROTO_TCP given explicitly: asyncio sets TCP_NODELAY only on sockets that report it.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        bound.bind(address)
        bound.listen(_BACKLOG)  # a port in use is reported here at the latest
    except OSError as error:
        bound.close()
        raise ServiceError(_bind_error(host, port, error)) from error
    return bound


def _bind_error(host: str, port: int, error: OSError) -> str:
    reasons = {
        errno.EADDRINUSE: "the port is in use: stop the other process, or choose another `--port` (0 takes a free one)",
        errno.EADDRNOTAVAIL: "not an address of this machine: choose another `--host`",
        errno.EACCES: "this user may not bind a port below 1024: choose another `--port`",
    }
    return f"cannot listen on {host}:{port}: {reasons.get(error.errno or 0, error.strerror or str(error))}"


def _config(app: ASGIApp, section: ServiceSection, certificate: Certificate | None) -> uvicorn.Config:
    """uvicorn's configuration; http/body_limit.py limits bodies, http/protocol.py connections."""
    return uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", functools.partial(HttpProtocol, ConnectionLimit(_open_files()))),
        ws=SocketProtocol,
        ws_max_size=largest_text(section),
        ws_per_message_deflate=False,  # of no use for audio
        ws_ping_timeout=None,  # a client that reads as fast as it plays answers late: sending has a deadline of its own
        loop="asyncio" if certificate is None else EVENT_LOOP,
        ssl_context_factory=None if certificate is None else lambda _config, _default: certificate.context,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # Forwarded does it, with the prefix
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


class _Server(uvicorn.Server):
    """uvicorn's server with our signal handling, shutdown and log lines."""

    def __init__(
        self,
        config: uvicorn.Config,
        section: ServiceSection,
        bound: socket.socket,
        announce: Callable[[str], None],
        graceful_shutdown: GracefulShutdown | None,
        stop: threading.Event | None,
        certificate: Certificate | None,
    ) -> None:
        super().__init__(config)
        self._section, self._bound, self._announce, self._stop = section, bound, announce, stop
        self._certificate = certificate
        self._graceful_shutdown = graceful_shutdown

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles the signals while the server runs; uvicorn would raise them again afterwards."""
        with handling(self.handle_exit):
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal shuts down gracefully, the second at once (in uvicorn only SIGINT does)."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the server and announces its address."""
        await super().startup(sockets)
        if self.started:
            self._announce(_address(self._bound, "http" if self._certificate is None else "https"))
            if self._stop is not None or self._certificate is not None:
                self._watching = asyncio.create_task(self._watch(self._stop, self._certificate))

    async def _watch(self, stop: threading.Event | None, certificate: Certificate | None) -> None:
        """Checks `stop`, ten times a second, and now and then whether the certificate was renewed."""
        for tick in itertools.count():
            if stop is not None and stop.is_set():
                self.should_exit = True
            if certificate is not None and tick % _TICKS_PER_RENEWAL == 0:
                certificate.renew()
            await asyncio.sleep(_POLL_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Waits for work in progress, then closes the listener and the connections."""
        await self._notify_gateway()
        began = time.monotonic()
        await self._finish(began)
        await self._stop_listening()
        left = began + self._section.stop_seconds - time.monotonic()
        closing = 0 if self.server_state.tasks else _IDLE_CLOSE_SECONDS
        self.config.timeout_graceful_shutdown = max(closing, math.ceil(left))
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn skips the application's shutdown event then
            await self.lifespan.shutdown()
            log.warning("second signal: stopping without waiting for work in progress")
            if self._graceful_shutdown is not None:
                self._graceful_shutdown.forced = True
        log.info("stopped")

    async def _stop_listening(self) -> None:
        """Closes the listener; connections that were accepted may send a request that is under way."""
        if self.force_exit:
            return
        for _ in range(2):  # the first accepts what waits in the kernel, which a closed listener would reset
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        await asyncio.sleep(_LAST_REQUEST_SECONDS)

    async def _notify_gateway(self) -> None:
        """Serves on as a service that is not ready, until a gateway has noticed."""
        seconds, graceful_shutdown = self._section.lame_duck_seconds, self._graceful_shutdown
        if graceful_shutdown is None or not seconds:
            return
        log.info("stopping in %.0f s: not ready any more, requests are still accepted", seconds)
        graceful_shutdown.announce()
        end, tick = time.monotonic() + seconds, 0
        while not self.force_exit and time.monotonic() < end:
            await asyncio.sleep(_POLL_SECONDS)
            tick += 1
            await self.on_tick(tick)

    async def _finish(self, began: float) -> None:
        """Serves until the work is drained and no request is open, or until their time limits."""
        section, graceful_shutdown = self._section, self._graceful_shutdown
        log.info(
            "stopping: %.0f s for chunks in progress, %.0f s for open requests; a second signal stops at once",
            section.drain_seconds,
            section.stop_seconds,
        )
        if graceful_shutdown is not None:
            graceful_shutdown.drain()
        tick, seconds, logged_at = 0, 0.0, -math.inf
        while not self.force_exit and (pending := self._pending(seconds)):
            if graceful_shutdown is not None and graceful_shutdown.drained:
                graceful_shutdown.end_streams()
            if seconds - logged_at >= _PROGRESS_LOG_SECONDS and any(pending):
                logged_at = seconds
                log.info("stopping: after %.0f s waiting for %s", seconds, ", ".join(filter(None, pending)))
            await asyncio.sleep(_POLL_SECONDS)
            tick += 1
            await self.on_tick(tick)
            seconds = time.monotonic() - began
        if graceful_shutdown is None or self.force_exit:
            return
        if graceful_shutdown.drained:
            log.info("stopping: all chunks in progress finished after %.1f s", seconds)
        else:
            unfinished = graceful_shutdown.describe_pending() or "the chunks in progress"
            log.warning("stopping: the time limit is over for %s; the next start synthesizes them again", unfinished)

    def _pending(self, seconds: float) -> list[str]:
        """Descriptions of the work that shutdown waits for after `seconds`; one that is not known yet is empty."""
        found, requests, work = [], len(self.server_state.tasks), self._graceful_shutdown
        if work is not None and not work.drained and seconds < self._section.drain_seconds:
            found.append(work.describe_pending())
        if requests and seconds < self._section.stop_seconds:
            found.append(f"{requests} open {'request' if requests == 1 else 'requests'}")
        return found


def _address(bound: socket.socket, scheme: str) -> str:
    host, port = bound.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _open_files() -> int:
    """Limit of open files (RLIMIT_NOFILE) of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _OPEN_FILES if soft == resource.RLIM_INFINITY else soft


@contextlib.contextmanager
def _sharing_the_interpreter() -> Iterator[None]:
    """Has the event loop wait a millisecond at most for a thread that computes, as for one that prepares a book.

    What has been imported is left out of the collections of garbage, during which nothing else runs.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _allow_open_files() -> None:
    """Raises the soft limit of open files: each connection is one, and the usual limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
