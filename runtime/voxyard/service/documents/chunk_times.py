"""Times of chunks in the joined audio: computed from lengths alone, as `speech.audio.joining` joins them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from voxyard.service.documents.records import StoredChunk
from voxyard.speech.audio.joining import JoinTimeline, Pauses, Span


class ChunkTimeline:
    """Spans of chunks that are added in text order."""

    def __init__(self, pauses: Pauses) -> None:
        self._timeline = JoinTimeline(pauses)
        self.spans: list[Span] = []

    def add(self, chunk: StoredChunk) -> bool:
        """Adds the span of the next chunk; False where the chunk has no audio (yet)."""
        if chunk.samples is None:
            return False
        self.spans.append(self._timeline.add(chunk.samples, chunk.joint))
        return True


def with_spans(chunks: Iterable[StoredChunk], pauses: Pauses) -> Iterator[tuple[StoredChunk, Span]]:
    """Chunks with their spans, in text order, up to the first that has no audio (yet)."""
    timeline = ChunkTimeline(pauses)
    for chunk in chunks:
        if not timeline.add(chunk):
            return
        yield chunk, timeline.spans[-1]
