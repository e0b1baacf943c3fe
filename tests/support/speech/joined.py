"""Chunks that come in text order, joined to the pieces of one sound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from voxyard.speech.audio.joining import Joiner, Pauses, Piece
from voxyard.speech.requests import Boundary, Result


def join(spoken: Iterable[tuple[Result, Boundary | float]], pauses: Pauses | None = None) -> Iterator[Piece]:
    """Pieces of chunks, each as soon as its chunk is there. Raises as `Joiner.add`."""
    joiner = Joiner(pauses)
    for result, ending in spoken:
        yield joiner.add(result, ending)
