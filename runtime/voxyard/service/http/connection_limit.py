"""Connection limit: connections without a valid API key are counted separately from those with one."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Protocol

MAX_CONNECTIONS = 1024
MAX_PER_ADDRESS = 256
FILES_SHARE = 4
"""Connections without a key use at most this fraction (1/4) of the process's open files."""
KEY_SECONDS = 2.0
"""Time in which a connection above the limit must send a valid key."""
CONNECTION = "connection"
"""Key of the request's `Connection` in its state."""
_LOG_SECONDS = 60.0

log = logging.getLogger("voxyard.service")


class Connection(Protocol):
    """Connection interface of the admission middleware."""

    def admit_keyed(self) -> None:
        """Its request has a valid key: it is not counted until a request without one."""

    def refuse_keyless(self) -> str | None:
        """Its request has no valid key: reason for refusing it; None within the limit."""


class KeylessConnection(Protocol):
    """Connection interface of the limit."""

    def refuse(self) -> None:
        """Sends 503 and closes the connection."""


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
        self._admitted: dict[KeylessConnection, str] = {}
        self._per_address: Counter[str] = Counter()
        self._on_probation: dict[KeylessConnection, None] = {}  # in order of arrival
        self._logged = -_LOG_SECONDS

    def __len__(self) -> int:
        return len(self._admitted) + len(self._on_probation)

    def admit(self, connection: KeylessConnection, address: str) -> bool:
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

    def release(self, connection: KeylessConnection) -> None:
        """Stops counting a connection that sent a valid key or is closed."""
        self._on_probation.pop(connection, None)
        address = self._admitted.pop(connection, None)
        if address is not None:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    def on_probation(self, connection: KeylessConnection) -> bool:
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
