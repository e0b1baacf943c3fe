"""Chunks spoken again: the new audio replaces the old as a whole, on every database, also after a kill."""

from __future__ import annotations

import io
import json
import threading
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from documents import ThreadPool, audio_of, new_document
from eventually import eventually
from service_app import Served, serving

from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import AudioStore
from voxyard.service.audiobook import redos
from voxyard.service.config import ServiceSection
from voxyard.service.documents.queue import DocumentQueue
from voxyard.service.documents.records import Document, StoredChunk
from voxyard.service.documents.store import Store
from voxyard.service.errors import ConflictError, NotFoundError
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.requests import SAMPLE_RATE

TEXT = "The harbour lay still. Nobody was awake.\n\nNobody but the watchman, who waited for the morning.\n\nIt came."


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, engine={"samples": 1200}) as served:
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
    read, finish = store.changed_chunks, store.redos.finish

    def read_early(id: str, since: int) -> tuple[Document, tuple[StoredChunk, ...]]:
        found = read(id, since)
        was_read.set()
        eventually(lambda: store.document(id).revision == 1, "it is spoken again")
        return found

    def finish_late(*given: Any) -> bool:
        return was_read.wait(60) and finish(*given)

    monkeypatch.setattr(store, "changed_chunks", read_early)
    monkeypatch.setattr(store.redos, "finish", finish_late)
    httpx.post(f"{url}/chunks/0/redo")
    with httpx.stream("GET", f"{url}/events", timeout=60) as answer:
        data = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    assert [each["revision"] for each in data if "revision" in each][-1] == 1


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
        self.queue = DocumentQueue(self.store, self.audio, self.pool, ServiceSection(), Pauses(), poll_seconds=0.05)
        self.queue.start()

    def spoken(self, number: int) -> Document:
        self.queue.accept(new_document(number))
        id = f"{number:032x}"
        eventually(lambda: self.store.document(id).state == "completed", "it is spoken")
        eventually(lambda: not list((self.folder / id).glob("*.s16")), "its chunks' files are deleted")
        return self.store.document(id)

    def wav(self, id: str) -> bytes:
        document = self.store.document(id)
        size = self.audio.wav_size(id, document.revision)
        return b"".join(self.audio.wav_bytes(id, 0, size, document.revision))

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
        assert [each.index for each in desk.store.redos.of(id)] == [1, 2]
        desk.pool.going.set()
        eventually(lambda: not desk.store.redos.of(id), "both are spoken")
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
        assert not (tmp_path / "audio" / id / "0.s16").exists()
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

    monkeypatch.setattr(desk.store.redos, "finish", killed)
    id = desk.spoken(1).id
    old, folder = desk.wav(id), tmp_path / "audio" / id
    desk.queue.redo(id, 0, None, 9)
    assert written.wait(60)
    assert {path.name for path in folder.iterdir()} == {"audio.wav", "audio.1.wav"}
    assert (desk.wav(id), desk.store.document(id).revision) == (old, 0)
    desk.close()
    (folder / "audio.1.wav").write_bytes(b"half")
    (folder / "audio.1.mp3.part").write_bytes(b"half")

    next_one = Desk(tmp_path / "store.sqlite", tmp_path / "audio")
    try:
        eventually(lambda: next_one.store.document(id).revision == 1, "the next service speaks it")
        assert len(next_one.wav(id)) == len(old)
        assert next_one.wav(id) != old
        assert not list(folder.glob("*.part"))
        assert next_one.store.redos.of(id) == ()
    finally:
        next_one.close()


def test_a_chunk_that_cannot_be_spoken_keeps_its_audio(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "store.sqlite", tmp_path / "audio")
    try:
        id = desk.spoken(1).id
        old = desk.wav(id)
        desk.pool.fails = lambda request: "no such sound" if request.seed == 13 else None
        desk.queue.redo(id, 0, None, 13)
        eventually(lambda: any(each.reason for each in desk.store.redos.of(id)), "it failed")
        assert [(each.index, each.reason) for each in desk.store.redos.of(id)] == [(0, "no such sound")]
        assert (desk.wav(id), desk.store.document(id).revision) == (old, 0)
        desk.queue.redo(id, 0, None, 14)
        eventually(lambda: desk.store.document(id).revision == 1, "it is spoken with another seed")
    finally:
        desk.close()


