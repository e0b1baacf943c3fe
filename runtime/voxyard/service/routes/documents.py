"""`/v1/documents`: long texts and files that are spoken however long it takes."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Path, Query, Request, status
from starlette.responses import FileResponse, JSONResponse, Response

from voxyard.service.documents import submission
from voxyard.service.documents.records import Document
from voxyard.service.documents.webhooks import check_webhook
from voxyard.service.errors import ConflictError
from voxyard.service.http.errors import envelope
from voxyard.service.routes import document_stream, serializers, uploads
from voxyard.service.routes.dependencies import TheClient, TheServices, TheVoices, TheWebhookRules
from voxyard.service.routes.openapi import errors, form
from voxyard.service.routes.schemas import DocumentBody, DocumentOut, DocumentsOut, UploadBody
from voxyard.service.state import Services
from voxyard.service.streaming.audio_response import LiveResponse
from voxyard.speech.audio.encoder import MEDIA_TYPES, Format

router = APIRouter(tags=["documents"])

PAUSED = 3600.0  # seconds: a player that is paused reads nothing
_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")

Id = Annotated[
    str,
    Path(
        description="32 hexadecimal digits.",
        examples=["0123456789abcdef0123456789abcdef"],
        json_schema_extra={"pattern": "^[0-9a-f]{32}$"},
    ),
]
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": DocumentBody.model_json_schema()},
            "multipart/form-data": {"schema": form(UploadBody.model_json_schema())},
        },
    }
}
_SOUND: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}

_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string"},
        "event": {"enum": ["progress", "chunk", "end"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}


@router.post(
    "/v1/documents",
    operation_id="create_document",
    summary="Have a document spoken",
    status_code=status.HTTP_202_ACCEPTED,
    response_model=DocumentOut,
    openapi_extra=_BODY,
    responses={
        200: {"model": DocumentOut, "description": "The same request came before: this is its document."},
        202: {
            "description": "Accepted: it will be spoken, even if the service stops in between.",
            "headers": {"Location": {"description": "Where it can be asked for.", "schema": {"type": "string"}}},
        },
        **errors(400, 404, 408, 409, 413, 415, 507),
    },
)
async def create_document(
    request: Request,
    services: TheServices,
    voices: TheVoices,
    rules: TheWebhookRules,
    client: TheClient,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Visible ASCII: the same key with the same request gives the same document.",
            json_schema_extra={"pattern": "^[!-~]{1,255}$"},
        ),
    ] = None,
) -> Response:
    """Send a text as JSON, or a TXT, PDF or DOCX file as a form. Nothing that was accepted is lost."""
    section = services.section
    wish = await uploads.wish(request, section, idempotency_key)
    if wish.webhook is not None:
        check_webhook(rules, wish.webhook)
    new = await run_sync(
        partial(
            submission.new_document,
            wish,
            services.frontend,
            voices,
            owner=client.name,
            now=time.time(),
            section=section,
        )
    )
    document, is_new = await run_sync(services.desk.accept, new)
    body = await run_sync(_shown, services, document)
    return JSONResponse(
        body.model_dump(mode="json", exclude={"chunks"}),
        status_code=status.HTTP_202_ACCEPTED if is_new else status.HTTP_200_OK,
        headers={"Location": f"/v1/documents/{document.id}"},
    )


@router.get(
    "/v1/documents",
    operation_id="list_documents",
    summary="The documents",
    responses=errors(400, 404),
)
def list_documents(
    services: TheServices,
    client: TheClient,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[str | None, Query(max_length=32, description="The id that came as `next`.")] = None,
) -> DocumentsOut:
    """The caller's own, the newest first."""
    found = services.store.documents(client.name, limit + 1, before)
    now = time.time()
    return DocumentsOut(
        documents=[serializers.document(each, now) for each in found[:limit]],
        next=found[limit - 1].id if len(found) > limit else None,
    )


@router.get(
    "/v1/documents/{id}",
    operation_id="retrieve_document",
    summary="A document as it stands",
    responses=errors(400, 404),
)
def retrieve_document(
    id: Id,
    services: TheServices,
    client: TheClient,
    chunks: Annotated[bool, Query(description="With every chunk, its text and its times.")] = False,
) -> DocumentOut:
    """Progress of a document, and the address of its audio."""
    document = services.store.document(id, client.name)
    return _shown(services, document, services.store.text(id) if chunks else None)


