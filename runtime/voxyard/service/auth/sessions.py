"""Browser sessions: a signed cookie in place of the API key, as <audio> and EventSource send no headers."""

from __future__ import annotations

import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from starlette.datastructures import Headers

from voxyard.host.durable_files import PRIVATE, create_file
from voxyard.service.auth.api_keys import COOKIE, Client, Keys
from voxyard.service.config import ServiceSection
from voxyard.service.errors import ServiceError, StoreError, UnauthorizedError

PAGE_HEADER = "X-Voxyard-Page"
"""CSRF protection: header that unsafe requests with a cookie need, and that forms cannot send cross-origin."""
SESSION_SECRET = "session-secret"  # noqa: S105 (a file's name)
LIFETIME = 7 * 24 * 3600.0  # seconds
_SHORTEST_SECRET = 32  # bytes
_COOKIE = re.compile(r"([A-Za-z0-9._-]{1,64})~([0-9]{1,12})~([0-9a-f]{32})~([0-9a-f]{64})")


def session_cookie(headers: Headers) -> str | None:
    """The session's cookie of a request as it stands there; None without one."""
    found = None
    for each in headers.get("cookie", "").split(";"):
        name, _, value = each.partition("=")
        if name.strip() == COOKIE:
            found = value.strip()
    return found


class Sessions:
    """Signed cookies: valid across a restart of the service, and invalid once their key is revoked.

    A cookie has the key's name, its expiry, a random id, and an HMAC of the three. The HMAC key is derived from the
    service's secret and the hash of the API key: neither the key file nor the secret alone suffices to forge a cookie.
    May be used from several threads.
    """

    def __init__(
        self, keys: Keys, secret: bytes, *, lifetime: float = LIFETIME, clock: Callable[[], float] = time.time
    ) -> None:
        self._keys, self._secret, self._clock = keys, secret, clock
        self.lifetime = lifetime
        self._closed: dict[str, float] = {}  # id of a closed session → its expiry
        self._lock = threading.Lock()

    def open(self, key: str) -> str:
        """New cookie for an API key. Raises UnauthorizedError for an unknown key."""
        client = self._keys.client(key)
        if client is None:
            raise UnauthorizedError("unknown API key", parameter="key")
        end, id = int(self._clock() + self.lifetime), secrets.token_hex(16)
        return f"{client.name}~{end}~{id}~{self._signature(client.name, end, id)}"

    def client(self, cookie: str) -> Client | None:
        """Client of a cookie; None where it is forged, expired or closed, or its key revoked."""
        if (parts := _COOKIE.fullmatch(cookie)) is None:
            return None
        name, end, id, signature = parts[1], int(parts[2]), parts[3], parts[4]
        if not hmac.compare_digest(signature, self._signature(name, end, id)):
            return None
        sha256 = self._keys.hash_of(name)
        if sha256 is None or end <= self._clock() or id in self._closed:
            return None
        return Client(name, sha256)

    def close(self, cookie: str) -> None:
        """Closes a session before its expiry, for all copies of its cookie, until the service restarts."""
        if self.client(cookie) is None:
            return
        _, end, id, _ = cookie.split("~")
        with self._lock:
            now = self._clock()
            self._closed = {other: when for other, when in self._closed.items() if when > now} | {id: float(end)}

    def _signature(self, name: str, end: int, id: str) -> str:
        hashed = self._keys.hash_of(name) or ""
        key = hmac.digest(self._secret, hashed.encode(), "sha256")
        return hmac.new(key, f"session~{name}~{end}~{id}".encode(), "sha256").hexdigest()


def open_secret(section: ServiceSection) -> bytes:
    """The secret of a service's sessions: the given one, or one of its own. Raises as the two below."""
    if section.session_secret is not None:
        return read_shared_secret(section.session_secret)
    return read_secret(section.data_dir / SESSION_SECRET)


def read_shared_secret(path: Path, setting: str = "session_secret", shortest: int = _SHORTEST_SECRET) -> bytes:
    """Secret of a setting that several services share, from a file that is not written.

    Raises:
        ServiceError: the file cannot be read, or the secret is too short.
    """
    try:
        content = path.read_bytes().strip()
    except OSError as error:
        raise ServiceError(f"{setting} {path}: {error.strerror}: expected a readable file with the secret") from error
    if len(content) < shortest:
        raise ServiceError(
            f"{setting} {path}: the secret has {len(content)} bytes, expected at least {shortest}: "
            "`openssl rand -hex 32` prints one"
        )
    return content


def read_secret(path: Path) -> bytes:
    """Secret of 32 bytes from a file readable by its owner only, which is created where it is missing.

    Raises:
        StoreError: the file cannot be read or written, or has another size.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            create_file(path, secrets.token_bytes(32), mode=PRIVATE)
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: the session secret cannot be read or written: {error.strerror}") from error
    if len(content) != 32:
        raise StoreError(
            f"{path}: expected 32 bytes, found {len(content)}: delete the file; users then enter their API keys again"
        )
    return content
