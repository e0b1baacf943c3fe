"""Paths as clients write them: a slash too many, no version or two, the whole address, a deployment's name (Azure).

Most come from a base URL that ends in a slash, lacks `/v1`, or gets it from the client a second time. They are answered
in place: a redirect would contain the Host header that the client sent, and turns POST into GET in some clients.
"""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Receive, Scope, Send

_ADDRESS = re.compile(r"^https?://[^/]*", re.IGNORECASE)  # the form of HTTP for proxies, which every server takes
_SLASHES = re.compile(r"//+")
_BASE = re.compile(r"^(/openai(/deployments/[^/]+)?)?(/v1)*(?=/(audio|models)(/|$))|^(/v1){2,}(?=/|$)")


def usual(path: str) -> str:
    """The path that is meant: `/v1/audio/speech` of `//v1/audio/speech/`, `/audio/speech` and `/v1/v1/audio/speech`."""
    plain = _SLASHES.sub("/", _ADDRESS.sub("", path)).rstrip("/") or "/"
    return _BASE.sub("/v1", plain)


class PathsMiddleware:
    """ASGI middleware: replaces a request's path by the one that is meant, before anything goes by it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "lifespan":
            scope["path"] = usual(scope["path"])
        await self._app(scope, receive, send)
