"""API reference `/docs`: Swagger UI of the package fastapi-swagger, served from here, with the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from importlib import resources
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

from voxyard.service.http.observability import SECURITY_HEADERS
from voxyard.service.http.protocol import prefix_of

ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
"""Files of Swagger UI by name, with their media types; served under `/page/`."""
READ_METHODS = ["GET", "HEAD"]
# Swagger UI's icons are data URLs, and its components carry style attributes.
_POLICY = SECURITY_HEADERS["Content-Security-Policy"] + "; img-src 'self' data:; style-src 'self' 'unsafe-inline'"
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}: API reference</title>
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="page/swagger-ui.css">
<script src="page/swagger-ui-bundle.js" defer></script>
<script src="page/reference.js" defer></script>
</head>
<body>
<div id="reference"></div>
<noscript>This page needs JavaScript; <a href="openapi.json">openapi.json</a> is for programs.</noscript>
</body>
</html>
"""
# Calls carry the page's header, so that a browser's session suffices; a key is kept until the page is closed.
_SCRIPT = """\
"use strict";

// Swagger UI would ask for the sound again, with GET.
const soundOfResponse = (Original, { React }) => function Sound(props) {
  const sound = props.contentType?.startsWith("audio/") && props.content instanceof Blob ? props.content : null;
  const src = React.useMemo(() => sound && URL.createObjectURL(sound), [sound]);
  return React.createElement(sound ? "audio" : Original, sound ? { controls: true, src } : props);
};

SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  tryItOutEnabled: true,
  validatorUrl: null,
  plugins: [{ wrapComponents: { responseBody: soundOfResponse } }],
  requestInterceptor: (request) => {
    request.headers["X-Voxyard-Page"] = "1";
    return request;
  },
});
"""


def reference_router(title: str, openapi: Callable[[], dict[str, Any]]) -> APIRouter:
    """`/docs` and what it loads, all public paths; it tries calls with a key or the browser's session."""
    router = APIRouter(include_in_schema=False)
    html = _PAGE.format(title=escape(title))
    folder = resources.files("fastapi_swagger") / "resources"

    def add(path: str, answer: Callable[[], Response]) -> None:
        def endpoint() -> Response:
            return answer()

        router.add_api_route(path, endpoint, methods=READ_METHODS)

    add("/docs", lambda: HTMLResponse(html, headers={"Content-Security-Policy": _POLICY}))

    @router.api_route("/openapi.json", methods=READ_METHODS)
    def description(request: Request) -> JSONResponse:
        prefix = prefix_of(request.scope)
        return JSONResponse({**openapi(), **({"servers": [{"url": prefix}]} if prefix else {})})

    add("/page/reference.js", lambda: Response(_SCRIPT, media_type="text/javascript"))
    for name, kind in ASSETS.items():
        add(f"/page/{name}", partial(FileResponse, str(folder / name), media_type=kind))
    return router
