"""Responses with the stored audio of a document: its files or a range of one; its audiobook, written once (M4B)."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from email.utils import formatdate
from functools import partial

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request, status
from starlette.responses import Response, StreamingResponse

from voxyard.service.audio.store import AudioStore, audio_name, book_name
from voxyard.service.audiobook.chapters import write_audiobook
from voxyard.service.documents.records import Document
from voxyard.service.errors import ConflictError, NotFoundError
from voxyard.service.http.errors import envelope
from voxyard.service.routes import document_stream
from voxyard.service.state import AppState
from voxyard.service.streaming.audio_response import LiveResponse
from voxyard.speech.audio import audiobook
from voxyard.speech.audio.encoder import MEDIA_TYPES, Format

log = logging.getLogger(__name__)

PAUSED_STALL_SECONDS = 3600.0  # a paused player reads nothing
_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")


async def document_audio(
    request: Request, state: AppState, document: Document, format: Format, headers: dict[str, str]
) -> Response:
    """Audio of a completed document from its file; encoded first where it is asked for in this format first.

    Where its audio was replaced since it was read, and the file of then is gone, it is the new audio.
    """
    name, media_type = audio_name(document.audio, format), MEDIA_TYPES[format]
    threads = state.encodings.file_threads  # many readers at once wait for each other, and other requests do not
    stored = partial(stored_response, request, state.audio_store, document, name, media_type, headers, threads)
    found = await run_sync(stored, limiter=threads)
    if found is None and (latest := await run_sync(state.store.document, document.id)).audio != document.audio:
        return await document_audio(request, state, latest, format, headers)
    if found is None and format != "wav":
        growing = await document_stream.encoded_copy(state, document, format)
        if growing is not None:
            return LiveResponse(growing, media_type=media_type, headers=headers, stall=PAUSED_STALL_SECONDS)
        found = await run_sync(stored, limiter=threads)
    if found is None:
        there = await run_sync(state.audio_store.names, document.id, limiter=threads)
        log.warning("document %s: %s is not there, only %s", document.id, name, ", ".join(there) or "nothing")
        raise NotFoundError(f"document {document.id} has no complete audio")
    return found


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
    cancelled = threading.Event()
    try:
        return await state.audiobooks.run(
            document.owner, partial(_audiobook_response, request, state, document.id, headers, cancelled)
        )
    finally:
        cancelled.set()


def _audiobook_response(
    request: Request, state: AppState, id: str, headers: dict[str, str], cancelled: threading.Event
) -> Response:
    document, chunks = state.store.snapshot(id)
    chapters, cover = state.store.chapters(id), state.store.cover(id)
    name, threads = book_name(document.audio), state.encodings.file_threads
    try:
        write_audiobook(state.audio_store, document, chunks, state.pauses, chapters, cover, cancelled)
        found = stored_response(request, state.audio_store, document, name, audiobook.MEDIA_TYPE, headers, threads)
        if found is None:
            raise NotFoundError(f"document {id} has no complete audio")
    except NotFoundError:
        if state.store.document(id).audio == document.audio:
            raise
        return _audiobook_response(request, state, id, headers, cancelled)  # of the audio that has replaced it
    return found


def stored_response(
    request: Request,
    audio_store: AudioStore,
    document: Document,
    name: str,
    media_type: str,
    headers: Mapping[str, str],
    threads: CapacityLimiter,
) -> Response | None:
    """A file of a document, or the requested range of it; to HEAD the headers alone; None where there is no such file.

    A Range header that is not a single range, or whose If-Range names another file, is ignored. The file is read in
    the `threads`, one block at a time, by turns with those of other responses. Blocks.
    """
    size = audio_store.size(document.id, name)
    if size is None:
        return None
    # A strong validator: two files of one are the same bytes, whichever service made them.
    etag = f'"{document.id[:16]}-{document.revision}-{name}-{size}"'
    headers = {**headers, "Cache-Control": "private, no-cache", "ETag": etag}
    if not {etag, "*"}.isdisjoint(_tags(request.headers.get("if-none-match"))):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    path = audio_store.path(document.id, name)
    validators = [None, etag]
    if path is not None and path.exists():
        headers["Last-Modified"] = formatdate(path.stat().st_mtime, usegmt=True)
        validators.append(headers["Last-Modified"])
    found = _range(request.headers.get("range")) if request.headers.get("if-range") in validators else None
    start, end = 0, size
    if found is not None:
        if (found[1] and int(found[1]) >= size) or (not found[1] and not int(found[2])):
            return _range_not_satisfiable(found[0], size)
        start = int(found[1]) if found[1] else max(0, size - int(found[2]))
        end = min(size, int(found[2]) + 1) if found[1] and found[2] else size
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    headers |= {"Accept-Ranges": "bytes", "Content-Length": str(end - start)}
    code = status.HTTP_200_OK if found is None else status.HTTP_206_PARTIAL_CONTENT
    if request.method == "HEAD":
        return Response(status_code=code, media_type=media_type, headers=headers)
    blocks = _blocks_of(audio_store.stream(document.id, name, start, end), threads)
    return StreamingResponse(blocks, status_code=code, media_type=media_type, headers=headers)


async def _blocks_of(blocks: Iterator[bytes], threads: CapacityLimiter) -> AsyncGenerator[bytes, None]:
    """The blocks of an iterator that blocks. A reader holds a thread while it reads a block, not while it sends it.

    Args:
        blocks: the bytes of a file, closed at the end where it is a generator.
        threads: the threads that readers share. Those of other requests, which all wait in one line, would let a
            short request wait for a block of each reader.
    """
    try:
        while (block := await run_sync(next, blocks, None, limiter=threads)) is not None:
            yield block
    finally:
        if isinstance(blocks, Generator):
            blocks.close()


def _range(asked: str | None) -> re.Match[str] | None:
    """A header that asks for one range of bytes; None for any other."""
    found = None if asked is None else _RANGE.fullmatch(asked.strip())
    if found is None or found[0] == "bytes=-" or (found[1] and found[2] and int(found[2]) < int(found[1])):
        return None
    return found


def _tags(header: str | None) -> tuple[str, ...]:
    return () if header is None else tuple(tag.strip().removeprefix("W/") for tag in header.split(","))


def _range_not_satisfiable(asked: str, size: int) -> Response:
    """Response to a range that starts after the end of the file."""
    return envelope(
        status.HTTP_416_RANGE_NOT_SATISFIABLE,
        f"range {asked[:100]} not satisfiable: the audio has {size} bytes",
        "invalid_request_error",
        "range_not_satisfiable",
        headers={"Content-Range": f"bytes */{size}"},
    )
