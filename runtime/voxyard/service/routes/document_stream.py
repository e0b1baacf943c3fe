"""Streams of a document in progress: its audio in text order, its changes as server-sent events."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import time
from collections.abc import AsyncGenerator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO

import anyio
from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from voxyard.service.audio.store import audio_name
from voxyard.service.documents.records import Document, StoredChunk
from voxyard.service.errors import (
    BusyError,
    ConflictError,
    NotFoundError,
    ServiceError,
    UnavailableError,
    without_paths,
)
from voxyard.service.routes import serializers
from voxyard.service.routes.serializers import ChunkTimes
from voxyard.service.state import AppState
from voxyard.service.streaming.audio_response import StreamEncoder
from voxyard.service.streaming.shared_encoding import Pieces, SharedEncoding
from voxyard.speech.audio.encoder import Format, Tags
from voxyard.speech.audio.joining import JoinTimeline, Piece, Span

if TYPE_CHECKING:
    from voxyard.service.audiobook.chapters import TimedChapter
    from voxyard.service.documents.queue import DocumentQueue

HEARTBEAT = 15.0  # seconds between two comments on an idle event stream
COALESCE_SECONDS = 0.1  # minimum interval between two reads of the store
MOST_EVENTS = 100
"""Most event streams of one key at a time: each reads the store after each change of its document."""
_PAGE = 64  # chunks read at a time
COPY_SECONDS = 2.0
"""Time that a request waits for a copy to be encoded, before it is answered with what there is, without a length."""
_EVENT_ID = re.compile(r"[0-9]{1,18}", re.ASCII)  # any other is none of ours
_SentState = tuple[str, float | None, float | None]  # state, start and end (seconds) of a chunk


@contextlib.asynccontextmanager
async def _counted_listener(queue: DocumentQueue, id: str) -> AsyncGenerator[None, None]:
    """Counts a listener of the document for the block, also where the block is cancelled."""
    await run_sync(queue.listen, id, True)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(queue.listen, id, False)


def shared_audio(state: AppState, document: Document, format: Format, speed: float) -> AsyncGenerator[bytes, None]:
    """As `audio`; readers of one document, format and speed share one encoding."""
    key, pieces = _encoding(state, document, format, speed)
    return state.encodings.read(key, pieces, state.section.data_dir)


async def encoded_copy(state: AppState, document: Document, format: Format) -> AsyncGenerator[bytes, None] | None:
    """Audio of a completed document in a format of which there is no copy yet, while it is encoded and kept.

    None where the copy was there within `COPY_SECONDS`.
    """
    name = audio_name(document.audio, format)

    def keep(file: BinaryIO) -> None:
        with contextlib.suppress(ServiceError):  # replaced since it was read, it is the new audio
            if state.store.document(document.id).audio == document.audio:
                state.audio_store.keep_copy(document.id, document.audio, format, file)

    key, pieces = _encoding(state, document, format, 1.0)
    stack = contextlib.AsyncExitStack()
    joined = state.encodings.joined(key, pieces, state.section.data_dir, keep)
    async with stack:
        encoding = await stack.enter_async_context(joined)
        await encoding.wait(COPY_SECONDS)
        if await run_sync(state.audio_store.size, document.id, name) is not None:
            return None
        left = stack.pop_all()
    following = _follow(encoding, left)
    await anext(following)
    return following


async def _follow(encoding: SharedEncoding, joined: contextlib.AsyncExitStack) -> AsyncGenerator[bytes, None]:
    async with joined, contextlib.aclosing(encoding.read()) as blocks:
        yield b""  # it has begun: closing it leaves the encoding, also where nothing is read
        async for block in blocks:
            yield block


def _encoding(state: AppState, document: Document, format: Format, speed: float) -> tuple[Hashable, Pieces]:
    """Key of a shared encoding, and what it encodes."""
    key = (document.id, document.audio, document.state == "completed", format, speed)
    return key, lambda threads: audio(state, document, format, speed, threads)


async def audio(
    state: AppState,
    document: Document,
    format: Format,
    speed: float,
    threads: CapacityLimiter | None = None,
) -> AsyncGenerator[bytes, None]:
    """Encoded audio of a document in text order, each chunk as soon as it is stored.

    Raises:
        NotFoundError: the document was deleted.
        ConflictError: the document failed.
        UnavailableError: the service is shutting down; the next start goes on with the document.
    """
    seen = state.notifier.version(document.id)
    kept: Sequence[StoredChunk] = ()
    whole: Sequence[Span] = ()
    if document.state == "completed":  # of one moment: chunks may be spoken again while it is read
        document, kept = await run_sync(state.store.snapshot, document.id)
        whole = ChunkTimes.of(kept, state.pauses).spans
    while document.extracting:
        seen = await _next_change(state, document.id, seen)
        document = await run_sync(state.store.document, document.id)
    timeline = JoinTimeline(state.pauses)

    def piece(chunk: StoredChunk) -> Piece:
        span = timeline.add(chunk.samples or 0, chunk.joint)
        return state.audio_store.piece(document.id, chunk, span, state.pauses, document.audio)

    completed = document.state == "completed"
    encoder = StreamEncoder(
        piece,
        format,
        speed=speed,
        samples=whole[-1].end if whole else None,
        tags=Tags(document.title, document.author, language=document.language),
        heard=None if completed else state.metrics.stream_heard,  # it is read, not waited for
    )
    async with contextlib.AsyncExitStack() as stack:
        if not completed:
            await stack.enter_async_context(_counted_listener(state.queue, document.id))
        blocks = encoder.encoded(_stored(state, document, kept, seen), document.chunks, threads)
        async for block in await stack.enter_async_context(contextlib.aclosing(blocks)):
            yield block


async def _stored(
    state: AppState, document: Document, kept: Sequence[StoredChunk], seen: int
) -> AsyncGenerator[StoredChunk, None]:
    """The chunks of a document in text order, each as soon as it is stored; `kept` are those that are read already.

    `seen` is the version of the document when it was read. Raises as `audio`.
    """
    at = 0
    while at < document.chunks:
        found = kept[at:] or await run_sync(state.store.chunks_from, document.id, at, _PAGE)
        for chunk in itertools.takewhile(lambda each: each.samples is not None, found):
            yield chunk
            at += 1
        if found and at <= found[-1].index:
            seen = await _next_change(state, document.id, seen)


async def _next_change(state: AppState, id: str, seen: int) -> int:
    """Waits for the next change of a document that is in progress. Raises as `audio`."""
    if state.notifier.closed:
        raise UnavailableError("the service is shutting down: retry in 10 s", retry_after=10.0)
    seen = await state.notifier.wait(id, seen, HEARTBEAT)
    if (document := await run_sync(state.store.document, id)).state == "failed":
        raise ConflictError(failure(document))
    return seen


async def chapter_audio(
    state: AppState,
    document: Document,
    chunks: Sequence[StoredChunk],
    chapter: TimedChapter,
    format: Format,
    speed: float,
) -> AsyncGenerator[bytes, None]:
    """Encoded audio of the chapter that these chunks end with; all have their sound.

    Raises:
        NotFoundError: the document was deleted.
    """
    first, spans = chapter.first, ChunkTimes.of(chunks, state.pauses).spans

    def piece(chunk: StoredChunk) -> Piece:
        span = spans[chunk.index]
        if chunk.index == first:  # without the pause before it
            span = replace(span, begin=span.start)
        return state.audio_store.piece(document.id, chunk, span, state.pauses, document.audio)

    async def parts() -> AsyncGenerator[StoredChunk, None]:
        for chunk in chunks[first:]:
            yield chunk

    samples, tags = (
        spans[-1].end - spans[first].start,
        Tags(chapter.title, document.author, document.title, document.language),
    )
    encoder = StreamEncoder(piece, format, speed=speed, samples=samples, tags=tags)
    async with contextlib.aclosing(encoder.encoded(parts(), len(chunks) - first)) as blocks:
        async for block in blocks:
            yield block


def check_has_text(document: Document, what: str) -> None:
    """Raises ConflictError with what has happened to a document that has no text: it failed, or is being read."""
    if document.state == "failed" and not document.chunks:
        raise ConflictError(failure(document))
    if document.extracting:
        raise ConflictError(f"the text of document {document.id} is being read: ask for its {what} after that")


def failure(document: Document) -> str:
    """Error message of a failed document that has no audio."""
    reason = document.reason or "unknown reason"
    again = f"; POST /v1/documents/{document.id}/retry retries it" if document.retriable else ""
    return f"document {document.id} failed: {reason}{again}"


@dataclass
class _SentChunks:
    """Chunks that a client has received; `whole` counts those received with times, from the first."""

    whole: int
    changes: int = -1  # of the document, as of the last look
    resets: int | None = None
    chunks: dict[int, _SentState] = field(default_factory=dict)

    def look(self, state: AppState, id: str) -> tuple[Document, ChunkTimes, list[StoredChunk]]:
        """The document, its times, and the chunks that may have changed since the last look. Raises NotFoundError."""
        document, changed = state.store.changed_chunks(id, self.changes)
        if self.resets not in (None, document.resets):  # chunks wait again: the times of all may change
            self.whole = 0
            self.chunks = dict.fromkeys((chunk.index for chunk in changed), ("unknown", None, None))
        self.changes, self.resets = document.changes, document.resets
        at = ChunkTimes((), state.timelines.spans(document)[:])
        timed = state.store.chunks_from(id, self.whole, max(0, len(at.spans) - self.whole))
        found = {chunk.index: chunk for chunk in (*changed, *timed) if chunk.index >= self.whole}
        return document, at, [found[index] for index in sorted(found)]

    def new_events(self, at: ChunkTimes, found: Sequence[StoredChunk]) -> Iterator[tuple[StoredChunk, _SentState]]:
        """Those of the chunks that have changed since they were last sent."""
        for chunk in found:
            now = (chunk.state, *at.times(chunk.index))
            before = self.chunks.get(chunk.index, ("waiting", None, None))
            if now != before:
                self.chunks[chunk.index] = now
                yield chunk, now
        for index in range(self.whole, len(at.spans)):
            self.chunks.pop(index, None)
        self.whole = max(self.whole, len(at.spans))


async def events_of_key(
    state: AppState, owner: str, id: str, last_event: str | None, prefix: str
) -> AsyncGenerator[bytes, None]:
    """As `events`, while the key has fewer than `MOST_EVENTS` such streams. Raises BusyError where it has as many."""
    streams = state.open_events
    if streams[owner] >= MOST_EVENTS:
        raise BusyError(f"{MOST_EVENTS} event streams of the key are open: close one of them", retry_after=1)
    streams[owner] += 1
    try:
        async with contextlib.aclosing(events(state, id, last_event, prefix)) as told:
            async for event in told:
                yield event
    finally:
        streams[owner] -= 1
        if not streams[owner]:
            del streams[owner]


async def events(state: AppState, id: str, last_event: str | None, prefix: str = "") -> AsyncGenerator[bytes, None]:
    """Server-sent events until the document is completed, failed or deleted, or the service shuts down.

    `progress` has the document, `chunk` a chunk with a new state or new times; `end` is the last event. An event's id
    is the number of chunks, from the first, that were sent with times: a client that reconnects with it receives the
    others, some of them perhaps again. A stream without `end` is to be connected again.

    The first look reads all chunks, each further one those that have changed.
    """
    last_event = last_event or ""
    sent = _SentChunks(int(last_event) if _EVENT_ID.fullmatch(last_event) else 0)
    while True:
        seen = state.notifier.version(id)
        try:
            redo = await run_sync(serializers.redo, state.store, id)
            document, at, found = await run_sync(sent.look, state, id)
        except NotFoundError:
            yield _event("end", {"id": id, "state": "deleted"}, sent.whole)
            return
        for chunk, (chunk_state, start, end) in sent.new_events(at, found):
            facts = {"index": chunk.index, "state": chunk_state, "start_seconds": start, "end_seconds": end}
            reason = None if chunk.reason is None else without_paths(chunk.reason)
            yield _event("chunk", {**facts, "reason": reason}, min(sent.whole, chunk.index))
        out = serializers.document(document, time.time(), at, prefix=prefix)
        out.redo = redo
        progress = out.model_dump(exclude={"chunks"})
        yield _event("progress", progress, sent.whole)
        if document.state == "failed" or (document.state == "completed" and not progress["redo"]["waiting"]):
            yield _event("end", {"id": id, "state": document.state}, sent.whole)
            return
        while await state.notifier.wait(id, seen, HEARTBEAT) == seen:
            if state.notifier.closed:
                return
            yield b": keep-alive\n\n"
        await anyio.sleep(COALESCE_SECONDS)


def _event(name: str, data: dict[str, object], number: int) -> bytes:
    return f"id: {number}\nevent: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
