"""Guests: connections without a valid key. They are counted apart from those that have one."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Protocol

MOST = 1024
MOST_OF_ADDRESS = 256
FILES_SHARE = 4
"""All guests together take at most one in so many of the files that the process may open."""
STANDING_SECONDS = 2.0
"""How long a guest without a seat has to show a valid key."""
CONNECTION = "connection"
"""Where a request's state has its connection, a `Caller`."""
_TELL_SECONDS = 60.0

log = logging.getLogger("voxyard.service")


class Caller(Protocol):
    """A connection in the admission middleware."""

    def shown_key(self) -> None:
        """Its request has a valid key: it is no guest, until it sends one that has none."""

    def shown_none(self) -> str | None:
        """Its request has no valid key: why there is no seat for it; None where there is one."""


class Guest(Protocol):
    """A connection without a valid key, as it is counted."""

    def refuse(self) -> None:
        """Answer that there is no place, and close it."""


class Guests:
    """The guests of one server, used from its event loop.

    A connection is a guest from its beginning. So many have a seat, in all and of one address, and may take their
    time; a guest beyond these stands: it may only show a key, for which it has `STANDING_SECONDS`. So whoever has a
    key comes in while the seats are taken. Where all files that guests may have are taken, who has stood longest goes.
    Behind a reverse proxy all clients have one address, the proxy's; requests with a key are not counted there either.
    """

    def __init__(self, files: int, *, most: int = MOST, of_address: int = MOST_OF_ADDRESS) -> None:
        """`files` is the process's limit of open files."""
        self._room = max(2, files // FILES_SHARE)
        self._most, self._of_address = min(most, self._room // 2), of_address
        self._seated: dict[Guest, str] = {}
        self._addresses: Counter[str] = Counter()
        self._standing: dict[Guest, None] = {}  # in the order they came
        self._told = -_TELL_SECONDS

    def __len__(self) -> int:
        return len(self._seated) + len(self._standing)

    def come(self, guest: Guest, address: str) -> bool:
        """A connection begins, or its request has no valid key; whether it has a seat."""
        if guest in self._seated:
            return True
        if len(self._seated) < self._most and self._addresses[address] < self._of_address:
            self._standing.pop(guest, None)
            self._seated[guest] = address
            self._addresses[address] += 1
            return True
        if guest not in self._standing:
            self._tell(address)
            while self._standing and len(self) >= self._room:
                longest = next(iter(self._standing))
                del self._standing[longest]
                longest.refuse()
            self._standing[guest] = None
        return False

    def go(self, guest: Guest) -> None:
        """It has shown a valid key, or is closed."""
        self._standing.pop(guest, None)
        address = self._seated.pop(guest, None)
        if address is not None:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    def stands(self, guest: Guest) -> bool:
        """True where it is a guest without a seat."""
        return guest in self._standing

    def complaint(self) -> str:
        """Message for a guest without a seat."""
        return (
            f"too many connections are open that have shown no valid API key (at most {self._of_address} of one "
            f"address, {self._most} in all): send the header `Authorization: Bearer KEY`, or try again soon"
        )

    def _tell(self, address: str) -> None:
        now = time.monotonic()
        if now - self._told >= _TELL_SECONDS:
            self._told = now
            log.warning(
                "%d connections are open that have shown no valid key, %d of them of %s: further ones are refused "
                "unless they show one at once",
                len(self),
                self._addresses[address],
                address or "an unknown address",
            )
