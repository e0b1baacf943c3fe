"""Chapters of a document, its subtitles, and the times of its words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import anyio
from anyio.to_thread import run_sync
from fastapi import Query
from pydantic import BeforeValidator
from starlette.responses import Response

from voxyard.service.audiobook import subtitles
from voxyard.service.audiobook.chapters import TimedChapter, timed
from voxyard.service.audiobook.subtitles import SubtitleFormat
from voxyard.service.audiobook.timings import TimedChunk, word_times
from voxyard.service.documents.records import Document, StoredChunk, with_spans
from voxyard.service.errors import ConflictError, NotFoundError
from voxyard.service.routes import document_stream, serializers
from voxyard.service.routes.answers import Answer, with_items
from voxyard.service.routes.inputs import AppStateDep, ClientDep, DocumentId, lower
from voxyard.service.routes.openapi import Router, errors
from voxyard.service.routes.schemas import ChaptersOut, ChunkTimesOut, TimingsOut, WordOut, WordSource
from voxyard.service.routes.serializers import ChunkTimes
from voxyard.service.state import AppState
from voxyard.speech.reading.markup import MASK, masked

router = Router(tags=["documents"])

WAIT_SECONDS = 5.0
"""Time that a request for subtitles waits for words that are being recognised."""
_POLL_SECONDS = 0.25


@router.get(
    "/v1/documents/{id}/chapters",
    operation_id="list_chapters",
    summary="List a document's chapters",
    response_model=ChaptersOut,
    responses=errors(404, 409),
)
async def list_chapters(id: DocumentId, state: AppStateDep, client: ClientDep) -> Response:
    """Chapters by the headings of the text, with their chunks and times. A text without headings has none."""
    document = await run_sync(state.store.document, id, client.name)
    document_stream.check_has_text(document, "chapters")

    def make() -> Answer:
        chapters = state.store.chapters(id)  # before the chunks, which a file that is read meanwhile has then
        at = ChunkTimes.of(state.store.chunks(id), state.pauses)
        body = ChaptersOut(chapters=serializers.chapters(chapters, len(at.chunks), at))
        return Answer(body.model_dump_json().encode())

    return (await state.answers.get(document, "chapters", make)).response()


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
async def retrieve_subtitles(
    id: DocumentId,
    state: AppStateDep,
    client: ClientDep,
    format: Annotated[SubtitleFormat, BeforeValidator(lower), Query()] = "srt",
    download: Annotated[bool, Query(description="Send as an attachment.")] = False,
    estimated: Annotated[bool, Query(description="With words that are not recognised yet: 409 otherwise.")] = False,
) -> Response:
    """Subtitles of a completed document. Cues begin and end with words.

    The header `X-Voxyard-Estimated-Words` counts the words whose times are estimated, and not recognised.
    """
    until = time.monotonic() + WAIT_SECONDS
    while True:
        document = await run_sync(state.store.document, id, client.name)
        make = partial(_subtitles, state, id, client.name, format, estimated=estimated)
        found = await state.answers.get(document, ("subtitles", format), make)
        if found.content or found.lasting:
            break
        if time.monotonic() > until:
            raise ConflictError(
                f"the words of document {id} are still being recognised: ask again in some seconds, or for times from "
                "lengths by estimated=true",
                retry_after=WAIT_SECONDS,
            )
        await anyio.sleep(_POLL_SECONDS)
    return found.response({"Content-Disposition": serializers.disposition(document, format, download=download)})


def _subtitles(state: AppState, id: str, owner: str, format: SubtitleFormat, *, estimated: bool) -> Answer:
    """The subtitles; nothing, which does not last, where words are still to be recognised and are waited for."""
    document, text, chunks, waiting = _timed_words(state, id, owner)
    if document.state == "failed":
        raise ConflictError(document_stream.failure(document))
    if document.state != "completed":
        raise ConflictError(f"document {id} is {document.state}: its subtitles are there once it is completed")
    if waiting and not estimated:
        return Answer(b"", lasting=False)
    words = list[int]()  # of each chunk whose words are not recognised

    def counted() -> Iterator[TimedChunk]:
        for each in chunks:
            if not each.recognised:
                words.append(len(each.words))
            yield each

    found = subtitles.cues(text, counted())
    content = subtitles.srt(found) if format == "srt" else subtitles.vtt(found)
    return Answer(
        content.encode(),
        f"{subtitles.MEDIA_TYPES[format]}; charset=utf-8",
        {"X-Voxyard-Estimated-Words": str(sum(words))},
        lasting=state.word_aligner is None or not words,
    )


@router.get(
    "/v1/documents/{id}/timings",
    operation_id="retrieve_timings",
    summary="Retrieve the times of a document's chunks and words",
    response_model=TimingsOut,
    responses=errors(404, 409),
)
async def retrieve_timings(id: DocumentId, state: AppStateDep, client: ClientDep) -> Response:
    """Times in the joined audio, as far as they are known. Those of chunks are exact; those of words have a source."""
    document = await run_sync(state.store.document, id, client.name)
    return (await state.answers.get(document, "timings", partial(_timings, state, id, client.name))).response()


def _timings(state: AppState, id: str, owner: str) -> Answer:
    document, text, chunks, waiting = _timed_words(state, id, owner)
    body = TimingsOut(source="estimated", waiting=waiting, complete=document.state == "completed", chunks=[])
    sources = set[WordSource]()

    def items() -> Iterator[ChunkTimesOut]:
        for each in chunks:
            source: WordSource = "recognised" if each.recognised else "estimated"
            sources.add(source)
            body.source = source if len(sources) == 1 else "mixed"
            yield ChunkTimesOut(
                index=each.chunk.index,
                text=text[each.chunk.start : each.chunk.end].replace(MASK, ""),
                speaker=each.chunk.speaker,
                start_seconds=round(each.span.start_seconds, 6),
                end_seconds=round(each.span.end_seconds, 6),
                source=source,
                reason=each.reason,
                words=[
                    WordOut(
                        text=text[word.start : word.end].replace(MASK, ""),
                        start_seconds=round(word.start_seconds, 3),
                        end_seconds=round(word.end_seconds, 3),
                    )
                    for word in each.words
                ],
            )

    content = with_items(body, "chunks", items())
    return Answer(content, lasting=state.word_aligner is None or "estimated" not in sources)


def _timed_words(state: AppState, id: str, owner: str | None) -> tuple[Document, str, Iterator[TimedChunk], bool]:
    """A key's document, its text without tags, its chunks with words, and True while some are to be recognised."""
    document_stream.check_has_text(state.store.document(id, owner), "times")
    document, chunks = state.store.snapshot(id)
    text = masked(state.store.text(id))
    found = None if state.word_aligner is None else state.word_aligner.found(document, chunks)
    aligned = None if found is None else found.chunks
    timed_chunks = word_times(text, with_spans(chunks, state.pauses), document.language, aligned)
    return document, text, timed_chunks, found is not None and found.waiting


def chapter_of(state: AppState, id: str, index: int) -> tuple[Document, TimedChapter, tuple[StoredChunk, ...]]:
    """A document, a chapter of it whose sound is known, and its chunks up to the end of that.

    Raises:
        NotFoundError: there is no such chapter.
        ConflictError: it is not spoken yet.
    """
    chapters = state.store.chapters(id)
    document, chunks = state.store.snapshot(id)
    found = tuple(timed(chapters, len(chunks), ChunkTimes.of(chunks, state.pauses).spans))
    if index >= len(found):
        raise NotFoundError(
            f"document {id} has no chapter {index}: "
            + (f"it has {len(found)}, counted from 0" if found else "it has none, for its text has no headings"),
            parameter="chapter",
        )
    if found[index].end_seconds is None:
        raise ConflictError(f"chapter {index} of document {id} is not spoken yet: its audio comes later")
    return document, found[index], chunks[: found[index].last + 1]
