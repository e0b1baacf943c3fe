"""Chunks spoken again: the new audio replaces the old as a whole, on every database, also after a kill."""

from __future__ import annotations

import io
import itertools
import json
import threading
import wave
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from documents import ThreadPool, audio_of, new_document, no_upload
from eventually import PATIENCE, eventually
from service_app import Served, serving

from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import AudioStore, audio_name
from voxyard.service.config import ServiceSection
from voxyard.service.dispatch import dispatcher
from voxyard.service.documents.queue import DocumentQueue
from voxyard.service.documents.records import Document, NewChunk, StoredChunk
from voxyard.service.documents.store import Store
from voxyard.service.errors import ConflictError, NotFoundError, StoreUnavailableError
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.requests import SAMPLE_RATE, Request

TEXT = "The harbour lay still. Nobody was awake.\n\nNobody but the watchman, who waited for the morning.\n\nIt came."


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), engine={"samples": 1200}) as served:
        yield served


def spoken(served: Served, **options: Any) -> str:
    """URL of a completed document."""
    answer = httpx.post(f"{served.url}/v1/documents", json={"text": TEXT, **options}, timeout=60)
    url = f"{served.url}/v1/documents/{answer.json()['id']}"
    eventually(lambda: httpx.get(url).json()["state"] == "completed", "it is spoken")
    return url


