"""Chapters of a document, its subtitles, and the times of its words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Query, Request
from starlette.responses import Response

from voxyard.service.audiobook import file as audiobook_file
from voxyard.service.audiobook import subtitles
from voxyard.service.audiobook.chapters import TimedChapter, timed
from voxyard.service.audiobook.subtitles import SubtitleFormat
from voxyard.service.audiobook.timings import TimedChunk, word_times
from voxyard.service.documents.chunk_times import with_spans
from voxyard.service.documents.records import Document, StoredChunk
from voxyard.service.errors import ConflictError, NotFoundError
from voxyard.service.routes import serializers
from voxyard.service.routes.dependencies import AppStateDep, ClientDep
from voxyard.service.routes.openapi import errors
from voxyard.service.routes.parameters import DocumentId
from voxyard.service.routes.router import Router
from voxyard.service.routes.schemas import ChaptersOut, ChunkTimesOut, TimingsOut, WordOut
from voxyard.service.routes.serializers import ChunkTimes
from voxyard.service.routes.stored_audio import StoredAudio, stored_response
from voxyard.service.state import AppState
from voxyard.speech.audio import audiobook

router = Router(tags=["documents"])

_encoding = CapacityLimiter(2)  # threads that write or wait for an audiobook: other requests keep theirs


@router.get(
    "/v1/documents/{id}/chapters",
    operation_id="list_chapters",
    summary="List a document's chapters",
    responses=errors(404),
)
def list_chapters(id: DocumentId, state: AppStateDep, client: ClientDep) -> ChaptersOut:
    """Chapters by the headings of the text, with their chunks and times. A text without headings has none."""
    state.store.document(id, client.name)
    at = ChunkTimes.of(state.store.chunks(id), state.pauses)
    return ChaptersOut(chapters=serializers.chapters(state.store.chapters(id), len(at.chunks), at))


@router.get(
    "/v1/documents/{id}/subtitles",
    operation_id="retrieve_subtitles",
    summary="Retrieve a document's subtitles",
    response_class=Response,
    responses={
        200: {"content": {kind: {"schema": {"type": "string"}} for kind in subtitles.MEDIA_TYPES.values()}},
        **errors(400, 404, 409),
    },
)
def retrieve_subtitles(
    id: DocumentId,
    state: AppStateDep,
    client: ClientDep,
    format: Annotated[SubtitleFormat, Query()] = "srt",
    download: Annotated[bool, Query(description="Send as an attachment.")] = False,
) -> Response:
    """Subtitles of a completed document. Cues begin and end with words, whose times are estimated."""
    document = state.store.document(id, client.name)
    if document.state != "completed":
        raise ConflictError(f"document {id} is {document.state}: its subtitles are there once it is completed")
    text = state.store.text(id)
    found = subtitles.cues(text, _timed_words(state, document, text))
    content = subtitles.srt(found) if format == "srt" else subtitles.vtt(found)
    headers = {"Content-Disposition": serializers.disposition(document, format, download=download)}
    return Response(content, media_type=f"{subtitles.MEDIA_TYPES[format]}; charset=utf-8", headers=headers)


@router.get(
    "/v1/documents/{id}/timings",
    operation_id="retrieve_timings",
    summary="Retrieve the times of a document's chunks and words",
    responses=errors(404),
)
def retrieve_timings(id: DocumentId, state: AppStateDep, client: ClientDep) -> TimingsOut:
    """Times in the joined audio, as far as they are known. Those of chunks are exact, those of words estimated."""
    document = state.store.document(id, client.name)
    text = state.store.text(id)
    return TimingsOut(
        complete=document.state == "completed",
        chunks=[
            ChunkTimesOut(
                index=each.chunk.index,
                text=text[each.chunk.start : each.chunk.end],
                start_seconds=round(each.span.start_seconds, 6),
                end_seconds=round(each.span.end_seconds, 6),
                words=[
                    WordOut(
                        text=text[word.start : word.end],
                        start_seconds=round(word.start_seconds, 3),
                        end_seconds=round(word.end_seconds, 3),
                    )
                    for word in each.words
                ],
            )
            for each in _timed_words(state, document, text)
        ],
    )


def _timed_words(state: AppState, document: Document, text: str) -> Sequence[TimedChunk]:
    chunks = with_spans(state.store.chunks(document.id), state.pauses)
    return tuple(word_times(text, chunks, document.language))


def chapter_of(state: AppState, id: str, index: int) -> tuple[Document, TimedChapter, tuple[StoredChunk, ...]]:
    """A document, a chapter of it whose sound is known, and its chunks up to the end of that.

    Raises:
        NotFoundError: there is no such chapter.
        ConflictError: it is not spoken yet.
    """
    document, chunks = state.store.snapshot(id)
    found = tuple(timed(state.store.chapters(id), len(chunks), ChunkTimes.of(chunks, state.pauses).spans))
    if index >= len(found):
        raise NotFoundError(
            f"document {id} has no chapter {index}: "
            + (f"it has {len(found)}, counted from 0" if found else "it has none, for its text has no headings"),
            parameter="chapter",
        )
    if found[index].end_seconds is None:
        raise ConflictError(f"chapter {index} of document {id} is not spoken yet: its audio comes later")
    return document, found[index], chunks[: found[index].last + 1]


async def audiobook_response(
    request: Request, state: AppState, document: Document, headers: dict[str, str]
) -> Response:
    """The document as an audiobook with chapter marks.

    Raises:
        ConflictError: it is not completed.
    """
    if document.state != "completed":
        raise ConflictError(
            f"document {document.id} is {document.state}: an audiobook (m4b) is there once it is completed"
        )
    document, chunks = await run_sync(state.store.snapshot, document.id)
    chapters = await run_sync(state.store.chapters, document.id)
    cover = await run_sync(state.store.cover, document.id)
    write = partial(audiobook_file.write, state.audio_store, document, chunks, state.pauses, chapters, cover)
    await run_sync(write, limiter=_encoding)
    name = audiobook_file.name(document)
    size = await run_sync(state.audio_store.size, document.id, name) or 0
    stored = StoredAudio(document.id, name, size, document.revision, audiobook.MEDIA_TYPE)
    reading = state.encodings.threads.reading
    return await run_sync(stored_response, request, state.audio_store, stored, headers, reading, limiter=reading)
