"""Browser sessions: the key is sent once, then a cookie replaces it, as <audio> and EventSource send no headers."""

from __future__ import annotations

import hmac
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from voxyard.service.auth.api_keys import COOKIE, Client, Keys
from voxyard.service.errors import StoreError, UnauthorizedError
from voxyard.service.routes.error_responses import errors

PAGE_HEADER = "X-Voxyard-Page"
"""What a request that changes something must bear beside the cookie: no form of another page can send it."""
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


class SessionBody(BaseModel):
    """Key that the page sends once to open a session."""

    key: Annotated[str, Field(min_length=1, max_length=512, description="An API key.")]


class Standing(BaseModel):
    """Authentication state: a key is needed or not, and the client of this session."""

    key_needed: bool = Field(description="False where the service has no API keys.")
    client: str | None = Field(description="The name of the session's key; null without a session.")


def session_routes(sessions: Sessions | None) -> APIRouter:
    """`/session`, open to everybody; without keys there is nothing to begin, and nothing goes wrong."""
    router = APIRouter(tags=["session"])

    @router.get("/session", summary="Whether this browser has a session", responses=errors(400))
    def standing(request: Request) -> Standing:
        """Tells the page whether it must ask for a key."""
        client = sessions.client(request.cookies.get(COOKIE, "")) if sessions is not None else None
        return Standing(key_needed=sessions is not None, client=client.name if client else None)

    @router.post(
        "/session", status_code=204, summary="Begin a session with an API key", responses=errors(400, 401, 403, 413)
    )
    def begin(body: SessionBody, request: Request, response: Response) -> None:
        """Sets a cookie that stands for the key, so that the page need not keep it.

        Requests that change something by the cookie must bear the header `X-Voxyard-Page: 1`.
        """
        if sessions is not None:
            cookie = sessions.open(body.key)
            _set(request, response, cookie, int(sessions.lifetime))

    @router.delete("/session", status_code=204, summary="End the session", responses=errors(400, 403))
    def end(request: Request, response: Response) -> None:
        """The cookie is worth nothing any more, and the browser forgets it."""
        if sessions is not None:
            sessions.close(request.cookies.get(COOKIE, ""))
            _set(request, response, "", 0)

    return router


def _set(request: Request, response: Response, cookie: str, seconds: int) -> None:
    response.set_cookie(
        COOKIE, cookie, max_age=seconds, path="/", httponly=True, samesite="strict",
        secure=request.url.scheme == "https",
    )  # fmt: skip
