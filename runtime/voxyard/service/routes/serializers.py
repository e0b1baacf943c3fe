"""Documents as a client sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from voxyard.service.documents.chunk_times import Span, located
from voxyard.service.documents.records import Chunk, Document
from voxyard.service.routes.schemas import AudioOut, ChunkOut, DocumentOut, ProgressOut
from voxyard.speech.audio.joining import Pauses


@dataclass(frozen=True)
class Timed:
    """A document's chunks with their places in the sound, as far as these are known."""

    chunks: tuple[Chunk, ...]
    spans: tuple[Span, ...]

    @property
    def ready_seconds(self) -> float:
        """Sound that can be heard from the beginning on without a gap."""
        return self.spans[-1].end_seconds if self.spans else 0.0

    def times(self, index: int) -> tuple[float | None, float | None]:
        """Start and end of a chunk, in seconds."""
        if index >= len(self.spans):
            return None, None
        return round(self.spans[index].start_seconds, 6), round(self.spans[index].end_seconds, 6)


def timed(chunks: Sequence[Chunk], pauses: Pauses) -> Timed:
    """The chunks with their times."""
    return Timed(tuple(chunks), tuple(span for _, span in located(chunks, pauses)))


def document(record: Document, now: float, at: Timed | None = None, text: str | None = None) -> DocumentOut:
    """A document; with `text`, its chunks too. Times are Unix seconds."""
    return DocumentOut(
        id=record.id,
        title=record.title,
        state=record.state,
        created=record.created,
        started=record.started,
        finished=record.finished,
        progress=_progress(record, now),
        voice=record.voice,
        seed=record.seed,
        language=record.language,
        on_failure=record.on_failure,
        reason=record.reason,
        parked=record.parked,
        reduced=record.reduced,
        audio=AudioOut(
            url=f"/v1/documents/{record.id}/audio",
            ready_seconds=None if at is None else round(at.ready_seconds, 6),
            complete=record.state == "completed",
        ),
        chunks=None if at is None or text is None else [chunk(each, at, text) for each in at.chunks],
    )


def chunk(record: Chunk, at: Timed, text: str) -> ChunkOut:
    """A chunk of the document with this text."""
    start, end = at.times(record.index)
    return ChunkOut(
        index=record.index,
        text=text[record.start : record.end],
        state=record.state,
        start_seconds=start,
        end_seconds=end,
        reason=record.reason,
    )


def _progress(record: Document, now: float) -> ProgressOut:
    ratio = record.chunks_done / record.chunks if record.chunks else 1.0
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
