"""Dependencies of the endpoints: the running service, and the application's own small counters."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from voxyard.service.auth.api_keys import COOKIE, Client
from voxyard.service.documents.webhooks import WebhookRules
from voxyard.service.errors import UnauthorizedError
from voxyard.service.state import Services
from voxyard.service.streaming.speech_request import Turnstile
from voxyard.service.voice_names import Voices

_BEARER = HTTPBearer(auto_error=False, scheme_name="key", description="An API key, as `voxyard keys new` shows it.")
_SESSION = APIKeyCookie(name=COOKIE, auto_error=False, scheme_name="session", description="Set by `POST /session`.")


async def authenticated(
    request: Request, _bearer: Annotated[Any, Security(_BEARER)], _cookie: Annotated[Any, Security(_SESSION)]
) -> Client:
    """Client that the admission middleware (door.py) has authenticated; as a dependency it documents the scheme.

    Raises:
        UnauthorizedError: nobody was let in, as on a path that the door leaves open.
    """
    client = request.scope.get("state", {}).get("client")
    if not isinstance(client, Client):
        raise UnauthorizedError("an API key is needed: send the header `Authorization: Bearer KEY`")
    return client


def _services(request: Request) -> Services:
    return cast("Services", request.app.state.services)


def _voices(request: Request) -> Voices:
    return cast("Voices", request.app.state.voices)


def _turnstile(request: Request) -> Turnstile:
    return cast("Turnstile", request.app.state.turnstile)


def _rules(request: Request) -> WebhookRules | None:
    return cast("WebhookRules | None", request.app.state.webhook_rules)


TheServices = Annotated[Services, Depends(_services)]
TheVoices = Annotated[Voices, Depends(_voices)]
TheTurnstile = Annotated[Turnstile, Depends(_turnstile)]
TheWebhookRules = Annotated[WebhookRules | None, Depends(_rules)]
TheClient = Annotated[Client, Depends(authenticated)]
