"""Long answers: made in threads by turns of the keys, once for each state of a completed document, and kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import anyio
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from voxyard.service.documents.records import Document
from voxyard.service.fairness import FairThreads, LimitsOf, no_limits
from voxyard.service.http.errors import ConnectionCut
from voxyard.service.streaming.audio_response import BLOCK, STALL

KEPT_BYTES = 64 << 20
"""Most bytes of answers that are kept: the times of the words of a book of 16 hours have about 12 MiB."""
JSON = "application/json"


@dataclass(frozen=True)
class Answer:
    """Body of a response, its headers, and False where it may be another one the next time."""

    content: bytes
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    lasting: bool = True

    def response(self, headers: Mapping[str, str] = {}) -> Response:
        """The response, with further headers."""
        return _BlocksResponse(self.content, media_type=self.media_type, headers={**self.headers, **headers})


def with_items(body: BaseModel, name: str, items: Iterable[BaseModel]) -> bytes:
    """JSON of a body whose list of this name is empty, with these items in it.

    Each is made by itself: no other thread computes while pydantic writes a body, and a long one takes half a second.
    """
    made = b",".join([item.model_dump_json().encode() for item in items])
    before, key, after = body.model_dump_json().encode().partition(f'"{name}":['.encode())
    return b"".join((before, key, made, after))


class _BlocksResponse(Response):
    """A body that is sent block by block, as fast as its client reads: all of it at once would hold up the others."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(self.body)
        for at in range(0, max(1, len(body)), BLOCK):
            block, more = bytes(body[at : at + BLOCK]), at + BLOCK < len(body)
            try:
                with anyio.fail_after(STALL):
                    await send({"type": "http.response.body", "body": block, "more_body": more})
            except TimeoutError:
                raise ConnectionCut(f"its client has read nothing for {STALL:g} s") from None


class Answers:
    """Answers about documents; those used last are kept. Used from one event loop."""

    def __init__(self, limits: LimitsOf = no_limits, *, kept_bytes: int = KEPT_BYTES) -> None:
        self._threads = FairThreads("voxyard-answers", limits)
        self._most, self._size = kept_bytes, 0
        self._kept: dict[Hashable, Answer] = {}  # in order of use
        self._lock = threading.Lock()

    async def get(self, document: Document, kind: Hashable, make: Callable[[], Answer]) -> Answer:
        """The answer of this kind about a document, which `make` makes in a thread where it is not kept."""
        key = (document.id, document.revision, document.audio, document.changes, kind)
        completed = document.state == "completed"
        found = self._find(key) if completed else None
        if found is not None:
            return found
        return await self._threads.run(document.owner, partial(self._made, key, make, keep=completed))

    def _made(self, key: Hashable, make: Callable[[], Answer], *, keep: bool) -> Answer:
        found = self._find(key) if keep else None  # made by the request before, while this one waited
        if found is None:
            found = make()
            if keep and found.lasting:
                self._keep(key, found)
        return found

    def _find(self, key: Hashable) -> Answer | None:
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found
            return found

    def _keep(self, key: Hashable, answer: Answer) -> None:
        if len(answer.content) > self._most / 2:
            return
        with self._lock:
            self._kept[key] = answer
            self._size += len(answer.content)
            while self._size > self._most:
                self._size -= len(self._kept.pop(next(iter(self._kept))).content)
