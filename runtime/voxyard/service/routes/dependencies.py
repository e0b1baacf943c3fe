"""Dependencies of the endpoints: application state, client, prefix of URLs.

They are coroutines: FastAPI calls any other function in a thread, which costs more than these functions do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Path, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from voxyard.service.auth.api_keys import COOKIE, Client
from voxyard.service.errors import UnauthorizedError
from voxyard.service.http.forwarded import prefix_of
from voxyard.service.state import AppState


class Router(APIRouter):
    """Router that answers HEAD where it answers GET, with the same endpoint; the API's description has GET alone."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Adds a route, and for GET alone a second one for HEAD."""
        super().add_api_route(path, endpoint, **options)
        if options.get("methods") == ["GET"]:
            head = {**options, "methods": ["HEAD"], "include_in_schema": False, "operation_id": None}
            super().add_api_route(path, endpoint, **head)


DocumentId = Annotated[
    str,
    Path(
        description="32 hexadecimal digits.",
        examples=["0123456789abcdef0123456789abcdef"],
        json_schema_extra={"pattern": "^[0-9a-f]{32}$"},
    ),
]


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
