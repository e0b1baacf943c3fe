"""Times of chunks in the joined audio: computed from lengths alone, as `speech.audio.joining` joins them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from voxyard.service.documents.records import StoredChunk
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.requests import SAMPLE_RATE


@dataclass(frozen=True)
class Span:
    """Position of a chunk in the joined audio: samples [start, end), after a pause of samples [begin, start)."""

    begin: int
    start: int
    end: int

    @property
    def start_seconds(self) -> float:
        """Start of the chunk in seconds."""
        return self.start / SAMPLE_RATE

    @property
    def end_seconds(self) -> float:
        """End of the chunk in seconds."""
        return self.end / SAMPLE_RATE


class ChunkTimeline:
    """Spans of chunks that are added in text order."""

    def __init__(self, pauses: Pauses) -> None:
        self._pauses, self._position, self._pending = pauses, 0, 0.0
        self.spans: list[Span] = []

    def add(self, chunk: StoredChunk) -> bool:
        """Adds the span of the next chunk; False where the chunk has no audio (yet)."""
        if chunk.samples is None:
            return False
        if not chunk.samples:
            self._pending = max(self._pending, self._pauses.after(chunk.joint) if self._position else 0.0)
            self.spans.append(Span(self._position, self._position, self._position))
            return True
        start = self._position + round(self._pending * SAMPLE_RATE)
        self.spans.append(Span(self._position, start, start + chunk.samples))
        self._position, self._pending = start + chunk.samples, self._pauses.after(chunk.joint)
        return True


def with_spans(chunks: Iterable[StoredChunk], pauses: Pauses) -> Iterator[tuple[StoredChunk, Span]]:
    """Chunks with their spans, in text order, up to the first that has no audio (yet)."""
    timeline = ChunkTimeline(pauses)
    for chunk in chunks:
        if not timeline.add(chunk):
            return
        yield chunk, timeline.spans[-1]
