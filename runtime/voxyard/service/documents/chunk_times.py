"""Timeline of chunks in the joined audio: computed from lengths alone, as `speech.join` joins them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from voxyard.service.documents.records import Chunk
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.requests import SAMPLE_RATE


@dataclass(frozen=True)
class Span:
    """Samples [start, end) of the joined sound hold a chunk, samples [begin, start) the pause before it."""

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


def located(chunks: Iterable[Chunk], pauses: Pauses) -> Iterator[tuple[Chunk, Span]]:
    """The chunks with their places, in text order; it ends at the first that has no sound (yet)."""
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
