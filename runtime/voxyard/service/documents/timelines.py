"""Times of chunks by document, kept between two looks: each reads only the chunks that have got their audio since."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from voxyard.service.documents.records import Document, StoredChunk
from voxyard.speech.audio.joining import JoinTimeline, Pauses, Span

if TYPE_CHECKING:
    from voxyard.service.documents.store import Store

_MOST = 64  # documents; of another one all chunks are read again
_FIRST_PAGE, _LARGEST_PAGE = 8, 1024  # chunks read at a time: few have changed since the last look


@dataclass(eq=False)
class _Entry:
    timeline: JoinTimeline
    resets: int
    spans: list[Span] = field(default_factory=list)
    changes: int | None = None  # of the document, at the last look
    lock: threading.Lock = field(default_factory=threading.Lock)


class Timelines:
    """Timelines of the documents that were looked at last. May be used from several threads."""

    def __init__(self, store: Store, pauses: Pauses) -> None:
        self._store, self._pauses = store, pauses
        self._entries: dict[str, _Entry] = {}  # the one looked at last is the last
        self._lock = threading.Lock()

    def spans(self, document: Document) -> Sequence[Span]:
        """Spans of the chunks that have their audio, from the first up to the first without; it grows later.

        Raises:
            NotFoundError: the document was deleted.
        """
        with self._lock:
            entry = self._entries.pop(document.id, None)
            if entry is None or entry.resets != document.resets:
                entry = _Entry(JoinTimeline(self._pauses), document.resets)
            self._entries[document.id] = entry
            if len(self._entries) > _MOST:
                del self._entries[next(iter(self._entries))]
        with entry.lock:
            if entry.changes != document.changes:
                self._extend(entry, document.id)
                entry.changes = document.changes
            return entry.spans

    def _extend(self, entry: _Entry, id: str) -> None:
        page = _FIRST_PAGE
        while found := self._store.chunks_from(id, len(entry.spans), page):
            new = [span for _, span in _spans(found, entry.timeline)]
            entry.spans += new
            if len(new) < len(found):
                return
            page = min(2 * page, _LARGEST_PAGE)


def with_spans(chunks: Iterable[StoredChunk], pauses: Pauses) -> Iterator[tuple[StoredChunk, Span]]:
    """Chunks with their spans, in text order, up to the first that has no audio (yet)."""
    return _spans(chunks, JoinTimeline(pauses))


def _spans(chunks: Iterable[StoredChunk], timeline: JoinTimeline) -> Iterator[tuple[StoredChunk, Span]]:
    for chunk in chunks:
        if chunk.samples is None:
            return
        yield chunk, timeline.add(chunk.samples, chunk.joint)
