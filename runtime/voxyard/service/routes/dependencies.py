"""Dependencies of the endpoints: the running service, and the application's own small counters."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request

from voxyard.service.documents.webhooks import WebhookRules
from voxyard.service.state import Services
from voxyard.service.streaming.speech_request import Turnstile
from voxyard.service.voice_names import Voices


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
