"""Full disk: documents are parked, nothing is corrupted, and synthesis resumes when there is space."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from documents import ThreadPool, audio_of, new_document, no_upload
from eventually import eventually

from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import AudioStore
from voxyard.service.config import ServiceSection
from voxyard.service.documents import database
from voxyard.service.documents.queue import DocumentQueue
from voxyard.service.documents.records import NewDocument
from voxyard.service.documents.store import Store
from voxyard.service.errors import NoRoomError
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.audio.wav import to_bytes

PAUSES = Pauses()
KIB = 1024


class SmallDisk:
    """A file system in memory that a file fills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def leave(self, free: int) -> None:
        """Leave so many bytes free, a multiple of a page."""
        self.make_room()
        left = round(AudioFolder(self.folder).free_bytes()) - free
        with self._filler.open("wb", buffering=0) as file:
            try:
                while left > 0:
                    left -= file.write(bytes(left))
            except OSError:  # the service has taken a part of it meanwhile
                if free:
                    raise

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """4 MiB; root is needed, or a user namespace."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted, root is needed: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Service:
    def __init__(self, store: Path, audio: Path) -> None:
        self.store = Store(store)
        self.audio_store = AudioStore(AudioFolder(audio), quota=10**9)
        self.pool = ThreadPool()
        self.queue = DocumentQueue(
            self.store, self.audio_store, self.pool, ServiceSection(), PAUSES, read_upload=no_upload, poll_seconds=0.05
        )
        self.queue.start()

    def wait(self, new: NewDocument, good: Callable[[Any], object]) -> Any:
        eventually(lambda: good(self.store.document(new.id)), lambda: f"still {self.store.document(new.id)}")
        return self.store.document(new.id)

    def stop(self) -> None:
        self.pool.going.set()
        self.queue.close()
        self.pool.close()
        self.store.close()


@pytest.fixture(autouse=True)
def _small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "RESERVE_BYTES", 256 * KIB)


@pytest.fixture
def serving() -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(store: Path, audio: Path) -> Service:
        made.append(Service(store, audio))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def accept_many(store: Store) -> None:
    for number in range(2, 1000):
        store.accept(new_document(number, chunks=20))


def assert_right(service: Service, new: NewDocument) -> None:
    """Its audio equals that of an audio store with enough space."""
    chunks = service.store.chunks(new.id)
    assert [chunk.state for chunk in chunks] == ["spoken"] * len(new.chunks)
    path = service.audio_store.path(new.id, "audio.wav")
    assert path is not None
    content = path.read_bytes()
    other = AudioStore(AudioFolder(path.parent.parent.parent.parent / "roomy"), quota=10**9)
    for chunk in chunks:
        other.put(new.id, chunk.index, audio_of(new, chunk.index))
    other.assemble(new.id, chunks, PAUSES)
    assert b"".join(other.stream(new.id, "audio.wav", 0, other.wav_size(new.id))) == content
    assert to_bytes(next(service.audio_store.pieces(new.id, chunks, PAUSES)).audio) in content


def test_a_full_disk_parks_the_document_until_there_is_space(
    disk: SmallDisk, tmp_path: Path, serving: Callable[..., Service]
) -> None:
    service = serving(tmp_path / "store.sqlite", disk.folder / "audio")
    new, other = new_document(1, chunks=60), new_document(2, chunks=3)
    service.pool.fails = lambda request: "no voice" if request.seed == 2 else None
    service.pool.going.clear()
    for each in (new, other):  # whose chunks fail, and so need no room
        service.queue.accept(each)
        service.wait(each, lambda document: document.state == "processing")
    disk.leave(120 * KIB)  # 60 chunks take a page each
    service.pool.going.set()

    parked = service.wait(new, lambda document: document.parked)
    assert re.search("full|no room|not enough disk space", parked.parked)
    assert 0 < parked.chunks_done < 60
    service.wait(other, lambda document: document.state == "failed")
    for chunk in service.store.chunks(new.id):
        assert chunk.samples is None or service.audio_store.has(new.id, chunk.index, chunk.samples)
    assert not list((disk.folder / "audio").glob("*/*.part"))
    spoken_before = parked.chunks_done

    disk.make_room()

    done = service.wait(new, lambda document: document.state == "completed")
    assert done.parked is None
    assert len(service.pool.submitted[-1]) <= 60 - spoken_before
    assert_right(service, new)


def test_a_document_that_the_disk_cannot_take_is_not_begun(
    disk: SmallDisk, tmp_path: Path, serving: Callable[..., Service]
) -> None:
    service = serving(tmp_path / "store.sqlite", disk.folder / "audio")
    new = new_document(1, chunks=60)
    service.queue.close()
    service.store.accept(new)
    service.stop()
    disk.leave(40 * KIB)

    service = serving(tmp_path / "store.sqlite", disk.folder / "audio")
    parked = service.wait(new, lambda document: document.parked)

    assert "not enough disk space" in parked.parked
    assert service.pool.submitted == []
    with pytest.raises(NoRoomError) as refused:
        service.queue.accept(new_document(2, chunks=60))
    assert refused.value.status == 507
    disk.make_room()
    service.wait(new, lambda document: document.state == "completed")
    assert_right(service, new)


def test_a_disk_without_room_for_the_whole_keeps_the_chunks(
    disk: SmallDisk, tmp_path: Path, serving: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serving(tmp_path / "store.sqlite", disk.folder / "audio")
    new = new_document(1, chunks=30)
    assemble = AudioStore.assemble

    def crowded(audio_store: AudioStore, *arguments: Any) -> None:
        disk.leave(8 * KIB)
        monkeypatch.setattr(AudioStore, "assemble", assemble)
        assemble(audio_store, *arguments)

    monkeypatch.setattr(AudioStore, "assemble", crowded)

    service.queue.accept(new)

    parked = service.wait(new, lambda document: document.parked)
    assert parked.chunks_done == 30
    disk.make_room()
    service.wait(new, lambda document: document.state == "completed")
    assert len(service.pool.submitted) == 1
    assert_right(service, new)


def test_a_full_disk_with_the_store_on_it_loses_nothing_either(
    disk: SmallDisk, serving: Callable[..., Service]
) -> None:
    service = serving(disk.folder / "store.sqlite", disk.folder / "audio")
    new = new_document(1, chunks=60)
    service.pool.going.clear()
    service.queue.accept(new)
    service.wait(new, lambda document: document.state == "processing")
    disk.leave(0)

    with pytest.raises(NoRoomError, match="is full: delete documents, or free space"):
        accept_many(service.store)
    with pytest.raises(NoRoomError):
        service.queue.accept(new_document(1000))
    service.pool.going.set()
    eventually(lambda: service.pool.cancelled, "it is withdrawn")

    disk.make_room()

    for document in service.store.unfinished():
        service.wait(new_document(int(document.id, 16)), lambda document: document.state == "completed")
    assert_right(service, new)


def test_deleting_a_document_makes_room_on_a_disk_that_is_full_to_the_last_byte(
    disk: SmallDisk, serving: Callable[..., Service]
) -> None:
    service = serving(disk.folder / "store.sqlite", disk.folder / "audio")
    new = new_document(1, chunks=60)
    service.queue.accept(new)
    service.wait(new, lambda document: document.state == "completed")
    disk.leave(0)
    with pytest.raises(NoRoomError):
        accept_many(service.store)

    service.queue.cancel(new.id)

    assert new.id not in {document.id for document in service.store.documents(limit=1000)}


def test_a_document_that_has_no_audio_is_deleted_on_a_disk_that_is_full_to_the_last_byte(
    disk: SmallDisk, serving: Callable[..., Service]
) -> None:
    service = serving(disk.folder / "store.sqlite", disk.folder / "audio")
    service.pool.going.clear()
    ids = [new_document(number, chunks=40) for number in range(9001, 9004)]
    for new in ids:
        service.queue.accept(new)
    disk.leave(0)
    with pytest.raises(NoRoomError):
        accept_many(service.store)

    for new in ids:
        service.queue.cancel(new.id)
    assert not {new.id for new in ids} & {document.id for document in service.store.documents(limit=1000)}
