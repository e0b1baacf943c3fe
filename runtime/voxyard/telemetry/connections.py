"""Connections of the metrics' server: a deadline for each, and places that clients who send nothing do not keep."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

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
