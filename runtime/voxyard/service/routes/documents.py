"""Document routes: submit, list, follow, retry and delete documents; their audio."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Header, Path, Query, Request, status
from starlette.responses import JSONResponse, Response

from voxyard.service.documents import submission
from voxyard.service.documents.records import Document, Size
from voxyard.service.errors import ConflictError, ServiceError
from voxyard.service.routes import chapters as chapter_routes
from voxyard.service.routes import document_stream, serializers, uploads
from voxyard.service.routes.answers import Answer, with_items
from voxyard.service.routes.inputs import (
    AppStateDep,
    ClientDep,
    DocumentBody,
    DocumentFormat,
    PrefixDep,
    RedoBody,
    UploadBody,
    codec_of,
)
from voxyard.service.routes.inputs import DocumentId as Id
from voxyard.service.routes.openapi import Router, errors, form, inlined
from voxyard.service.routes.schemas import DocumentOut, DocumentsOut
from voxyard.service.routes.serializers import ChunkTimes
from voxyard.service.routes.stored_audio import PAUSED_STALL_SECONDS, audiobook_response, document_audio
from voxyard.service.state import AppState
from voxyard.service.streaming.audio_response import LiveResponse, while_connected
from voxyard.service.webhooks.rules import check_webhook
from voxyard.speech.audio import audiobook
from voxyard.speech.audio.encoder import MEDIA_TYPES
from voxyard.speech.errors import check_wanted

log = logging.getLogger(__name__)
router = Router(tags=["documents"])

LARGEST_CHAPTER = LARGEST_CHUNK = 1_000_000

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": inlined(DocumentBody.model_json_schema())},
            "multipart/form-data": {"schema": form(UploadBody.model_json_schema())},
        },
    }
}
_AUDIO: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}

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
    summary="Submit a document",
    status_code=status.HTTP_202_ACCEPTED,
    response_model=DocumentOut,
    openapi_extra=_BODY,
    responses={
        200: {"model": DocumentOut, "description": "A repeated request with the same idempotency key: its document."},
        202: {
            "description": "Accepted and stored: synthesis survives restarts of the service.",
            "headers": {"Location": {"description": "URL of the document.", "schema": {"type": "string"}}},
        },
        **errors(400, 404, 408, 409, 413, 415, 507),
    },
)
async def create_document(
    request: Request,
    state: AppStateDep,
    client: ClientDep,
    prefix: PrefixDep,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Visible ASCII. A repeated request with the same key returns the same document.",
            json_schema_extra={"pattern": "^[!-~]{1,255}$"},
        ),
    ] = None,
) -> Response:
    """Submit a text as JSON, or a file (see `file`) as a form; accepted ones are durable."""
    admitted = not state.queue.draining
    if idempotency_key is None:  # with one, it may be a document that is there
        await run_sync(partial(state.queue.check, client.name, Size(), admitted=admitted))
    read = await uploads.read_document_request(request, state.section, idempotency_key)
    accept = partial(_accepted, state, client.name, read, prefix, admitted=admitted)
    body, is_new = await while_connected(request, state.preparing.run(client.name, accept))
    return JSONResponse(
        body.model_dump(mode="json", exclude={"chunks"}),
        status_code=status.HTTP_202_ACCEPTED if is_new else status.HTTP_200_OK,
        headers={"Location": f"{prefix}/v1/documents/{body.id}"},
    )


@router.get(
    "/v1/documents",
    operation_id="list_documents",
    summary="List documents",
    responses=errors(400, 404),
)
def list_documents(
    state: AppStateDep,
    client: ClientDep,
    prefix: PrefixDep,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[str | None, Query(max_length=32, description="The `next` of the previous page.")] = None,
) -> DocumentsOut:
    """Documents of the client, newest first."""
    found = state.store.documents(client.name, limit + 1, before)
    now = time.time()
    return DocumentsOut(
        documents=[serializers.document(each, now, prefix=prefix) for each in found[:limit]],
        next=found[limit - 1].id if len(found) > limit else None,
    )


@router.get(
    "/v1/documents/{id}",
    operation_id="retrieve_document",
    summary="Retrieve a document",
    response_model=DocumentOut,
    responses=errors(400, 404),
)
async def retrieve_document(
    id: Id,
    state: AppStateDep,
    client: ClientDep,
    prefix: PrefixDep,
    chunks: Annotated[bool, Query(description="Include the chunks with their texts and times.")] = False,
) -> Response:
    """Progress of a document, and the URL of its audio."""
    make = partial(_document_answer, state, id, client.name, prefix, chunks=chunks)
    document = await run_sync(state.store.document, id, client.name)
    if not chunks and document.state != "completed":
        return (await run_sync(make)).response()
    return (await state.answers.get(document, ("document", prefix, chunks), make)).response()


def _document_answer(state: AppState, id: str, owner: str, prefix: str, *, chunks: bool) -> Answer:
    redo = serializers.redo(state.store, id)
    found = state.store.chapters(id)  # first: chapters of a file that is read meanwhile would have no chunks
    document = state.store.document(id, owner)
    at = ChunkTimes.of(state.store.chunks(id), state.pauses) if chunks else _times(state, document)
    body = serializers.document(document, time.time(), at, prefix=prefix)
    body.redo = redo
    body.chapters = serializers.chapters(found, document.chunks, at)
    lasting = document.state == "completed"
    if not chunks:
        return Answer(body.model_dump_json().encode(), lasting=lasting)
    body.chunks, text = [], state.store.text(id)
    items = (serializers.chunk(each, at, text) for each in at.chunks)
    return Answer(with_items(body, "chunks", items), lasting=lasting)


@router.get(
    "/v1/documents/{id}/events",
    operation_id="follow_document",
    summary="Stream a document's events",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events: `progress` with the document, `chunk` for each finished chunk, `end` "
            "as the last. A comment every 15 s keeps the connection alive.",
            "content": {"text/event-stream": {"schema": _EVENT}},
        },
        **errors(404),
    },
)
async def follow_document(
    id: Id,
    state: AppStateDep,
    client: ClientDep,
    prefix: PrefixDep,
    last_event_id: Annotated[str | None, Header(description="Id of the last event received.")] = None,
) -> Response:
    """Server-sent events of each change. `Last-Event-ID` resumes after a lost connection."""
    await run_sync(state.store.document, id, client.name)
    events = document_stream.events_of_key(state, client.name, id, last_event_id, prefix)
    return LiveResponse(events, media_type="text/event-stream")


@router.get(
    "/v1/documents/{id}/audio",
    operation_id="retrieve_audio",
    summary="Retrieve a document's audio",
    response_class=Response,
    responses={
        200: {
            "description": "Audio from the beginning; of an unfinished document, streamed during synthesis.",
            "content": dict.fromkeys(sorted({*MEDIA_TYPES.values(), audiobook.MEDIA_TYPE}), _AUDIO),
        },
        206: {
            "description": "A range of the file.",
            "content": dict.fromkeys(sorted(set(MEDIA_TYPES.values())), _AUDIO),
        },
        **errors(400, 404, 409, 416),
    },
)
async def retrieve_audio(
    request: Request,
    id: Id,
    state: AppStateDep,
    client: ClientDep,
    format: Annotated[
        DocumentFormat, Query(description="`m4b` is an audiobook with chapter marks; `ogg` another name of `opus`.")
    ] = "wav",
    speed: Annotated[float, Query(ge=0.25, le=4.0, allow_inf_nan=False)] = 1.0,
    download: Annotated[bool, Query(description="Send as an attachment.")] = False,
    chapter: Annotated[int | None, Query(ge=0, le=LARGEST_CHAPTER, description="This chapter alone.")] = None,
) -> Response:
    """Audio of an unfinished document is streamed during synthesis, and ends with the document.

    That of a completed document at speed 1 is a file, encoded once, with `Content-Length`, `ETag` and `Range`. A
    request that comes while a long one is being encoded is answered without these, from the first byte.
    """
    document = await run_sync(state.store.document, id, client.name)
    if document.state == "failed":
        raise ConflictError(document_stream.failure(document))
    if format == "m4b":
        if chapter is not None or speed != 1:
            raise ServiceError(
                "an audiobook (m4b) is the whole document at speed 1: ask for it without chapter and speed, or for mp3",
                parameter="format",
            )
        headers = {"Content-Disposition": serializers.disposition(document, format, download=download)}
        return await audiobook_response(request, state, document, headers)
    codec = codec_of(format)
    media_type = MEDIA_TYPES[codec]
    headers = {"Content-Disposition": serializers.disposition(document, codec, download=download)}
    if chapter is not None:
        document, found, chunks = await run_sync(chapter_routes.chapter_of, state, document.id, chapter)
        headers["Content-Disposition"] = serializers.disposition(document, codec, download=download, part=found.title)
        audio = document_stream.chapter_audio(state, document, chunks, found, codec, speed)
        return LiveResponse(audio, media_type=media_type, headers=headers, stall=PAUSED_STALL_SECONDS)
    if document.state == "completed" and speed == 1:
        return await document_audio(request, state, document, codec, headers)
    audio = document_stream.shared_audio(state, document, codec, speed)
    return LiveResponse(audio, media_type=media_type, headers=headers, stall=PAUSED_STALL_SECONDS)


@router.post(
    "/v1/documents/{id}/retry",
    operation_id="retry_document",
    summary="Retry the failed chunks of a document",
    status_code=status.HTTP_202_ACCEPTED,
    responses=errors(404, 409, 507),
)
async def retry_document(id: Id, state: AppStateDep, client: ClientDep, prefix: PrefixDep) -> DocumentOut:
    """Synthesizes the failed chunks again and keeps the others."""

    def retry() -> DocumentOut:
        state.store.document(id, client.name)
        state.queue.retry(id)
        return _document_out(state, state.store.document(id), prefix)

    return await state.changing.run(client.name, retry)


@router.post(
    "/v1/documents/{id}/chunks/{index}/redo",
    operation_id="redo_chunk",
    summary="Speak a chunk of a completed document again",
    status_code=status.HTTP_202_ACCEPTED,
    responses=errors(400, 404, 409),
)
async def redo_chunk(
    id: Id,
    index: Annotated[int, Path(ge=0, le=LARGEST_CHUNK, description="Counted from 0.")],
    state: AppStateDep,
    client: ClientDep,
    prefix: PrefixDep,
    body: RedoBody | None = None,
) -> DocumentOut:
    """Speaks one chunk again, with another seed or voice, and rebuilds the audio. The old audio is served until then.

    Without a seed, the next one is taken. `revision` counts up with the new audio, and its ETag changes.
    """
    asked = RedoBody() if body is None else body

    def redo() -> DocumentOut:
        state.store.document(id, client.name)
        voice = None if asked.voice is None else state.voices.resolve(asked.voice, client.name)
        document = state.queue.redo(id, index, voice, asked.seed)
        out = _document_out(state, document, prefix)
        out.redo = serializers.redo(state.store, id)
        return out

    return await state.changing.run(client.name, redo)


@router.delete(
    "/v1/documents/{id}",
    operation_id="delete_document",
    summary="Cancel and delete a document",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=errors(404),
)
async def delete_document(id: Id, state: AppStateDep, client: ClientDep) -> None:
    """Stops synthesis and deletes the text and the audio."""

    def delete() -> None:
        state.store.document(id, client.name)
        state.queue.cancel(id)

    await state.changing.run(client.name, delete)


def _accepted(
    state: AppState, owner: str, read: uploads.ReadRequest, prefix: str, *, admitted: bool
) -> tuple[DocumentOut, bool]:
    """The document of a request, and True where it is new. What has no room is refused before it is prepared."""
    submitted, section = read(), state.section
    asked = submission.unprepared(submitted, owner=owner, now=time.time(), instance=section.instance)
    earlier = state.queue.earlier(asked)  # what it named, a voice or a webhook's host, may be gone since then
    if earlier is not None:
        return _document_out(state, earlier, prefix), False
    if submitted.webhook is not None:
        check_webhook(state.webhook_rules, submitted.webhook)
    counted = admitted or asked.idempotency_key is not None  # or by `accept`
    state.queue.check(owner, submission.least_size(submitted, state.frontend), admitted=counted)
    new = submission.new_document(
        asked,
        submitted,
        state.frontend,
        state.voices,
        section=section,
        limits=state.limits(owner),
        lexicon=state.lexicon(owner),
        reading=state.reading,
    )
    check_wanted()
    document, is_new = state.queue.accept(new, admitted=admitted)
    return _document_out(state, document, prefix), is_new


def _document_out(state: AppState, document: Document, prefix: str) -> DocumentOut:
    return serializers.document(document, time.time(), _times(state, document), prefix=prefix)


def _times(state: AppState, document: Document) -> ChunkTimes:
    return ChunkTimes((), state.timelines.spans(document))