def samples(content: bytes) -> np.ndarray[Any, Any]:
    with wave.open(io.BytesIO(content)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def cut(sound: np.ndarray[Any, Any], document: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """Sound of each chunk."""
    times = [(chunk["start_seconds"], chunk["end_seconds"]) for chunk in document["chunks"]]
    return [sound[round(start * SAMPLE_RATE) : round(end * SAMPLE_RATE)] for start, end in times]


def test_one_chunk_changes_and_all_others_stay(served: Served) -> None:
    url = spoken(served, seed=7)
    before, old = httpx.get(f"{url}?chunks=true").json(), httpx.get(f"{url}/audio")
    answer = httpx.post(f"{url}/chunks/1/redo", json={"voice": "v2/de_speaker_1", "seed": 3})
    assert (answer.status_code, answer.json()["state"]) == (202, "completed")
    eventually(lambda: httpx.get(url).json()["revision"] == 1, "the chunk is spoken again")
    after, new = httpx.get(f"{url}?chunks=true").json(), httpx.get(f"{url}/audio")
    assert (before["revision"], after["redo"]) == (0, {"waiting": [], "failed": []})
    assert (after["chunks"][1]["voice"], after["chunks"][1]["seed"]) == ("v2/de_speaker_1", 3)
    assert new.headers["etag"] != old.headers["etag"]
    pairs = zip(cut(samples(old.content), before), cut(samples(new.content), after), strict=True)
    assert [np.array_equal(was, now) for was, now in pairs] == [True, False, True, *[True] * (len(after["chunks"]) - 3)]
    mp3 = httpx.get(f"{url}/audio?format=pcm").content  # read piece by piece
    assert mp3 == samples(new.content).tobytes()
    again = spoken(served, seed=7)
    httpx.post(f"{again}/chunks/1/redo", json={"voice": "v2/de_speaker_1", "seed": 3})
    eventually(lambda: httpx.get(again).json()["revision"] == 1, "the chunk is spoken again")
    assert httpx.get(f"{again}/audio").content == new.content


def test_without_a_seed_the_next_one_is_taken_each_time(served: Served) -> None:
    url = spoken(served, seed=7)
    for _ in range(2):
        assert httpx.post(f"{url}/chunks/0/redo").status_code == 202
        eventually(lambda: not httpx.get(url).json()["redo"]["waiting"], "it is spoken again")
    assert httpx.get(url).json()["revision"] == 2
    assert httpx.get(f"{url}?chunks=true").json()["chunks"][0]["seed"] == 9
    for _ in range(2):  # the audiobook is that of the revision
        assert httpx.get(f"{url}/audio?format=m4b").status_code == 200


def test_events_tell_of_the_change(served: Served) -> None:
    url = spoken(served)
    httpx.post(f"{url}/chunks/0/redo")
    with httpx.stream("GET", f"{url}/events", timeout=30) as answer:
        data = [line for line in answer.iter_lines() if line.startswith("data: ")]
    seen = [json.loads(line.removeprefix("data: ")) for line in data]
    progress = [each for each in seen if "revision" in each]
    assert progress[-1]["revision"] == 1
    assert progress[-1]["redo"] == {"waiting": [], "failed": []}
    assert seen[-1]["state"] == "completed"


def test_a_change_between_two_reads_is_in_the_events(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunk is spoken again once the document was read: what waits must not be read later than that."""
    url, store, was_read = spoken(served), served.state.store, threading.Event()
    read, finish = store.changed_chunks, store.redone

    def read_early(id: str, since: int) -> tuple[Document, tuple[StoredChunk, ...]]:
        found = read(id, since)
        was_read.set()
        eventually(lambda: store.document(id).revision == 1, "it is spoken again")
        return found

    def finish_late(*given: Any) -> None:
        assert was_read.wait(PATIENCE)
        finish(*given)

    monkeypatch.setattr(store, "changed_chunks", read_early)
    monkeypatch.setattr(store, "redone", finish_late)
    httpx.post(f"{url}/chunks/0/redo")
    with httpx.stream("GET", f"{url}/events", timeout=60) as answer:
        data = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    assert [each["revision"] for each in data if "revision" in each][-1] == 1


@pytest.mark.parametrize(("format", "read"), [("wav", "document"), ("mp3", "document"), ("m4b", "cover")])
def test_a_request_that_read_the_document_before_its_audio_was_replaced_has_the_new_one(
    served: Served, monkeypatch: pytest.MonkeyPatch, format: str, read: str
) -> None:
    """It waits for its turn for longer than the audio of before is kept."""
    url, store, audio = spoken(served, seed=7), served.state.store, served.state.audio_store
    id, reads = url.rpartition("/")[2], getattr(served.state.store, read)
    replaced = threading.Lock()

    def read_early(*given: Any) -> Any:
        found = reads(*given)
        if (read == "cover" or len(given) == 2) and replaced.acquire(blocking=False):
            served.state.queue.redo(id, 1, "v2/de_speaker_1", 3)
            eventually(lambda: store.document(id).revision == 1, "the chunk is spoken again")
            audio.remove_revisions(id, store.document(id).audio)
        return found

    monkeypatch.setattr(store, read, read_early)
    early = httpx.get(f"{url}/audio?format={format}", timeout=PATIENCE)
    late = httpx.get(f"{url}/audio?format={format}", timeout=PATIENCE)
    assert (early.status_code, late.status_code) == (200, 200), early.text
    assert early.content == late.content
    assert "-1-" in late.headers["etag"]
    assert early.headers.get("etag") == late.headers["etag"]


def test_a_copy_of_new_audio_is_not_kept_as_one_of_the_old(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunk is spoken again after a request has read the document, and before its encoding reads the chunks."""
    url, store = spoken(served, seed=7), served.state.store
    id, snapshot, replaced = url.rpartition("/")[2], store.snapshot, threading.Lock()

    def read_late(of: str) -> tuple[Document, tuple[StoredChunk, ...]]:
        if replaced.acquire(blocking=False):
            served.state.queue.redo(id, 1, "v2/de_speaker_1", 3)
            eventually(lambda: store.document(id).revision == 1, "the chunk is spoken again")
        return snapshot(of)

    monkeypatch.setattr(store, "snapshot", read_late)
    assert httpx.get(f"{url}/audio?format=mp3", timeout=PATIENCE).status_code == 200
    assert "audio.mp3" not in served.state.audio_store.names(id)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("chunks/99/redo", {}, 404), ("chunks/0/redo", {"voice": "nobody"}, 404), ("chunks/0/redo", {"seed": -1}, 400)],
)
def test_what_is_not_there_cannot_be_spoken_again(served: Served, path: str, body: dict[str, Any], status: int) -> None:
    url = spoken(served)
    assert httpx.post(f"{url}/{path}", json=body).status_code == status
    assert httpx.get(url).json()["redo"] == {"waiting": [], "failed": []}


class Desk:
    """Store, audio and a queue over a pool of one thread, on one of the databases."""

    def __init__(self, place: Path | str, folder: Path) -> None:
        self.pool, self.folder = ThreadPool(), folder
        self.store = Store(place)
        self.audio = AudioStore(AudioFolder(folder), quota=2**30)
        self.queue = DocumentQueue(
            self.store, self.audio, self.pool, ServiceSection(), Pauses(), read_upload=no_upload, poll_seconds=0.05
        )
        self.queue.start()

    def spoken(self, number: int, **changes: Any) -> Document:
        self.queue.accept(new_document(number, **changes))
        id = f"{number:032x}"
        eventually(lambda: self.store.document(id).state == "completed", "it is spoken")
        eventually(lambda: not list((self.folder / id).glob("*.s16")), "its chunks' files are deleted")
        return self.store.document(id)

    def wav(self, id: str) -> bytes:
        document = self.store.document(id)
        size = self.audio.wav_size(id, document.audio)
        return b"".join(self.audio.stream(id, audio_name(document.audio), 0, size))

    def close(self) -> None:
        self.pool.going.set()
        self.queue.close()
        self.pool.close()
        self.store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    if request.param == "sqlite":
        return tmp_path / "store.sqlite"
    url: str = request.getfixturevalue("postgres").url()
    return url


@pytest.mark.slow
def test_the_old_audio_is_there_until_the_new_one_is(place: Path | str, tmp_path: Path) -> None:
    desk = Desk(place, tmp_path / "audio")
    try:
        id = desk.spoken(1).id
        old = desk.wav(id)
        desk.pool.going.clear()
        desk.queue.redo(id, 1, None, 50)
        desk.queue.redo(id, 2, None, 50)
        eventually(lambda: len(desk.pool.submitted) > 1, "the chunk is given to the pool")
        assert desk.wav(id) == old
        assert [*desk.store.redos(id)] == [1, 2]
        desk.pool.going.set()
        eventually(lambda: not desk.store.redos(id), "both are spoken")
        assert desk.wav(id) != old
        chunks = desk.store.chunks(id)
        assert [chunk.seed for chunk in chunks] == [None, 50, 50]
        assert [chunk.samples for chunk in chunks] == [len(audio_of(new_document(1), index)) for index in range(3)]
    finally:
        desk.close()


def test_a_killed_service_leaves_its_chunks_to_the_next(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "store.sqlite", tmp_path / "audio")
    id = desk.spoken(1).id
    desk.pool.going.clear()
    desk.queue.redo(id, 0, None, 9)
    eventually(lambda: len(desk.pool.submitted) > 1, "the chunk is given to the pool")
    desk.close()
    next_one = Desk(tmp_path / "store.sqlite", tmp_path / "audio")
    try:
        eventually(lambda: next_one.store.document(id).revision == 1, "the next service speaks it")
        assert next_one.store.chunks(id)[0].seed == 9
    finally:
        next_one.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_service_killed_before_it_commits_new_audio_serves_the_old_and_speaks_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, written = Desk(tmp_path / "store.sqlite", tmp_path / "audio"), threading.Event()

    def killed(*_: object) -> bool:
        written.set()
        raise SystemExit  # the thread is gone, as after SIGKILL; nothing is committed

    monkeypatch.setattr(desk.store, "redone", killed)
    id = desk.spoken(1).id
    old, folder = desk.wav(id), tmp_path / "audio" / id
    desk.queue.redo(id, 0, None, 9)
    assert written.wait(PATIENCE)
    assert {path.name for path in folder.iterdir()} == {"audio.wav", "audio.2.wav", "0.2.redo"}
    assert (desk.wav(id), desk.store.document(id).revision) == (old, 0)
    desk.close()
    (folder / "audio.2.wav").write_bytes(b"half")
    (folder / "audio.2.mp3.part").write_bytes(b"half")

    next_one = Desk(tmp_path / "store.sqlite", tmp_path / "audio")
    try:
        eventually(lambda: next_one.store.document(id).revision == 1, "the next service speaks it")
        assert len(next_one.wav(id)) == len(old)
        assert next_one.wav(id) != old
        assert not list(folder.glob("*.part"))
        assert next_one.store.redos(id) == {}
        next_one.queue.close()
        assert [path.name for path in folder.iterdir()] == ["audio.3.wav"]
    finally:
        next_one.close()


def test_a_chunk_that_cannot_be_spoken_keeps_its_audio(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "store.sqlite", tmp_path / "audio")
    try:
        id = desk.spoken(1).id
        old = desk.wav(id)
        desk.pool.fails = lambda request: "no such sound" if request.seed == 13 else None
        desk.queue.redo(id, 0, None, 13)
        eventually(lambda: any(each.reason for each in desk.store.redos(id).values()), "it failed")
        assert {index: each.reason for index, each in desk.store.redos(id).items()} == {0: "no such sound"}
        assert (desk.wav(id), desk.store.document(id).revision) == (old, 0)
        desk.queue.redo(id, 0, None, 14)
        eventually(lambda: desk.store.document(id).revision == 1, "it is spoken with another seed")
    finally:
        desk.close()


def stored(place: Path | str) -> tuple[Store, str]:
    """A store, and the id of a document in it that is completed: three chunks."""
    store, document = Store(place), new_document(1)
    store.accept(document)
    store.claims.take()
    store.started(document.id, 1.0)
    for index in range(3):
        store.chunk_spoken(document.id, index, 10)
    store.completed(document.id, 1.0)
    return store, document.id


def take(store: Store) -> str | None:
    store.claims.look_again()
    return store.claims.take("redoing")


def test_a_chunk_asked_for_again_waits_again_and_keeps_no_other(place: Path | str) -> None:
    store, id = stored(place)
    try:
        assert take(store) is None
        store.redo(id, 1, None, 50)
        store.redo(id, 2, "en_2", 50)
        assert (take(store), take(store)) == (id, None)
        first = store.redos(id)
        store.redo(id, 1, None, 51)  # while it is spoken
        for index in (1, 2):
            store.redo_ended(id, index, first[index], 5 + index, None)
        assert [(each.seed, each.samples) for each in store.redos(id).values()] == [(51, None), (50, 7)]

        store.redo_ended(id, 1, store.redos(id)[1], 8, None)
        found = store.redos(id)
        store.redo(id, 1, None, 52)  # while the audio is made anew
        store.redone(id, found)

        assert [(chunk.seed, chunk.voice, chunk.samples) for chunk in store.chunks(id)] == [
            (None, None, 10), (51, None, 8), (50, "en_2", 7)
        ]  # fmt: skip
        document = store.document(id)
        assert (document.revision, document.redos, document.state) == (1, 1, "completed")
        assert {index: each.seed for index, each in store.redos(id).items()} == {1: 52}
        assert take(store) == id
        assert store.claims.number(id) > document.audio
        store.failed(id, 2.0, "no")
        assert (store.redos(id)[1].reason, store.document(id).redos) == ("no", 0)
        assert take(store) is None
    finally:
        store.close()


def test_only_chunks_of_completed_documents_are_spoken_again(place: Path | str) -> None:
    store, id = stored(place)
    try:
        with pytest.raises(NotFoundError, match="has no chunk 3: it has 3"):
            store.redo(id, 3, None, 5)
        store.accept(new_document(2))
        with pytest.raises(ConflictError, match="pending"):
            store.redo(f"{2:032x}", 0, None, 5)
        assert store.redos(id) == {}
    finally:
        store.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "store.sqlite", tmp_path / "audio")
    yield made
    made.close()


