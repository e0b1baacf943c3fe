"""Streams of a document while it is spoken: its audio in text order, its changes as server-sent events."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync

from voxyard.service.documents.records import Chunk, Document
from voxyard.service.errors import ConflictError, NotFoundError
from voxyard.service.routes import serializers
from voxyard.service.state import Services
from voxyard.service.streaming.audio_response import Recording, in_thread
from voxyard.speech.audio.encoder import Format

if TYPE_CHECKING:
    from voxyard.service.documents.queue import Desk

HEARTBEAT = 15.0  # seconds between two signs of life to a client that follows a document
PACE = 0.1  # seconds that changes are gathered before they are looked at
_Seen = tuple[str, float | None, float | None]  # a chunk's state and times


@contextlib.asynccontextmanager
async def _hearing(desk: Desk, id: str) -> AsyncGenerator[None, None]:
    """Counts a listener of the document; one that is cut off is counted out all the same."""
    await run_sync(desk.listen, id, True)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(desk.listen, id, False)


async def sound(
    services: Services,
    document: Document,
    format: Format,
    speed: float,
) -> AsyncGenerator[bytes, None]:
    """The document's sound in text order, each chunk as soon as it is there, until the last.

    Raises:
        NotFoundError: it was deleted.
        ConflictError: it failed.
    """
    chunks = await run_sync(services.store.chunks, document.id)
    whole = serializers.timed(chunks, services.pauses).spans if document.state == "completed" else ()

    def recording() -> Recording[Chunk]:
        return Recording(
            lambda parts: services.shelf.pieces(document.id, parts, services.pauses),
            format,
            speed=speed,
            samples=whole[-1].end if whole else None,
        )

    at, seen = 0, services.changes.version(document.id)
    async with contextlib.AsyncExitStack() as stack:
        if document.state != "completed":
            await stack.enter_async_context(_hearing(services.desk, document.id))
        record = stack.enter_context(contextlib.closing(recording()))
        while True:
            while at < len(chunks) and chunks[at].samples is not None:
                yield await in_thread(record.add, chunks[at])
                at += 1
            if at == len(chunks):
                break
            seen = await services.changes.wait(document.id, seen, HEARTBEAT)
            await _check_goes_on(services, document.id)
            chunks = await run_sync(services.store.chunks, document.id)
        yield await in_thread(record.finish)


async def _check_goes_on(services: Services, id: str) -> None:
    document = await run_sync(services.store.document, id)
    if document.state == "failed":
        raise ConflictError(failure(document))


def failure(document: Document) -> str:
    """Error message of a failed document that has no audio."""
    reason = document.reason or "no reason is known"
    return f"document {document.id} has failed: {reason}; POST /v1/documents/{document.id}/retry speaks it again"


@dataclass
class _Told:
    """Chunks that a client has been told of; `whole` of them, from the first on, with their times."""

    whole: int
    chunks: dict[int, _Seen] = field(default_factory=dict)

    def news(self, at: serializers.Timed) -> Iterator[tuple[Chunk, _Seen]]:
        """The chunks of which there is something to tell."""
        for chunk in at.chunks[self.whole :]:
            now = (chunk.state, *at.times(chunk.index))
            before = self.chunks.get(chunk.index, ("waiting", None, None))
            if now != before:
                self.chunks[chunk.index] = now
                yield chunk, now
        for index in range(self.whole, len(at.spans)):
            self.chunks.pop(index, None)
        self.whole = max(self.whole, len(at.spans))


async def events(services: Services, id: str, last_event: str | None) -> AsyncGenerator[bytes, None]:
    """Server-sent events until the document has come to its end.

    `progress` is the document, `chunk` a chunk that ended, or whose times are known by now; `end` is the last. An
    event's id counts the chunks, from the first on, that were told of with their times: a client that comes back with
    it hears the others, some of them perhaps again.
    """
    told = _Told(int(last_event) if last_event is not None and last_event.isascii() and last_event.isdigit() else 0)
    while True:
        seen = services.changes.version(id)
        try:
            document = await run_sync(services.store.document, id)
            chunks = await run_sync(services.store.chunks, id)
        except NotFoundError:
            yield _event("end", {"id": id, "state": "deleted"}, told.whole)
            return
        at = serializers.timed(chunks, services.pauses)
        for chunk, (state, start, end) in told.news(at):
            facts = {"index": chunk.index, "state": state, "start_seconds": start, "end_seconds": end}
            yield _event("chunk", {**facts, "reason": chunk.reason}, min(told.whole, chunk.index))
        progress = serializers.document(document, time.time(), at).model_dump(exclude={"chunks"})
        yield _event("progress", progress, told.whole)
        if document.state in ("completed", "failed"):
            yield _event("end", {"id": id, "state": document.state}, told.whole)
            return
        while await services.changes.wait(id, seen, HEARTBEAT) == seen:
            yield b": still there\n\n"
        await anyio.sleep(PACE)


def _event(name: str, data: dict[str, object], number: int) -> bytes:
    return f"id: {number}\nevent: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
