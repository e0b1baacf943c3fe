"""Browser sessions: a signed cookie in place of the API key, as <audio> and EventSource send no headers."""

from __future__ import annotations

import hmac
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from voxyard.service.auth.api_keys import Client, Keys
from voxyard.service.errors import StoreError, UnauthorizedError

PAGE_HEADER = "X-Voxyard-Page"
"""CSRF protection: header that unsafe requests with a cookie need, and that forms cannot send cross-origin."""
LIFETIME = 7 * 24 * 3600.0  # seconds
_COOKIE = re.compile(r"([A-Za-z0-9._-]{1,64})~([0-9]{1,12})~([0-9a-f]{32})~([0-9a-f]{64})")


class Sessions:
    """Signed cookies: valid across a restart of the service, and invalid once their key is revoked.

    A cookie holds the key's name, when it ends, a number, and an HMAC over the three whose key is made of the
    service's own secret and the hash of the API key: neither the file of the keys nor the secret alone makes one.
    May be used from several threads.
    """

    def __init__(
        self, keys: Keys, secret: bytes, *, lifetime: float = LIFETIME, clock: Callable[[], float] = time.time
    ) -> None:
        self._keys, self._secret, self._clock = keys, secret, clock
        self.lifetime = lifetime
        self._ended: dict[str, float] = {}  # number → when its cookie would have ended by itself
        self._lock = threading.Lock()

    def open(self, key: str) -> str:
        """The cookie for a key. Raises UnauthorizedError where the key is not known."""
        client = self._keys.client(key)
        if client is None:
            raise UnauthorizedError("the API key is not known", parameter="key")
        end, number = int(self._clock() + self.lifetime), secrets.token_hex(16)
        return f"{client.name}~{end}~{number}~{self._signature(client.name, end, number)}"

    def client(self, cookie: str) -> Client | None:
        """Client of a cookie; None where it is forged, expired, or its key revoked."""
        if (parts := _COOKIE.fullmatch(cookie)) is None:
            return None
        name, end, number, signature = parts[1], int(parts[2]), parts[3], parts[4]
        if not hmac.compare_digest(signature, self._signature(name, end, number)):
            return None
        known = self._keys.hash_of(name) is not None and end > self._clock() and number not in self._ended
        return Client(name) if known else None

    def close(self, cookie: str) -> None:
        """Ends a session before its time; until the service is started again this holds for copies of it too."""
        if self.client(cookie) is None:
            return
        _, end, number, _ = cookie.split("~")
        with self._lock:
            now = self._clock()
            self._ended = {other: when for other, when in self._ended.items() if when > now} | {number: float(end)}

    def _signature(self, name: str, end: int, number: str) -> str:
        hashed = self._keys.hash_of(name) or ""
        key = hmac.digest(self._secret, hashed.encode(), "sha256")
        return hmac.new(key, f"session~{name}~{end}~{number}".encode(), "sha256").hexdigest()


def read_secret(path: Path) -> bytes:
    """The service's secret of 32 bytes from a file that only its owner may read; it is made where there is none.

    Raises:
        StoreError: the file cannot be read or written, or holds something else.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            content = path.read_bytes()
        else:
            content = secrets.token_bytes(32)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"{path}: the sessions' secret cannot be read or written: {error.strerror}") from error
    if len(content) != 32:
        raise StoreError(
            f"{path}: expected 32 bytes, found {len(content)}: delete the file; browsers then ask for the key again"
        )
    return content
