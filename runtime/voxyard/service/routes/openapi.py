"""OpenAPI description, corrected to the responses that the service really gives."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from voxyard.service.config import ServiceSection
from voxyard.service.routes.schemas import ErrorBody

_VALIDATION = ("HTTPValidationError", "ValidationError")
_INTRODUCTION = """\
Speech as OpenAI's clients ask for it, and documents that survive the service that speaks them.

Every error comes in OpenAI's envelope. Where API keys are set up, send one as `Authorization: Bearer KEY`, or trade it
for a cookie with `POST /session`. An answer's `X-Request-Id` stands in the service's log.
"""
_MEANINGS: dict[int, tuple[str, str, str, str]] = {  # status → what happened, kind, code, a message
    400: (
        "The request is wrong.",
        "invalid_request_error",
        "invalid_request",
        "speed is 9, expected 0.25 to 4",
    ),
    401: ("No API key, or one that is not known.", "authentication_error", "invalid_api_key", "the key is not known"),
    403: ("Not allowed.", "permission_error", "forbidden", "webhooks to example.org are not allowed"),
    404: ("There is no such thing.", "invalid_request_error", "not_found", "there is no document of this name"),
    405: ("Not this method.", "invalid_request_error", "method_not_allowed", "this path does not take PUT"),
    408: ("The body came too slowly.", "invalid_request_error", "request_timeout", "the body came too slowly"),
    409: ("It does not fit to what is there.", "invalid_request_error", "conflict", "the document has failed"),
    413: ("Too large.", "invalid_request_error", "too_large", "the body has more than 50 MiB"),
    415: ("A kind of content that is not read.", "invalid_request_error", "unsupported_document", "this is no PDF"),
    416: ("The range lies behind the sound.", "invalid_request_error", "range_not_satisfiable", "it has 48044 bytes"),
    429: ("Too many requests, or a full queue: Retry-After says when to come again.", "rate_limit_error",
          "rate_limit_exceeded", "64 speech requests are being spoken"),
    500: ("The service failed.", "server_error", "speech_failed", "chunk 3 could not be spoken"),
    503: ("No worker can speak now.", "server_error", "unavailable", "the service is going down"),
    507: ("The disk, or the service's share of it, is full.", "server_error", "insufficient_storage", "no room"),
}  # fmt: skip
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}


def describe(app: FastAPI, section: ServiceSection) -> dict[str, Any]:
    """The whole document; worked out once for an application."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            description=_INTRODUCTION,
            routes=app.routes,
            tags=app.openapi_tags,
        )
        for operations in schema["paths"].values():
            for operation in operations.values():
                operation.get("responses", {}).pop("422", None)  # what does not fit is a 400 here, as with OpenAI
        schemas = schema.get("components", {}).get("schemas", {})
        for name in _VALIDATION:
            schemas.pop(name, None)
        schemas["SpeechBody"]["properties"]["input"]["maxLength"] = section.max_input
        app.openapi_schema = schema
    return app.openapi_schema


def form(schema: dict[str, Any]) -> dict[str, Any]:
    """A model's schema as that of a form: a field is never null, and an empty one is as good as none."""
    properties = {}
    for name, asked in schema["properties"].items():
        kept = {key: value for key, value in asked.items() if key not in ("anyOf", "default") or asked.get(key)}
        real = [each for each in asked.get("anyOf", ()) if each != {"type": "null"}]
        kept.pop("anyOf", None)
        properties[name] = {**(real[0] if real else {}), **kept}
        properties[name].pop("minLength", None)
    return {**schema, "properties": properties, "anyOf": [{"required": ["file"]}, {"required": ["text"]}]}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Documentation of these error statuses; all come in OpenAI's envelope."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        description, kind, code, message = _MEANINGS[status]
        example = {"error": {"message": message, "type": kind, "param": None, "code": code}}
        found[status] = {
            "model": ErrorBody,
            "description": description,
            "content": {"application/json": {"example": example}},
        }
        if status in (429, 503):
            found[status]["headers"] = _RETRY
    return found
