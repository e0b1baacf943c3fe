"""FastAPI application: all endpoints, with their documentation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fastapi import Depends, FastAPI, Request
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from voxyard import __version__
from voxyard.service.documents.webhooks import read_rules
from voxyard.service.http.admission import Door
from voxyard.service.http.components import Frame
from voxyard.service.http.errors import install_envelope
from voxyard.service.http.observability import FrameMiddleware
from voxyard.service.routes import api_reference, catalog, documents, speech
from voxyard.service.routes.dependencies import authenticated
from voxyard.service.routes.openapi import describe, errors
from voxyard.service.routes.operations import operations_router
from voxyard.service.routes.session import session_router
from voxyard.service.state import Services
from voxyard.service.streaming.speech_request import Turnstile
from voxyard.service.voice_names import open_voices

PAGE = Path(__file__).parent / "page"
_TAGS = [
    {"name": "speech", "description": "A text at once, as OpenAI's clients ask for it."},
    {"name": "documents", "description": "Long texts and files, which survive a stop of the service."},
    {"name": "catalogue", "description": "Models, voices, workers."},
]
_CORS_REQUEST_HEADERS = ("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Range", "X-Request-Id")
_CORS_ANSWER_HEADERS = ("Content-Range", "Location", "Retry-After", "X-Request-Id")


def create_app(services: Services) -> FastAPI:
    """The endpoints over these services; `frame.install` adds what surrounds them.

    Raises:
        ServiceError: the operator's table of voices is wrong, or the secret of the webhooks cannot be read.
    """
    app = FastAPI(
        title="voxyard",
        version=__version__,
        summary="Text to speech on one's own GPUs.",
        openapi_tags=_TAGS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    app.state.voices = open_voices(services.frontend, services.section.voices)
    app.state.webhook_rules = read_rules(services.section)
    app.state.turnstile = Turnstile(services.section.max_requests)
    app.openapi = partial(describe, app, services.section)  # type: ignore[method-assign]
    for router in (speech.router, documents.router, catalog.router):
        app.include_router(router, dependencies=[Depends(authenticated)], responses=errors(401, 403, 429, 500, 503))
    app.add_api_route("/docs", _reference, include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route("/page/reference.css", _style, include_in_schema=False, response_class=Response)
    if PAGE.is_dir():
        app.mount("/page", StaticFiles(directory=PAGE), name="page")
        app.add_api_route("/", _home, include_in_schema=False, response_class=FileResponse)
    return app


def install(app: FastAPI, frame: Frame) -> None:
    """Puts the frame around an application: its routes, its error handlers, its middleware.

    To be called once, when no other middleware is to come outside it.
    """
    app.router.redirect_slashes = False  # a redirect would name a host that the client chose
    install_envelope(app)
    app.include_router(session_router(frame.sessions))
    app.include_router(operations_router(frame))
    app.add_middleware(Door, frame=frame)
    if origins := frame.section.origins():
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=_CORS_REQUEST_HEADERS,
            expose_headers=_CORS_ANSWER_HEADERS,
        )
    app.add_middleware(FrameMiddleware, metrics=frame.metrics)


def _reference(request: Request) -> HTMLResponse:
    return HTMLResponse(api_reference.page(request.app.openapi()))


def _style() -> Response:
    return Response(api_reference.STYLE, media_type="text/css")


def _home() -> FileResponse:
    return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})
