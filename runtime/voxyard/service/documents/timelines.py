"""Times of chunks by document, kept between two looks: each reads only the chunks that have got their audio since."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from voxyard.service.documents.chunk_times import ChunkTimeline
from voxyard.service.documents.records import Document
from voxyard.service.documents.store import Store
from voxyard.speech.audio.joining import Pauses, Span

_MOST = 64  # documents; of another one all chunks are read again
_FIRST_PAGE, _LARGEST_PAGE = 8, 1024  # chunks read at a time: few have changed since the last look


@dataclass(eq=False)
class _Entry:
    timeline: ChunkTimeline
    resets: int
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
                entry = _Entry(ChunkTimeline(self._pauses), document.resets)
            self._entries[document.id] = entry
            if len(self._entries) > _MOST:
                del self._entries[next(iter(self._entries))]
        with entry.lock:
            if entry.changes != document.changes:
                self._extend(entry.timeline, document.id)
                entry.changes = document.changes
            return entry.timeline.spans

    def _extend(self, timeline: ChunkTimeline, id: str) -> None:
        page = _FIRST_PAGE
        while found := self._store.chunks_from(id, len(timeline.spans), page):
            if not all(timeline.add(chunk) for chunk in found):
                return
            page = min(2 * page, _LARGEST_PAGE)