@router.get(
    "/v1/documents/{id}/events",
    operation_id="follow_document",
    summary="Follow a document",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events: `progress` with the document, `chunk` for each chunk that has ended, "
            "`end` as the last. A comment every 15 s says that the service is still there.",
            "content": {"text/event-stream": {"schema": _EVENT}},
        },
        **errors(404),
    },
)
async def follow_document(
    id: Id,
    services: TheServices,
    client: TheClient,
    last_event_id: Annotated[str | None, Header(description="The id of the last event that was heard.")] = None,
) -> Response:
    """Server-sent events of each change. `Last-Event-ID` resumes a lost connection."""
    await run_sync(services.store.document, id, client.name)
    return LiveResponse(document_stream.events(services, id, last_event_id), media_type="text/event-stream")


@router.get(
    "/v1/documents/{id}/audio",
    operation_id="retrieve_audio",
    summary="The sound of a document",
    response_class=Response,
    responses={
        200: {
            "description": "The sound from the beginning; of a document that is not completed, as it is made.",
            "content": dict.fromkeys(sorted(set(MEDIA_TYPES.values())), _SOUND),
        },
        206: {"description": "A range of the WAV file.", "content": {"audio/wav": _SOUND}},
        **errors(400, 404, 409, 416),
    },
)
async def retrieve_audio(
    request: Request,
    id: Id,
    services: TheServices,
    client: TheClient,
    format: Annotated[Format, Query()] = "wav",
    speed: Annotated[float, Query(ge=0.25, le=4.0, allow_inf_nan=False)] = 1.0,
    download: Annotated[bool, Query(description="As a file to keep.")] = False,
) -> Response:
    """While the document grows, the sound comes as it is made, and ends with the document's end.

    A completed document's WAV at speed 1 takes `Range`.
    """
    document = await run_sync(services.store.document, id, client.name)
    if document.state == "failed":
        raise ConflictError(document_stream.failure(document))
    headers = {"Content-Disposition": _disposition(document, format, download=download)}
    if document.state == "completed" and format == "wav" and speed == 1:
        return await run_sync(partial(_file, request, services, document, headers))
    sound = document_stream.sound(services, document, format, speed)
    return LiveResponse(sound, media_type=MEDIA_TYPES[format], headers=headers, stall=PAUSED)


@router.post(
    "/v1/documents/{id}/retry",
    operation_id="retry_document",
    summary="Speak what has failed once more",
    status_code=status.HTTP_202_ACCEPTED,
    responses=errors(404, 409, 507),
)
def retry_document(id: Id, services: TheServices, client: TheClient) -> DocumentOut:
    """Chunks that were spoken stay as they are."""
    services.store.document(id, client.name)
    services.desk.retry(id)
    return _shown(services, services.store.document(id))


@router.delete(
    "/v1/documents/{id}",
    operation_id="delete_document",
    summary="Cancel and delete a document",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=errors(404),
)
def delete_document(id: Id, services: TheServices, client: TheClient) -> None:
    """It is spoken no further, and its text and its sound are deleted."""
    services.store.document(id, client.name)
    services.desk.cancel(id)


def _shown(services: Services, document: Document, text: str | None = None) -> DocumentOut:
    at = serializers.timed(services.store.chunks(document.id), services.pauses)
    return serializers.document(document, time.time(), at, text)


def _file(request: Request, services: Services, document: Document, headers: dict[str, str]) -> Response:
    """The whole file, or the range of it that is asked for. A header that is no single range is passed over."""
    path = services.shelf.wav(document.id)
    size = path.stat().st_size
    asked = request.headers.get("range")
    if asked is not None:
        found = _RANGE.fullmatch(asked.strip())
        if found is None or found[0] == "bytes=-" or (found[1] and found[2] and int(found[2]) < int(found[1])):
            request.scope["headers"] = [pair for pair in request.scope["headers"] if pair[0] != b"range"]
        elif (found[1] and int(found[1]) >= size) or (not found[1] and not int(found[2])):
            return _behind(asked, size)
    return FileResponse(path, media_type=MEDIA_TYPES["wav"], headers={**headers, "Cache-Control": "private, no-cache"})


def _behind(asked: str, size: int) -> Response:
    """A range that begins behind the end of the sound."""
    return envelope(
        status.HTTP_416_RANGE_NOT_SATISFIABLE,
        f"the range {asked[:100]} lies behind the sound, which has {size} bytes",
        "invalid_request_error",
        "range_not_satisfiable",
        headers={"Content-Range": f"bytes */{size}"},
    )


def _disposition(document: Document, format: Format, *, download: bool) -> str:
    name = re.sub(r'[\\/:*?"<>|\s]+', " ", document.title).strip(" .")[:100] or "voxyard"
    suffix = "opus" if format == "opus" else format
    plain = re.sub(r"[^A-Za-z0-9 ._-]", "_", name)
    kind = "attachment" if download else "inline"
    return f"{kind}; filename=\"{plain}.{suffix}\"; filename*=UTF-8''{quote(f'{name}.{suffix}', safe='')}"
