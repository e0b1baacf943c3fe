"""Kept times of aligned words: the file `words.json` of a document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from voxyard.service.audio.store import AudioStore
from voxyard.service.documents.records import Document
from voxyard.service.errors import NotFoundError

NAME = "words.json"
_FORMAT = 1


class AlignedWord(NamedTuple):
    """Characters [first, last) of a chunk's text, and its milliseconds [begin, end) of the chunk's sound."""

    first: int
    last: int
    begin: int
    end: int


@dataclass(frozen=True)
class AlignedChunk:
    """Words of a chunk; None with the `reason` where they could not be aligned."""

    words: tuple[AlignedWord, ...] | None
    reason: str | None = None
    digest: str = ""  # of what was aligned: sound and words


@dataclass(frozen=True)
class AlignedDocument:
    """Chunks of a document that are aligned so far, by their index; `state` is that of the document's audio."""

    aligner: str
    state: str
    chunks: Mapping[int, AlignedChunk] = field(default_factory=dict)


def state_of(document: Document) -> str:
    """Name of a document's audio: another one once a chunk is another."""
    return f"{document.revision}.{document.changes}"


def load(audio_store: AudioStore, id: str) -> AlignedDocument | None:
    """The file of a document; None where there is none, or one of another format."""
    size = audio_store.size(id, NAME)
    if size is None:
        return None
    with suppress(NotFoundError):  # deleted at this moment
        found: dict[str, Any] = json.loads(b"".join(audio_store.stream(id, NAME, 0, size)))
        if found.get("format") == _FORMAT:
            return AlignedDocument(found["aligner"], found["state"], dict(_chunks(found["chunks"])))
    return None


def save(audio_store: AudioStore, id: str, aligned: AlignedDocument) -> None:
    """Writes the file of a document, as a whole or not at all. Raises ServiceError."""
    chunks = {index: [each.digest, each.words, each.reason] for index, each in aligned.chunks.items()}
    content = {"format": _FORMAT, "aligner": aligned.aligner, "state": aligned.state, "chunks": chunks}
    with audio_store.write(id, NAME) as file:
        file.write(json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode())


def _chunks(found: Mapping[str, Any]) -> Iterator[tuple[int, AlignedChunk]]:
    for index, (digest, words, reason) in found.items():
        kept = None if words is None else tuple(AlignedWord(*word) for word in words)
        yield int(index), AlignedChunk(kept, reason, digest)
