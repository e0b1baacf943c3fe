"""Session routes: `/session` exchanges an API key for a browser's cookie."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request, Response
from pydantic import BaseModel, Field

from voxyard.service.auth.api_keys import COOKIE
from voxyard.service.auth.sessions import Sessions
from voxyard.service.http.protocol import prefix_of
from voxyard.service.routes.openapi import Router, errors


class SessionBody(BaseModel):
    """API key that opens a session."""

    key: Annotated[str, Field(min_length=1, max_length=512, description="An API key.")]


class SessionOut(BaseModel):
    """Authentication state of a browser."""

    key_needed: bool = Field(description="False where the service requires no API keys.")
    client: str | None = Field(description="Name of the session's API key; null without a session.")


def session_router(sessions: Sessions | None) -> Router:
    """`/session`, a public path; without API keys, opening and closing a session has no effect."""
    router = Router(tags=["session"])

    @router.get("/session", summary="Retrieve the session", responses=errors(400))
    def session_state(request: Request) -> SessionOut:
        """Authentication state: whether a key is required, and the client of the session."""
        client = sessions.client(request.cookies.get(COOKIE, "")) if sessions is not None else None
        return SessionOut(key_needed=sessions is not None, client=client.name if client else None)

    @router.post(
        "/session", status_code=204, summary="Open a session with an API key", responses=errors(400, 401, 403, 413)
    )
    def open_session(body: SessionBody, request: Request, response: Response) -> None:
        """Sets a session cookie that replaces the API key.

        Unsafe requests with the cookie need the header `X-Voxyard-Page: 1`.
        """
        if sessions is not None:
            cookie = sessions.open(body.key)
            _set_cookie(request, response, cookie, int(sessions.lifetime))

    @router.delete("/session", status_code=204, summary="Close the session", responses=errors(400, 403))
    def close_session(request: Request, response: Response) -> None:
        """Invalidates and deletes the session cookie."""
        if sessions is not None:
            sessions.close(request.cookies.get(COOKIE, ""))
            _set_cookie(request, response, "", 0)

    return router


def _set_cookie(request: Request, response: Response, cookie: str, seconds: int) -> None:
    response.set_cookie(
        COOKIE, cookie, max_age=seconds, path=prefix_of(request.scope) or "/", httponly=True, samesite="strict",
        secure=request.url.scheme == "https",
    )  # fmt: skip
