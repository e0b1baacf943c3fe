"""Looks at a document: the times of its chunks, at the cost of what has changed since the look before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import OwningStore, new_document

from voxyard.service.documents.records import Document, StoredChunk, with_spans
from voxyard.service.documents.store import Store
from voxyard.service.errors import NotFoundError
from voxyard.service.routes.serializers import Timelines
from voxyard.speech.audio.joining import Pauses

PAUSES = Pauses()
CHUNKS = 1000


class CountingStore(OwningStore):
    """Store that counts the chunks that are read."""

    rows = 0

    def chunks_from(self, id: str, index: int, limit: int) -> tuple[StoredChunk, ...]:
        found = super().chunks_from(id, index, limit)
        self.rows += len(found)
        return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CountingStore]:
    made = CountingStore(tmp_path / "store.sqlite")
    yield made
    made.close()


def document_of(store: Store, chunks: int) -> Document:
    document, _ = store.accept(new_document(1, chunks=chunks))
    return document


def test_a_look_reads_what_has_changed_and_not_the_whole_document(store: CountingStore) -> None:
    id, timelines = document_of(store, CHUNKS).id, Timelines(store, PAUSES)
    for index in range(CHUNKS - 10):
        store.chunk_spoken(id, index, 24)
    timelines.spans(store.document(id))
    store.rows = 0

    timelines.spans(store.document(id))
    assert store.rows == 0
    store.chunk_spoken(id, CHUNKS - 10, 24)
    spans = timelines.spans(store.document(id))

    assert store.rows <= 10
    assert list(spans) == [span for _, span in with_spans(store.chunks(id), PAUSES)]


def test_times_begin_anew_where_chunks_are_reset(store: CountingStore) -> None:
    id, timelines = document_of(store, 4).id, Timelines(store, PAUSES)
    for index in range(4):
        store.chunk_spoken(id, index, 24)
    assert len(timelines.spans(store.document(id))) == 4

    store.reset_chunks(id, [1])
    assert len(timelines.spans(store.document(id))) == 1
    store.chunk_spoken(id, 1, 48)

    assert list(timelines.spans(store.document(id))) == [span for _, span in with_spans(store.chunks(id), PAUSES)]


def test_a_document_that_was_deleted_is_not_found(store: CountingStore) -> None:
    document = document_of(store, 2)
    store.delete(document.id)
    with pytest.raises(NotFoundError):
        Timelines(store, PAUSES).spans(document)
