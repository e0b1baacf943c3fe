"""FastAPI application: all endpoints, with their documentation."""

from __future__ import annotations

from functools import partial

from fastapi import Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles

from voxyard import __version__
from voxyard.service.http.admission import KEY_HEADERS, AdmissionMiddleware, PathsMiddleware
from voxyard.service.http.errors import install_envelope
from voxyard.service.http.observability import ObservabilityMiddleware
from voxyard.service.routes import (
    api_reference,
    catalog,
    chapters,
    documents,
    scripts,
    speech,
    speech_stream,
    usage,
    voices,
)
from voxyard.service.routes.home import PAGE, home
from voxyard.service.routes.inputs import authenticated
from voxyard.service.routes.openapi import describe, errors
from voxyard.service.routes.operations import operations_router
from voxyard.service.routes.session import session_router
from voxyard.service.state import AppState

_TAGS = [
    {"name": "speech", "description": "Synthesis of one text, compatible with OpenAI's clients."},
    {
        "name": "documents",
        "description": "Long texts and files, synthesized in the background and kept across restarts.",
    },
    {"name": "catalogue", "description": "Models, voices, workers."},
]
_OPENAI_HEADERS = (  # that OpenAI's JavaScript client sends (6.49), also from a page
    *("OpenAI-Organization", "OpenAI-Project"),
    *(
        f"X-Stainless-{name}"
        for name in (
            "Arch", "Helper-Method", "Lang", "OS", "Package-Version", "Retry-Count", "Runtime", "Runtime-Version",
            "Timeout",
        )
    ),
)  # fmt: skip
_CORS_REQUEST_HEADERS = (
    *("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Range", "X-Request-Id"),
    *KEY_HEADERS,
    *_OPENAI_HEADERS,
)
_CORS_ANSWER_HEADERS = ("Content-Range", "Location", "Retry-After", "X-Request-Id", speech.NOTE_HEADER)


def create_app(state: AppState) -> FastAPI:
    """The endpoints with their middleware."""
    app = FastAPI(
        title="voxyard",
        version=__version__,
        summary="Text to speech on one's own GPUs.",
        openapi_tags=_TAGS,
        openapi_url=None,  # routes/api_reference.py serves it
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.app_state = state
    app.openapi = partial(describe, app, state.section)  # type: ignore[method-assign]
    routes = (speech, documents, chapters, scripts, catalog, voices, usage)
    for each in routes:
        app.include_router(
            each.router, dependencies=[Depends(authenticated)], responses=errors(401, 403, 429, 500, 503)
        )
    app.include_router(speech_stream.router)
    app.include_router(api_reference.reference_router(app.title, app.openapi))
    if PAGE.is_dir():
        app.mount("/page", StaticFiles(directory=PAGE), name="page")
        app.add_api_route("/", home, methods=api_reference.READ_METHODS, include_in_schema=False)
    install(app, state)
    return app


def install(app: FastAPI, state: AppState) -> None:
    """Adds the middleware, the error handlers and the session and operations routes to an application.

    To be called once, after any other middleware: the observability middleware must be the outermost.
    """
    app.router.redirect_slashes = False  # a redirect would contain the Host header that the client sent
    install_envelope(app)
    app.include_router(session_router(state.sessions))
    app.include_router(operations_router(state))
    app.add_middleware(AdmissionMiddleware, state=state)
    if origins := state.section.origins():
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "HEAD", "POST", "DELETE"),
            allow_headers=_CORS_REQUEST_HEADERS,
            expose_headers=_CORS_ANSWER_HEADERS,
            allow_private_network=True,  # a page that may call may do so from another network
        )
    app.add_middleware(PathsMiddleware)
    app.add_middleware(ObservabilityMiddleware, metrics=state.metrics)