def test_a_chunk_asked_for_all_the_time_keeps_no_other_from_being_spoken(desk: Desk) -> None:
    id, asked = desk.spoken(1).id, itertools.count(100)

    def ask(request: Request) -> None:
        if request.chunk == 0 and (seed := next(asked)) < 105:
            desk.queue.redo(id, 0, None, seed)

    desk.pool.fails = ask
    for index in range(3):
        desk.queue.redo(id, index, None, 50)
    eventually(lambda: not desk.store.document(id).redos, "all are spoken")
    assert [chunk.seed for chunk in desk.store.chunks(id)] == [104, 50, 50]
    spoken = [request.chunk for requests in desk.pool.submitted[1:] for request in requests]
    assert (spoken.count(1), spoken.count(2)) == (1, 1)


@pytest.mark.slow
def test_a_redo_reads_the_chunk_that_is_asked_for_and_all_of_them_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are read for the new file, in the thread that writes it; the whole text and its words are not."""
    id, readers, snapshot = desk.spoken(1, chunks=300).id, list[str](), desk.store.snapshot
    sought = list[list[int]]()
    words = desk.store.words

    def counted(*given: Any) -> Any:
        readers.append(threading.current_thread().name)
        return snapshot(*given)

    def noted(id: str, chunks: Sequence[StoredChunk]) -> dict[int, str]:
        sought.append([chunk.index for chunk in chunks])
        return words(id, chunks)

    def unread(*given: Any) -> Any:
        raise AssertionError("the whole document is read")

    monkeypatch.setattr(desk.store, "snapshot", counted)
    monkeypatch.setattr(desk.store, "words", noted)
    for name in ("chunks", "text", "spoken"):
        monkeypatch.setattr(desk.store, name, unread)
    for number in range(1, 3):
        desk.queue.redo(id, 200, None, number)
        eventually(lambda number=number: desk.store.document(id).revision == number, "it is spoken")  # type: ignore[misc]
    assert (readers, sought) == (["voxyard-redoing"] * 2, [[200]] * 2)
    assert [len(requests) for requests in desk.pool.submitted] == [300, 1, 1]


def test_words_of_a_few_chunks_are_those_of_all(place: Path | str) -> None:
    store = Store(place)
    try:
        words = ["Ünï 𝄞 cödé.", "Zwei.", "三つ。"] * 30
        text, chunks, at = " ".join(words), list[NewChunk](), 0
        for index, word in enumerate(words):
            spoken = "two" if word == "Zwei." else None
            chunks.append(NewChunk(index, at, at + len(word), "sentence", 1.0, spoken=spoken))
            at += len(word) + 1
        id = store.accept(replace(new_document(1), text=text, chunks=tuple(chunks)))[0].id
        stored = store.chunks(id)
        expected = {index: "two" if word == "Zwei." else word for index, word in enumerate(words)}
        assert store.words(id, stored) == expected
        assert store.words(id, stored[40:44]) == {index: expected[index] for index in range(40, 44)}
    finally:
        store.close()


def test_a_chunk_asked_for_while_the_audio_is_made_anew_is_spoken_after_that(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    id, rebuild, seeds = desk.spoken(1).id, desk.audio.rebuild, iter((51, 52))

    def asked_meanwhile(*given: Any) -> None:
        for seed in itertools.islice(seeds, 1):
            desk.queue.redo(id, 0, None, seed)
        rebuild(*given)

    monkeypatch.setattr(desk.audio, "rebuild", asked_meanwhile)
    desk.queue.redo(id, 0, None, 50)
    eventually(lambda: not desk.store.document(id).redos, "all are spoken")
    assert (desk.store.document(id).revision, desk.store.chunks(id)[0].seed) == (3, 52)
    assert [requests[0].seed for requests in desk.pool.submitted[1:]] == [50, 51, 52]


def test_another_key_does_not_wait_for_the_chunks_of_the_first(desk: Desk) -> None:
    ids = [desk.spoken(number, owner="first").id for number in range(12)]
    other = desk.spoken(20, owner="second").id
    desk.pool.going.clear()
    for number in range(30, 40):  # as many as the pool takes, and more
        desk.queue.accept(new_document(number, owner="first"))

    def again(owner: str) -> int:
        of_pool = zip(desk.pool.tenants, desk.pool.submitted, strict=False)
        return sum(tenant == owner and requests[0].seed == 50 for (tenant, _), requests in of_pool)

    for id in ids:
        desk.queue.redo(id, 0, None, 50)
    eventually(lambda: again("first") == ServiceSection().active_documents, "the first key fills its places")
    desk.queue.redo(other, 0, None, 50)
    eventually(lambda: again("second") == 1, "the second key has its place")


def test_chunks_of_a_document_whose_audio_is_gone_fail(desk: Desk) -> None:
    id = desk.spoken(1).id
    (desk.folder / id / "audio.wav").unlink()
    desk.queue.redo(id, 0, None, 50)
    eventually(lambda: desk.store.redos(id)[0].reason, "it has failed")
    assert desk.store.redos(id)[0].reason == (
        "the audio of the document is missing or incomplete, or was joined with other pauses: submit it again"
    )
    assert (desk.store.document(id).state, len(desk.pool.submitted)) == ("completed", 1)


def test_each_audio_stays_for_some_time_after_it_was_replaced(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "STALE_SECONDS", 3600.0)
    id, of = desk.spoken(1).id, desk.queue._dispatcher
    for seed in (50, 51):
        desk.queue.redo(id, 0, None, seed)
        eventually(lambda: not desk.store.document(id).redos, "it is spoken")
    eventually(lambda: len(of._stale) == 2, "the audio of before is to go")
    of._remove_stale(of._stale[0][0])  # the first one's time is over
    assert sorted(desk.audio.names(id)) == ["audio.2.wav", "audio.3.wav"]


def test_a_start_lets_go_of_the_audio_before_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service that made it was killed within the time that it stays."""
    monkeypatch.setattr(dispatcher, "STALE_SECONDS", 0.0)
    desk = Desk(tmp_path / "store", tmp_path / "audio")
    id = desk.spoken(1).id
    old = (tmp_path / "audio" / id / "audio.wav").read_bytes()
    desk.queue.redo(id, 0, None, 50)
    eventually(lambda: desk.audio.names(id) == ("audio.2.wav",), "the old audio is gone")
    desk.close()
    (tmp_path / "audio" / id / "audio.wav").write_bytes(old)
    desk = Desk(tmp_path / "store", tmp_path / "audio")
    eventually(lambda: desk.audio.names(id) == ("audio.2.wav",), "the old audio is gone")
    desk.close()


