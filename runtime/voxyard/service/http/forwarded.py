"""What a gateway before the service says of a request: its client, its scheme, and the prefix that it has stripped."""

from __future__ import annotations

import os
import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from voxyard.service.config import PATH_PREFIX

PREFIX = "prefix"
"""Key in a request's state: the path below which its client sees the service, "" for none."""
_PREFIX = re.compile(PATH_PREFIX)
_LONGEST = 200


class Forwarded:
    """Outermost middleware of the server: believes `X-Forwarded-*` of the hosts in FORWARDED_ALLOW_IPS alone.

    Without the variable that is this machine. `root_path` is the prefix where none is believed.
    """

    def __init__(self, app: ASGIApp, root_path: str = "") -> None:
        trusted = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1")
        self._app = ProxyHeadersMiddleware(app, trusted)  # type: ignore[arg-type]
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request, or the application's lifespan."""
        if scope["type"] != "lifespan":
            scope.setdefault("state", {})[PREFIX] = self._prefix(scope)
        await self._app(scope, receive, send)  # type: ignore[arg-type]

    def _prefix(self, scope: Scope) -> str:
        address = scope.get("client")
        if address is None or address[0] not in self._app.trusted_hosts:
            return self._root_path
        given = Headers(scope=scope).get("x-forwarded-prefix", "").strip().rstrip("/")
        believed = len(given) <= _LONGEST and _PREFIX.fullmatch(given)
        return given if believed else self._root_path


def prefix_of(scope: Scope) -> str:
    """The path below which the client of a request sees the service; "" for none."""
    return str(scope.get("state", {}).get(PREFIX, ""))
