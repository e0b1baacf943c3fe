"""Timeline of chunks in the joined audio: computed from lengths alone, as `speech.audio.joining` joins them."""

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


def with_spans(chunks: Iterable[StoredChunk], pauses: Pauses) -> Iterator[tuple[StoredChunk, Span]]:
    """Chunks with their spans, in text order, up to the first that has no audio (yet)."""
    position, pending = 0, 0.0
    for chunk in chunks:
        if chunk.samples is None:
            return
        if not chunk.samples:
            pending = max(pending, pauses.after(chunk.ending) if position else 0.0)
            yield chunk, Span(position, position, position)
            continue
        start = position + round(pending * SAMPLE_RATE)
        yield chunk, Span(position, start, start + chunk.samples)
        position, pending = start + chunk.samples, pauses.after(chunk.ending)
