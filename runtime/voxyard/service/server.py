"""The server: uvicorn on a socket of ours, from the first request to a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import math
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, cast

import uvicorn
from starlette.types import ASGIApp

from voxyard.service.config import ServiceSection
from voxyard.service.errors import ServiceError
from voxyard.service.http.admission import is_loopback
from voxyard.service.http.connection_limit import ConnectionLimit
from voxyard.service.http.protocol import HEADER_BYTES, KEEP_ALIVE_SECONDS, Protocol

if TYPE_CHECKING:
    from voxyard.service.shutdown import Work

log = logging.getLogger("voxyard.service")

_BACKLOG = 512  # connections that wait to be taken
_OPEN_FILES = 16_384
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LOOK_SECONDS = 0.1  # between two looks whether it can end
_TELL_SECONDS = 5.0  # between two lines that say what is waited for
_CLOSING_SECONDS = 1  # for connections on which nothing is asked


def serve(
    app: ASGIApp,
    section: ServiceSection,
    on_stop: Callable[[], None],
    *,
    listener: socket.socket | None = None,
    announce: Callable[[str], None] = lambda _address: None,
    work: Work | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Answers requests until SIGTERM or SIGINT comes, or `stop` is set; the command's exit code.

    `announce` gets the address, as `http://127.0.0.1:8080`, once it answers there. At the end: `work` begins nothing
    more; for `section.drain_seconds` it may finish what is in hand, and for `section.stop_seconds`, counted from the
    same moment, open requests may be answered, which are cut after that; until then `/readyz` and `/metrics` answer.
    Then no new connections, and in every case `on_stop`. A second signal does not wait. `listener` is what `listen`
    returned; without it the address is taken now. Outside the main thread no signals are listened to.

    Raises:
        ServiceError: as `listen` does.
    """
    try:
        with listener or listen(section) as taken:
            _allow_open_files()
            server = _Server(_config(app), section, taken, announce, work, stop or threading.Event())
            try:
                server.run(sockets=[taken])
            except SystemExit:  # the application's own start failed; uvicorn has logged why
                return 1
            return 0 if server.started else 1
    finally:
        on_stop()


def listen(section: ServiceSection) -> socket.socket:
    """Listening socket on the configured address, before anything expensive is loaded; requests wait until then.

    Raises:
        ServiceError: the address is not there or taken, or others could reach it and no API keys are asked for.
    """
    host, port = section.host, section.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ServiceError(
            f"{host} is no address to listen on ({error.strerror}): expected one of this machine's, as 127.0.0.1"
        ) from error
    family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    if section.keys is None and not is_loopback(str(address[0])):
        raise ServiceError(
            f"on {host} others could reach this service, and it asks for no API key: make one with "
            "`voxyard keys new NAME --file keys.yaml` and start with `--keys keys.yaml`, or use `--host 127.0.0.1`"
        )
    # The protocol by name: asyncio turns Nagle's delay off for connections that say they are TCP, and for no others.
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        taken.bind(address)
        taken.listen(_BACKLOG)  # only now does a port that somebody else listens on show itself for certain
    except OSError as error:
        taken.close()
        raise ServiceError(_why_not(host, port, error)) from error
    return taken


def _why_not(host: str, port: int, error: OSError) -> str:
    reasons = {
        errno.EADDRINUSE: "something listens there already: end it, or choose another `--port` (0 takes a free one)",
        errno.EADDRNOTAVAIL: "it is no address of this machine: choose another `--host`",
        errno.EACCES: "this user may not take a port below 1024: choose another `--port`",
    }
    return f"cannot listen on {host}:{port}: {reasons.get(error.errno or 0, error.strerror or str(error))}"


def _config(app: ASGIApp) -> uvicorn.Config:
    """Bodies have their limits in body.py, connections in protocol.py."""
    return uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", functools.partial(Protocol, ConnectionLimit(_open_files()))),
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


class _Server(uvicorn.Server):
    """uvicorn's server, with our signals and our words."""

    def __init__(
        self,
        config: uvicorn.Config,
        section: ServiceSection,
        taken: socket.socket,
        announce: Callable[[str], None],
        work: Work | None,
        stop: threading.Event,
    ) -> None:
        super().__init__(config)
        self._section, self._taken, self._announce, self._stop = section, taken, announce, stop
        self._work = work

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals shut the server down gracefully, and are not raised again once it has ended."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal shuts down gracefully, the second at once; uvicorn takes only SIGINT for that."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Says where it answers."""
        await super().startup(sockets)
        if self.started:
            self._announce(_address(self._taken))

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if self._stop.is_set():
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Waits for open work, and then accepts no new connections."""
        began = time.monotonic()
        await self._finish(began)
        left = began + self._section.stop_seconds - time.monotonic()
        closing = 0 if self.server_state.tasks else _CLOSING_SECONDS
        self.config.timeout_graceful_shutdown = max(closing, math.ceil(left))
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn leaves the application in the dark then
            await self.lifespan.shutdown()
            log.warning("a second signal: what was in hand is not waited for")
            if self._work is not None:
                self._work.cut = True
        log.info("stopped")

    async def _finish(self, began: float) -> None:
        """Answers go on until the work is drained and no request is open, each for as long as it may take."""
        section, work = self._section, self._work
        log.info(
            "stopping: chunks in work have %.0f s, open requests %.0f s; a second signal ends at once",
            section.drain_seconds,
            section.stop_seconds,
        )
        if work is not None:
            work.drain()
        tick, seconds, told = 0, 0.0, -math.inf
        while not self.force_exit and (awaited := self._awaited(seconds)):
            if seconds - told >= _TELL_SECONDS and (said := ", ".join(filter(None, awaited))):
                told = seconds
                log.info("stopping: after %.0f s waiting for %s", seconds, said)
            await asyncio.sleep(_LOOK_SECONDS)
            tick += 1
            await self.on_tick(tick)
            seconds = time.monotonic() - began
        if work is None or self.force_exit:
            return
        if work.drained:
            log.info("stopping: the workers have handed in what they had, after %.1f s", seconds)
        else:
            said = work.awaited() or "what the workers have"
            log.warning("stopping: time is over for %s; it is spoken again at the next start", said)

    def _awaited(self, seconds: float) -> list[str]:
        """Work that is still waited for so long after the beginning, in words, which may be missing still."""
        found, requests = [], len(self.server_state.tasks)
        if self._work is not None and not self._work.drained and seconds < self._section.drain_seconds:
            found.append(self._work.awaited())
        if requests and seconds < self._section.stop_seconds:
            found.append(f"{requests} open {'request' if requests == 1 else 'requests'}")
        return found


def _address(taken: socket.socket) -> str:
    host, port = taken.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _open_files() -> int:
    """Limit of open files of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _OPEN_FILES if soft == resource.RLIM_INFINITY else soft


def _allow_open_files() -> None:
    """A connection is an open file, and systems allow a thousand unless asked."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
