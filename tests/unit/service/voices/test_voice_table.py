"""Table of uploaded voices, on both databases: ids, deletion beside documents, requests with their files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from documents import new_document

from voxyard.service.documents.store import Store
from voxyard.service.errors import ConflictError
from voxyard.service.voices.table import NewVoice, VoiceNotFoundError, hold, is_uploaded, shown_name
from voxyard.speech.requests import Request


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    place: Path | str = tmp_path / "store.sqlite"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").url()
    made = Store(place)
    yield made
    made.close()


def add(store: Store, name: str, content: bytes = b"\x00file", owner: str = "ann", most: int = 9) -> str:
    return store.voices.add(
        owner, NewVoice(name, content, "Of a test.", "de", {"manner": "a", "timbre": "b"}), 1.0, most
    ).id


def kept(store: Store) -> int:
    with store._database.read() as connection:
        return len(connection.execute("SELECT id FROM voices").fetchall())


def test_a_voice_is_read_as_it_was_stored(store: Store) -> None:
    id = add(store, "captain")
    (found,) = store.voices.of("ann")
    assert found == store.voices.find("ann", "captain")
    assert (found.id, found.description, found.language) == (id, "Of a test.", "de")
    assert (found.mixed, found.created) == ({"manner": "a", "timbre": "b"}, 1.0)
    assert store.voices.content(id) == b"\x00file"
    assert store.voices.language(id) == "de"
    assert store.voices.find("bob", "captain") is None
    assert (is_uploaded(id), shown_name(id)) == (True, "captain")
    assert (is_uploaded("v2/en_speaker_6"), shown_name("v2/en_speaker_6")) == (False, "v2/en_speaker_6")


def test_ids_are_not_used_again(store: Store) -> None:
    first = add(store, "captain")
    store.voices.delete("ann", "captain")
    assert add(store, "captain") != first
    with pytest.raises(VoiceNotFoundError, match="the voice 'captain' was deleted"):
        store.voices.content(first)


def test_names_and_numbers_are_limited_by_key(store: Store) -> None:
    add(store, "one")
    with pytest.raises(ConflictError, match="a voice 'one' already"):
        add(store, "one")
    add(store, "two", most=2)
    with pytest.raises(ConflictError, match="2 of 2 uploaded voices: delete one"):
        add(store, "three", most=2)
    add(store, "one", owner="bob", most=2)


def test_a_voice_stays_for_documents_chunks_and_redos(store: Store) -> None:
    of_document, of_redo = add(store, "one"), add(store, "two")
    new = replace(new_document(1), voice=of_document)
    store.accept(new)
    store.claims.take()
    for index in range(3):
        store.chunk_spoken(new.id, index, 10)
    store.completed(new.id, 1.0)
    store.redo(new.id, 1, of_redo, 3)
    for name in ("one", "two"):
        store.voices.delete("ann", name)
    assert (store.voices.of("ann"), kept(store)) == ((), 2)
    store.claims.look_again()
    assert store.claims.take("redoing") == new.id
    store.redone(new.id, {1: replace(store.redos(new.id)[1], samples=10)})
    store.voices.sweep()
    assert store.voices.content(of_redo)  # a chunk's own voice
    store.redo(new.id, 1, None, 9)
    store.delete(new.id)
    store.voices.sweep()
    assert kept(store) == 0


def test_a_document_or_redo_in_a_voice_deleted_meanwhile_is_refused(store: Store) -> None:
    id = add(store, "captain")
    done = new_document(1)
    store.accept(done)
    store.claims.take()
    for index in range(3):
        store.chunk_spoken(done.id, index, 10)
    store.completed(done.id, 1.0)
    store.voices.delete("ann", "captain")
    with pytest.raises(VoiceNotFoundError):
        store.accept(replace(new_document(2), voice=id))
    assert not store.exists(new_document(2).id)
    with pytest.raises(VoiceNotFoundError):
        store.redo(done.id, 1, id, None)
    assert store.redos(done.id) == {}


def test_a_repeated_request_needs_its_voice_no_more(store: Store) -> None:
    new = replace(new_document(1, idempotency_key="k", fingerprint="a"), voice=add(store, "captain"))
    store.accept(new)
    store.voices.delete("ann", "captain")
    found = store.earlier(replace(new, id="2" * 32, voice=None))
    assert found is not None
    assert found.id == new.id
    assert store.accept(replace(new, id="2" * 32)) == (found, False)


def test_a_deletion_waits_for_the_document_that_is_being_stored(store: Store) -> None:
    id, new = add(store, "captain"), replace(new_document(1), voice="")
    store.accept(new)
    deleting = threading.Thread(target=store.voices.delete, args=("ann", "captain"))
    with store._database.write() as connection:
        hold(connection, id)
        deleting.start()
        deleting.join(0.3)
        assert deleting.is_alive()
        connection.execute("UPDATE documents SET voice = $1 WHERE id = $2", (id, new.id))
    deleting.join(60)
    assert store.voices.of("ann") == ()
    assert store.voices.content(id)


def test_requests_in_uploaded_voices_get_the_file(store: Store) -> None:
    id = add(store, "captain")
    requests = [
        Request(0, "One.", id),
        Request(1, "Two.", "v2/en_speaker_6"),
        Request(2, "Three."),
        Request(3, "F", id),
    ]
    attached = store.voices.attach(requests)
    assert [each.voice_file for each in attached] == [b"\x00file", None, None, b"\x00file"]
    assert attached[0].voice_file is attached[3].voice_file  # one copy for all chunks of a book
    assert "file" not in repr(attached[0]).partition("Request")[2].replace("voice_file", "")
    store.voices.delete("ann", "captain")
    with pytest.raises(VoiceNotFoundError):
        store.voices.attach(requests)
