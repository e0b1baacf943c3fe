"""OpenAPI description, corrected to the responses that the service really gives."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from voxyard.service.config import ServiceSection

_VALIDATION = ("HTTPValidationError", "ValidationError")
_INTRODUCTION = """\
Speech as OpenAI's clients ask for it, and documents that survive the service that speaks them.

Every error comes in OpenAI's envelope. Where API keys are set up, send one as `Authorization: Bearer KEY`, or trade it
for a cookie with `POST /session`. An answer's `X-Request-Id` stands in the service's log.
"""


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