@pytest.mark.parametrize("end", ["delete", "close"])
def test_a_document_that_ends_while_its_audio_is_made_anew_leaves_nothing_half(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    id, rebuild, begun = desk.spoken(1).id, desk.audio.rebuild, threading.Event()

    def slow(*given: Any) -> None:
        begun.set()
        cancelled: threading.Event = given[-1]
        assert cancelled.wait(PATIENCE)
        rebuild(*given)

    monkeypatch.setattr(desk.audio, "rebuild", slow)
    desk.queue.redo(id, 0, None, 50)
    assert begun.wait(PATIENCE)
    if end == "delete":
        desk.queue.cancel(id)
        eventually(lambda: not desk.audio.names(id), "its files are gone")
    else:
        desk.queue.close()
        assert {path.name for path in (desk.folder / id).iterdir()} == {"audio.wav", "0.2.redo"}


def test_a_chunk_whose_new_file_is_lost_is_spoken_once_more(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    id, rebuild, lost = desk.spoken(1).id, desk.audio.rebuild, threading.Event()

    def lose(*given: Any) -> None:
        if not lost.is_set():
            lost.set()
            (desk.folder / id / "0.2.redo").unlink()
        rebuild(*given)

    monkeypatch.setattr(desk.audio, "rebuild", lose)
    desk.queue.redo(id, 0, None, 50)
    eventually(lambda: desk.store.document(id).revision == 1, "it is spoken")
    assert [requests[0].seed for requests in desk.pool.submitted[1:]] == [50, 50]


def test_a_change_whose_commit_nobody_confirmed_is_replaced_by_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is lost during the commit, and the chunk asked for again before the next try."""
    id, redone, numbers = desk.spoken(1).id, desk.store.redone, list[int]()

    def unconfirmed(*given: Any) -> None:
        redone(*given)
        numbers.append(desk.store.document(id).audio)
        if len(numbers) == 1:
            desk.queue.redo(id, 0, None, 51)
            raise StoreUnavailableError("the connection is lost")

    def with_no_room(*given: Any, **named: Any) -> str | None:
        return None if id in dispatched else take(*given, **named)

    dispatched, take = desk.queue._dispatcher._dispatched, desk.store.claims.take
    monkeypatch.setattr(desk.store, "redone", unconfirmed)
    monkeypatch.setattr(desk.store.claims, "take", with_no_room)
    desk.queue.redo(id, 0, None, 50)
    eventually(lambda: desk.store.document(id).revision == 2, "the chunk is spoken twice")
    assert (desk.store.document(id).redos, desk.store.chunks(id)[0].seed) == (0, 51)
    eventually(lambda: len(numbers) == 2, "both changes are noted")
    assert numbers[0] < numbers[1]
