"""Dependencies of the endpoints: application state, client, prefix of URLs.

They are coroutines: FastAPI calls any other function in a thread, which costs more than these functions do.
"""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from voxyard.service.auth.api_keys import COOKIE, Client
from voxyard.service.errors import UnauthorizedError
from voxyard.service.http.forwarded import prefix_of
from voxyard.service.state import AppState

_BEARER = HTTPBearer(auto_error=False, scheme_name="key", description="An API key created with `voxyard keys new`.")
_SESSION = APIKeyCookie(name=COOKIE, auto_error=False, scheme_name="session", description="Set by `POST /session`.")


async def authenticated(
    request: Request, _bearer: Annotated[Any, Security(_BEARER)], _cookie: Annotated[Any, Security(_SESSION)]
) -> Client:
    """Client that the admission middleware authenticated; as a dependency it documents the security schemes.

    Raises:
        UnauthorizedError: the request has no client, as on a public path.
    """
    client = request.scope.get("state", {}).get("client")
    if not isinstance(client, Client):
        raise UnauthorizedError("an API key is required: send the header `Authorization: Bearer KEY`")
    return client


async def _app_state(request: Request) -> AppState:
    return cast("AppState", request.app.state.app_state)


async def _prefix(request: Request) -> str:
    return prefix_of(request.scope)


AppStateDep = Annotated[AppState, Depends(_app_state)]
ClientDep = Annotated[Client, Depends(authenticated)]
PrefixDep = Annotated[str, Depends(_prefix)]
"""Path below which the client sees the service; "" for none."""
