"""Connection limit: connections whose requests show no valid API key are counted apart from those with one."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Protocol

MAX_CONNECTIONS = 1024
MAX_PER_ADDRESS = 256
FILES_SHARE = 4
"""All connections without a key together take at most one in so many of the files that the process may open."""
KEY_SECONDS = 2.0
"""Time in which a connection above the limit has to show a valid key."""
CONNECTION = "connection"
"""Name in a request's state of its connection, a `Connection`."""
_LOG_SECONDS = 60.0

log = logging.getLogger("voxyard.service")


class Connection(Protocol):
    """A connection as the admission middleware sees it."""

    def shown_key(self) -> None:
        """Its request has a valid key: it is not counted until it sends one without."""

    def shown_none(self) -> str | None:
        """Its request has no valid key: the reason for its refusal; None where it is within the limit."""


class KeylessConnection(Protocol):
    """A connection without a valid key, as it is counted."""

    def refuse(self) -> None:
        """Answer 503 and close it."""


class ConnectionLimit:
    """The connections without a key of one server, used from its event loop.

    A connection counts from its beginning. Within the limits, per address and in all, it may take its time. One above
    them is on probation: it may only show a key, for which it has `KEY_SECONDS`. So a client with a key gets in while
    others hold all places. Where all files of such connections are in use, the one longest on probation is closed.
    Behind a reverse proxy all clients have one address, the proxy's; requests with a key are not counted there either.
    """

    def __init__(
        self, files: int, *, max_connections: int = MAX_CONNECTIONS, max_per_address: int = MAX_PER_ADDRESS
    ) -> None:
        """`files` is the process's limit of open files."""
        self._room = max(2, files // FILES_SHARE)
        self._max_connections, self._max_per_address = min(max_connections, self._room // 2), max_per_address
        self._admitted: dict[KeylessConnection, str] = {}
        self._per_address: Counter[str] = Counter()
        self._on_probation: dict[KeylessConnection, None] = {}  # in the order they came
        self._logged = -_LOG_SECONDS

    def __len__(self) -> int:
        return len(self._admitted) + len(self._on_probation)

    def admit(self, connection: KeylessConnection, address: str) -> bool:
        """Count a connection that begins, or whose request has no valid key; True where it is within the limits."""
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
        """Count it no more: it has shown a valid key, or is closed."""
        self._on_probation.pop(connection, None)
        address = self._admitted.pop(connection, None)
        if address is not None:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    def on_probation(self, connection: KeylessConnection) -> bool:
        """True where it is above the limits."""
        return connection in self._on_probation

    def message(self) -> str:
        """Reason that a connection above the limits is told."""
        return (
            f"too many connections are open that have shown no valid API key (at most {self._max_per_address} of one "
            f"address, {self._max_connections} in all): send the header `Authorization: Bearer KEY`, or try again soon"
        )

    def _log(self, address: str) -> None:
        now = time.monotonic()
        if now - self._logged >= _LOG_SECONDS:
            self._logged = now
            log.warning(
                "%d connections are open that have shown no valid key, %d of them of %s: further ones are refused "
                "unless they show one at once",
                len(self),
                self._per_address[address],
                address or "an unknown address",
            )
