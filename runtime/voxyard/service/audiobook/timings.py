"""Times of words in the joined audio, estimated from their lengths within the sound of their chunk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from voxyard.service.documents.chunk_times import Span
from voxyard.service.documents.records import StoredChunk
from voxyard.speech.text.duration import milliseconds
from voxyard.speech.text.sentences import language_code

# A word between blanks; a character of a script that puts no blanks between words is one by itself.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff][^\w\s]*|[^\s\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)


@dataclass(frozen=True)
class WordTime:
    """Word: characters [start, end) of the text, and the seconds of its sound."""

    start: int
    end: int
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class TimedChunk:
    """Chunk with the times of its words."""

    chunk: StoredChunk
    span: Span
    words: tuple[WordTime, ...]


def word_times(text: str, chunks: Iterable[tuple[StoredChunk, Span]], language: str | None) -> Iterator[TimedChunk]:
    """Chunks of a text with the times of their words.

    The sound of a chunk is shared among its words by the estimated duration of each, blanks after it included (see
    `speech.text.duration`).
    """
    sums = milliseconds(text, language_code(language))
    for chunk, span in chunks:
        found = [match.span() for match in _WORD.finditer(text, chunk.start, chunk.end)]
        edges = [start for start, _ in found] + [chunk.end]
        weights = [sums[after] - sums[before] for before, after in pairwise(edges)]
        if not any(weights):
            weights = [after - before for before, after in pairwise(edges)]
        seconds = span.end_seconds - span.start_seconds
        total, passed, words = sum(weights), 0, list[WordTime]()
        for (start, end), weight in zip(found, weights, strict=True):
            begin = span.start_seconds + seconds * passed / total
            passed += weight
            words.append(WordTime(start, end, begin, span.start_seconds + seconds * passed / total))
        yield TimedChunk(chunk, span, tuple(words))
