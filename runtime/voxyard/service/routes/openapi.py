"""OpenAPI description of the endpoints: what they take and answer, errors included; HEAD beside GET."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi

from voxyard.service.auth.api_keys import COOKIE
from voxyard.service.config import ServiceSection
from voxyard.service.http.admission import PUBLIC_PATHS
from voxyard.service.routes.schemas import ErrorBody

_VALIDATION = ("HTTPValidationError", "ValidationError")
_INTRODUCTION = """\
OpenAI-compatible text to speech, and durable synthesis of long documents.

All errors have OpenAI's envelope. Where API keys are configured, send one as `Authorization: Bearer KEY`, or exchange
it for a cookie with `POST /session`. The service's log contains the `X-Request-Id` of each response.
"""
_ERRORS: dict[int, tuple[str, str, str, str]] = {  # status → description, type, code, example message
    400: (
        "Invalid request.",
        "invalid_request_error",
        "invalid_request",
        "speed is 9, expected 0.25 to 4",
    ),
    401: ("Missing or unknown API key.", "authentication_error", "invalid_api_key", "unknown API key"),
    403: ("Forbidden.", "permission_error", "forbidden", "webhooks to example.org are not allowed"),
    404: ("Not found.", "invalid_request_error", "not_found", "no document of this id"),
    405: ("Method not allowed.", "invalid_request_error", "method_not_allowed", "method PUT is not allowed here"),
    408: ("Request body too slow.", "invalid_request_error", "request_timeout", "body too slow"),
    409: ("Conflicts with the current state.", "invalid_request_error", "conflict", "the document has failed"),
    413: ("Too large.", "invalid_request_error", "too_large", "body larger than 50 MiB"),
    415: ("Unsupported content type.", "invalid_request_error", "unsupported_document", "not a PDF"),
    416: ("Range not satisfiable.", "invalid_request_error", "range_not_satisfiable", "the audio has 48044 bytes"),
    429: ("Rate limit exceeded or queue full; `Retry-After` gives the seconds to wait.", "rate_limit_error",
          "rate_limit_exceeded", "64 of 64 speech requests in progress"),
    500: ("Internal error.", "server_error", "speech_failed", "chunk 3 could not be synthesized"),
    501: ("Not supported by the engine.", "invalid_request_error", "not_supported", "the engine takes no voices"),
    503: ("No worker available.", "server_error", "unavailable", "the service is shutting down"),
    507: ("The disk or the audio quota is full.", "server_error", "insufficient_storage", "audio quota exceeded"),
}  # fmt: skip
_SCHEMES = {  # not as FastAPI's dependencies, which it solves anew for each request
    "key": {"type": "http", "scheme": "bearer", "description": "An API key created with `voxyard keys new`."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "Set by `POST /session`."},
}
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}


def describe(app: FastAPI, section: ServiceSection) -> dict[str, Any]:
    """OpenAPI document of the application; generated once."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            description=_INTRODUCTION,
            routes=app.routes,
            tags=app.openapi_tags,
        )
        schema["components"]["securitySchemes"] = _SCHEMES
        for path, operations in schema["paths"].items():
            for operation in operations.values():
                if path not in PUBLIC_PATHS:
                    operation["security"] = [{name: []} for name in _SCHEMES]
                operation.get("responses", {}).pop("422", None)  # invalid requests get 400, as with OpenAI
        schemas = schema["components"]["schemas"]
        for name in _VALIDATION:
            schemas.pop(name, None)
        schemas["SpeechBody"]["properties"]["input"]["maxLength"] = section.max_input
        app.openapi_schema = schema
    return app.openapi_schema


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Model's schema with the schemas that it refers to in their places."""
    defined = schema.get("$defs", {})

    def resolved(node: Any) -> Any:
        if isinstance(node, list):
            return [resolved(each) for each in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return resolved(defined[node["$ref"].rpartition("/")[2]])
        return {name: resolved(each) for name, each in node.items() if name != "$defs"}

    found: dict[str, Any] = resolved(schema)
    return found


def form(schema: dict[str, Any], one_of: Sequence[str] = ("file", "text")) -> dict[str, Any]:
    """Model's schema as that of a form with one of these fields; none is null, and an empty one counts as missing."""
    properties = {}
    for name, asked in schema["properties"].items():
        kept = {key: value for key, value in asked.items() if key not in ("anyOf", "default") or asked.get(key)}
        real = [each for each in asked.get("anyOf", ()) if each != {"type": "null"}]
        kept.pop("anyOf", None)
        properties[name] = {**(real[0] if real else {}), **kept}
        properties[name].pop("minLength", None)
    return {**schema, "properties": properties, "anyOf": [{"required": [name]} for name in one_of]}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses of these error statuses, in OpenAI's envelope."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        description, kind, code, message = _ERRORS[status]
        example = {"error": {"message": message, "type": kind, "param": None, "code": code}}
        found[status] = {
            "model": ErrorBody,
            "description": description,
            "content": {"application/json": {"example": example}},
        }
        if status in (429, 503):
            found[status]["headers"] = _RETRY
    return found


class Router(APIRouter):
    """Router that answers HEAD where it answers GET, with the same endpoint; the API's description has GET alone."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Adds a route, and for GET alone a second one for HEAD."""
        super().add_api_route(path, endpoint, **options)
        if options.get("methods") == ["GET"]:
            head = {**options, "methods": ["HEAD"], "include_in_schema": False, "operation_id": None}
            super().add_api_route(path, endpoint, **head)
