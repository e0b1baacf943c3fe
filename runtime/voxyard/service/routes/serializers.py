"""Serializers: stored documents, with the times of their chunks, to response schemas."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from voxyard.service.audiobook.chapters import timed
from voxyard.service.documents.records import Chapter, Document, StoredChunk, spanned, with_spans
from voxyard.service.documents.store import Store
from voxyard.service.names import VoiceName
from voxyard.service.routes.schemas import (
    AudioOut,
    ChapterOut,
    ChunkOut,
    DocumentOut,
    FailedRedoOut,
    ProgressOut,
    RedoOut,
    VoiceOut,
)
from voxyard.service.voices.table import shown_name
from voxyard.speech.audio.joining import JoinTimeline, Pauses, Span

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
    """Times of the chunks of documents that were looked at last; a look reads only those that have got audio since.

    May be used from several threads.
    """

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
            new = [span for _, span in spanned(found, entry.timeline)]
            entry.spans += new
            if len(new) < len(found):
                return
            page = min(2 * page, _LARGEST_PAGE)


@dataclass(frozen=True)
class ChunkTimes:
    """Spans of a document's chunks in the joined audio, as far as these are known, and its chunks where asked for."""

    chunks: tuple[StoredChunk, ...]
    spans: Sequence[Span]

    @property
    def ready_seconds(self) -> float:
        """Contiguous audio from the beginning, in seconds."""
        return self.spans[-1].end_seconds if self.spans else 0.0

    @classmethod
    def of(cls, chunks: Sequence[StoredChunk], pauses: Pauses) -> ChunkTimes:
        """Times of these chunks, which come in text order."""
        return cls(tuple(chunks), tuple(span for _, span in with_spans(chunks, pauses)))

    def times(self, index: int) -> tuple[float | None, float | None]:
        """Start and end of a chunk in seconds; None while unknown."""
        if index >= len(self.spans):
            return None, None
        return round(self.spans[index].start_seconds, 6), round(self.spans[index].end_seconds, 6)


def document(record: Document, now: float, at: ChunkTimes | None = None, *, prefix: str = "") -> DocumentOut:
    """Response of a document without its chunks. `now` is in Unix seconds, `prefix` that of URLs."""
    return DocumentOut(
        id=record.id,
        title=record.title,
        author=record.author,
        note=record.note,
        state=record.state,
        created=record.created,
        started=record.started,
        finished=record.finished,
        progress=_progress(record, now),
        voice=shown_name(record.voice),
        seed=record.seed,
        language=record.language,
        on_failure=record.on_failure,
        reason=record.reason,
        code=record.code,
        retriable=record.retriable,
        phase="extracting" if record.extracting else None,
        parked=record.parked,
        reduced=record.reduced,
        revision=record.revision,
        audio=AudioOut(
            url=f"{prefix}/v1/documents/{record.id}/audio",
            ready_seconds=None if at is None else round(at.ready_seconds, 6),
            complete=record.state == "completed",
        ),
        chunks=None,
    )


def redo(store: Store, id: str) -> RedoOut:
    """Chunks of a document that are to be spoken again; those that could not be, with their reasons.

    To be read before the document itself, which then has the audio of all chunks that no longer wait. Raises
    NotFoundError.
    """
    found = store.redos(id).items()
    return RedoOut(
        waiting=[index for index, each in found if each.reason is None],
        failed=[FailedRedoOut(index=index, reason=each.reason) for index, each in found if each.reason is not None],
    )


def chapters(found: Sequence[Chapter], chunks: int, at: ChunkTimes) -> list[ChapterOut]:
    """Response of the chapters of a document of so many chunks."""
    return [
        ChapterOut(
            index=index,
            title=each.title,
            level=each.level,
            first_chunk=each.first,
            last_chunk=each.last,
            start_seconds=None if each.start_seconds is None else round(each.start_seconds, 6),
            end_seconds=None if each.end_seconds is None else round(each.end_seconds, 6),
        )
        for index, each in enumerate(timed(found, chunks, at.spans))
    ]


def chunk(record: StoredChunk, at: ChunkTimes, text: str) -> ChunkOut:
    """Response of a chunk of the document with this text."""
    start, end = at.times(record.index)
    return ChunkOut(
        index=record.index,
        text=text[record.start : record.end],
        ending=record.ending,
        state=record.state,
        start_seconds=start,
        end_seconds=end,
        reason=record.reason,
        speaker=record.speaker,
        voice=shown_name(record.voice),
        seed=record.seed,
    )


def voice(found: VoiceName) -> VoiceOut:
    """Response of a voice name."""
    own = found.uploaded
    return VoiceOut(
        id=found.name,
        name=found.title,
        language=found.language,
        gender=found.gender,
        alias_of=found.alias_of,
        uploaded=own is not None,
        description=None if own is None else own.description,
        mixed=None if own is None or own.mixed is None else dict(own.mixed),
    )


def _progress(record: Document, now: float) -> ProgressOut:
    ratio = record.chunks_done / record.chunks if record.chunks else float(not record.extracting)
    return ProgressOut(
        chunks=record.chunks,
        done=record.chunks_done,
        failed=record.chunks_failed,
        ratio=round(ratio, 6),
        audio_seconds=round(record.audio_seconds, 6),
        estimated_seconds=round(record.estimated_seconds, 3),
        eta_seconds=_eta(record, ratio, now),
    )


def _eta(record: Document, ratio: float, now: float) -> float | None:
    if record.state == "completed":
        return 0.0
    if record.state != "processing" or record.started is None or not ratio or record.parked is not None:
        return None
    return round(max(0.0, now - record.started) / ratio * (1 - ratio), 1)


_NO_NAME = re.compile(r'[\\/:*?"<>|\s\u202a-\u202e\u2066-\u2069]+')  # the last turn the order of letters around
_NAME_BYTES = 240  # of 255, which file systems take


def disposition(record: Document, suffix: str, *, download: bool, part: str | None = None) -> str:
    """Content-Disposition of a file of a document, or of a part of it, named after its title."""
    title = record.title if part is None else f"{record.title[:60]} - {part}"
    name = _NO_NAME.sub(" ", title).strip(" .")[:100].encode()[:_NAME_BYTES].decode(errors="ignore") or "voxyard"
    plain = re.sub(r"[^A-Za-z0-9 ._-]", "_", name)
    kind = "attachment" if download else "inline"
    return f"{kind}; filename=\"{plain}.{suffix}\"; filename*=UTF-8''{quote(f'{name}.{suffix}', safe='')}"
