"""Times of words in the joined audio: recognised by an aligner, else estimated from their lengths in their chunk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from voxyard.service.audiobook.aligned_words import AlignedChunk, AlignedWord
from voxyard.service.documents.records import StoredChunk
from voxyard.speech.audio.joining import Span
from voxyard.speech.reading.markup import MASK
from voxyard.speech.text.chunks import milliseconds
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
    """Chunk with the times of its words; `reason` tells why they are not recognised."""

    chunk: StoredChunk
    span: Span
    words: tuple[WordTime, ...]
    recognised: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class TextWord:
    """Characters [start, end) of a text, and their share in the duration of their chunk, blanks after them included."""

    start: int
    end: int
    weight: int


def text_words(text: str, chunk: StoredChunk, sums: Sequence[int]) -> list[TextWord]:
    """Words of a chunk of a text, as `masked` gives it; `sums` are `milliseconds` of the whole text."""
    found = [match.span() for match in _WORD.finditer(text, chunk.start, chunk.end) if match[0].strip(MASK)]
    edges = [start for start, _ in found] + [chunk.end]
    weights = [sums[after] - sums[before] for before, after in pairwise(edges)]
    if not any(weights):
        weights = [after - before for before, after in pairwise(edges)]
    return [TextWord(start, end, weight) for (start, end), weight in zip(found, weights, strict=True)]


def word_times(
    text: str,
    chunks: Iterable[tuple[StoredChunk, Span]],
    language: str | None,
    aligned: Mapping[int, AlignedChunk] | None = None,
) -> Iterator[TimedChunk]:
    """Chunks of a text, as `masked` gives it, with the times of their words.

    Where a chunk is not in `aligned`, or has no words there, its sound is shared among its words by the estimated
    duration of each, blanks after it included (see `speech.text.chunks`).
    """
    sums = milliseconds(text, language_code(language))
    for chunk, span in chunks:
        recognised = (aligned or {}).get(chunk.index)
        if recognised is not None and recognised.words is not None:
            yield TimedChunk(chunk, span, tuple(_recognised(chunk, span, recognised.words)), recognised=True)
            continue
        seconds = span.end_seconds - span.start_seconds
        found = text_words(text, chunk, sums)
        total, passed, words = sum(word.weight for word in found), 0, list[WordTime]()
        for word in found:
            begin = span.start_seconds + seconds * passed / total
            passed += word.weight
            words.append(WordTime(word.start, word.end, begin, span.start_seconds + seconds * passed / total))
        yield TimedChunk(chunk, span, tuple(words), reason=None if recognised is None else recognised.reason)


def _recognised(chunk: StoredChunk, span: Span, words: Iterable[AlignedWord]) -> Iterator[WordTime]:
    """Words in the joined audio; none ends after its chunk."""
    for word in words:
        begin, end = (min(span.start_seconds + at / 1000, span.end_seconds) for at in (word.begin, word.end))
        yield WordTime(chunk.start + word.first, chunk.start + word.last, begin, end)