def test_only_one_service_at_a_time_takes_the_chunks_of_a_document(place: Path | str, tmp_path: Path) -> None:
    desk = Desk(place, tmp_path / "audio")
    try:
        id = desk.spoken(1).id
        desk.queue.close()
        desk.store.redos.request(id, 0, None, 5)
        taken: list[object] = []
        threads = [threading.Thread(target=lambda: taken.append(desk.store.redos.take(1000.0, 60.0))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (mine,) = [each for each in taken if each is not None]
        later = desk.store.redos.take(2000.0, 60.0)  # its time is over
        assert later is not None
        assert not desk.store.redos.finish(mine, 1, {0: 5}, {})  # type: ignore[arg-type]
        assert desk.store.redos.finish(later, 1, {0: 5}, {})
        with pytest.raises(NotFoundError):
            desk.store.redos.request(id, 3, None, 5)
        desk.store.accept(new_document(2))
        with pytest.raises(ConflictError, match="pending"):
            desk.store.redos.request(f"{2:032x}", 0, None, 5)
    finally:
        desk.close()


def stored(place: Path | str) -> tuple[Store, str]:
    """A store, and the id of a document in it that is completed: three chunks."""
    store, document = Store(place), new_document(1)
    store.accept(document)
    store.claims.look_again()
    store.claims.take()
    store.started(document.id, 1.0)
    for index in range(3):
        store.chunk_spoken(document.id, index, 10)
    store.completed(document.id, 1.0)
    return store, document.id


def test_a_chunk_asked_for_again_while_it_is_spoken_lets_all_be_taken_at_once(place: Path | str) -> None:
    store, id = stored(place)
    try:
        store.redos.request(id, 1, None, 50)
        store.redos.request(id, 2, None, 50)
        taken = store.redos.take(1000.0, 60.0)
        assert taken is not None
        store.redos.request(id, 1, None, 51)
        assert store.redos.renew(taken, 1600.0) is None
        again = store.redos.take(1001.0, 60.0)
        assert again is not None
        assert [(each.index, each.seed) for each in again.redos] == [(1, 51), (2, 50)]
        store.redos.request(id, 1, None, 52)
        assert not store.redos.finish(again, 1, {1: 5, 2: 5}, {})
        last = store.redos.take(1002.0, 60.0)
        assert last is not None
        assert [(each.index, each.seed) for each in last.redos] == [(1, 52), (2, 50)]
        renewed = store.redos.renew(last, 1600.0)
        assert renewed is not None
        assert store.redos.take(1599.0, 60.0) is None
        assert store.redos.finish(renewed, 1, {1: 5, 2: 5}, {})
    finally:
        store.close()


def test_what_another_service_took_meanwhile_stays_its_own(place: Path | str) -> None:
    store, id = stored(place)
    try:
        store.redos.request(id, 1, None, 50)
        slow, next_one = store.redos.take(1000.0, 60.0), store.redos.take(2000.0, 60.0)
        assert slow is not None
        assert next_one is not None
        assert store.redos.renew(slow, 2060.5) is None
        assert not store.redos.finish(slow, 1, {1: 5}, {})
        assert store.redos.take(2001.0, 60.0) is None
        assert store.redos.finish(next_one, 1, {1: 5}, {})
    finally:
        store.close()


def test_a_chunk_asked_for_while_others_are_taken_is_not_among_them(
    place: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, id = stored(place)
    asking = threading.Thread(target=lambda: store.redos.request(id, 2, None, 50))
    rows = redos._read

    def read_late(*arguments: Any) -> tuple[redos.Redo, ...]:
        asking.start()
        asking.join(0.3)  # it may have to wait until they are taken
        return rows(*arguments)

    try:
        store.redos.request(id, 1, None, 50)
        monkeypatch.setattr(redos, "_read", read_late)
        taken = store.redos.take(1000.0, 60.0)
        monkeypatch.undo()
        asking.join()
        assert taken is not None
        assert [each.index for each in taken.redos] == [1]
        assert [each.index for each in store.redos.of(id)] == [1, 2]
    finally:
        store.close()
