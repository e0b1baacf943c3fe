"""Audio store: atomic files, identical audio from chunks and the joined file, quota and reserve."""

from __future__ import annotations

import errno
import os
import struct
import tempfile
import threading
import wave
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from joined import join

from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import SECOND, AudioStore
from voxyard.service.documents.records import Redo, StoredChunk, with_spans
from voxyard.service.errors import NoRoomError, NotFoundError, StoreError
from voxyard.speech.audio.joining import Pauses, Span
from voxyard.speech.audio.wav import file_size, from_bytes, header, to_bytes
from voxyard.speech.requests import Result

ID = "0123456789abcdef" * 2
PAUSES = Pauses()


@pytest.fixture
def audio_store(tmp_path: Path) -> AudioStore:
    return AudioStore(AudioFolder(tmp_path / "audio"), quota=10**9)


def noise(samples: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).uniform(-1.1, 1.1, samples).astype(np.float32)


def chunk(index: int, samples: int | None, ending: Any = "sentence") -> StoredChunk:
    return StoredChunk(index, 0, 1, ending, 1.0, "waiting" if samples is None else "spoken", samples, None)


def fill(audio_store: AudioStore, lengths: tuple[int, ...] = (500, 0, 2000, 3)) -> tuple[StoredChunk, ...]:
    endings = ("sentence", "paragraph", "clause", "sentence")
    return tuple(
        chunk(index, audio_store.put(ID, index, noise(samples, index)), endings[index % 4])
        for index, samples in enumerate(lengths)
    )


@settings(max_examples=30, deadline=None)
@given(st.data(), st.lists(st.sampled_from((0, 1, 700, 40_000)), min_size=1, max_size=8))
def test_audio_made_anew_is_as_if_all_were_joined_with_the_new_chunks(data: Any, lengths: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        audio_store = AudioStore(AudioFolder(Path(folder)), quota=10**9)
        chunks = fill(audio_store, tuple(lengths))
        audio_store.assemble(ID, chunks, PAUSES)
        redos = dict[int, Redo]()
        for index in data.draw(st.sets(st.integers(0, len(lengths) - 1))):
            new = noise(data.draw(st.sampled_from((0, 5, 900))), 50 + index)
            redos[index] = Redo(1, None, audio_store.put(ID, index, new, 2), 2)
            audio_store.put(ID, index, new)
        audio_store.rebuild(ID, chunks, redos, PAUSES, 0, 2, threading.Event())
        renewed = [replace(each, samples=redos[each.index].samples) if each.index in redos else each for each in chunks]
        audio_store.assemble(ID, renewed, PAUSES)
        made, joined = (Path(folder) / ID / name for name in ("audio.2.wav", "audio.wav"))
        assert made.read_bytes() == joined.read_bytes()


def test_audio_is_read_back_as_it_was_stored(audio_store: AudioStore) -> None:
    audio = noise(1000)
    assert audio_store.put(ID, 7, audio) == 1000
    np.testing.assert_allclose(audio_store.get(ID, 7), np.clip(audio, -1, 1), atol=1 / 65_000)
    assert to_bytes(audio_store.get(ID, 7)) == to_bytes(audio)
    assert audio_store.has(ID, 7, 1000)
    assert not audio_store.has(ID, 7, 999)
    assert not audio_store.has(ID, 8, 0)


@pytest.mark.parametrize("name", ["", "..", "../" + ID, ID[:-1], ID.upper(), ID + "\n", ID + "/x", "0" * 33])
def test_an_invalid_id_never_becomes_a_path(audio_store: AudioStore, name: str) -> None:
    acts = (
        lambda: audio_store.put(name, 0, noise(1)), lambda: audio_store.get(name, 0),
        lambda: audio_store.has(name, 0, 1),
        lambda: audio_store.wav_size(name), lambda: audio_store.remove(name), lambda: audio_store.remove_chunks(name),
        lambda: audio_store.assemble(name, (), PAUSES), lambda: audio_store.is_assembled(name, (), PAUSES),
    )  # fmt: skip
    for act in acts:
        with pytest.raises(NotFoundError):
            act()


def test_the_whole_is_what_its_pieces_are_before_while_and_after(audio_store: AudioStore, tmp_path: Path) -> None:
    chunks = fill(audio_store)
    before = list(audio_store.pieces(ID, chunks, PAUSES))
    reading = audio_store.pieces(ID, chunks, PAUSES)
    across = [next(reading)]

    audio_store.assemble(ID, chunks, PAUSES)
    path = tmp_path / "audio" / ID / "audio.wav"
    assert audio_store.is_assembled(ID, chunks, PAUSES)
    audio_store.remove_chunks(ID)

    across += list(reading)
    after = list(audio_store.pieces(ID, chunks, PAUSES))
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        content = file.readframes(file.getnframes())
    for pieces in (before, across, after):
        assert b"".join(to_bytes(piece.audio) for piece in pieces) == content
        assert [(piece.chunk, piece.start, piece.end) for piece in pieces] == [
            (each.index, span.start, span.end) for each, span in with_spans(chunks, PAUSES)
        ]
    assert audio_store.path(ID, "audio.wav") == path
    assert audio_store.wav_size(ID) == path.stat().st_size
    assert b"".join(audio_store.stream(ID, "audio.wav", 10, 300)) == path.read_bytes()[10:300]
    assert path.stat().st_size == file_size(len(content) // 2)
    with pytest.raises(NotFoundError):
        audio_store.get(ID, 0)


@settings(max_examples=60, deadline=None)
@example(parts=[(9, "clause"), (0, "paragraph"), (9, "sentence")])
@given(
    parts=st.lists(
        st.tuples(st.just(0) | st.integers(1, 400), st.sampled_from(["clause", "sentence", "paragraph"])),
        min_size=1,
        max_size=12,
    )
)
def test_the_timeline_is_what_join_does(parts: list[tuple[int, Any]]) -> None:
    pauses = Pauses(clause=0.001, sentence=0.003, paragraph=0.01, fade=0.001)
    chunks = [chunk(index, samples, ending) for index, (samples, ending) in enumerate(parts)]
    spoken = [(Result(index, noise(samples)), ending) for index, (samples, ending) in enumerate(parts)]

    joined = list(join(spoken, pauses))

    assert [(piece.end - len(piece.audio), piece.start, piece.end) for piece in joined] == [
        (span.begin, span.start, span.end) for _, span in with_spans(chunks, pauses)
    ]


def test_the_timeline_ends_where_a_chunk_has_no_sound_yet() -> None:
    chunks = (chunk(0, 24_000), chunk(1, None), chunk(2, 24_000))
    assert list(with_spans(chunks, PAUSES)) == [(chunks[0], Span(0, 0, 24_000))]
    assert next(with_spans(chunks, PAUSES))[1].end_seconds == 1.0


def test_pieces_come_as_soon_as_their_chunk_does(audio_store: AudioStore) -> None:
    chunks = fill(audio_store)
    asked: list[int] = []

    def arriving() -> Iterator[StoredChunk]:
        for each in chunks:
            asked.append(each.index)
            yield each

    reading = audio_store.pieces(ID, arriving(), PAUSES)
    next(reading)
    assert asked == [0]


def test_a_chunk_that_was_changed_on_the_disk_is_not_joined(audio_store: AudioStore, tmp_path: Path) -> None:
    chunks = fill(audio_store)
    path = tmp_path / "audio" / ID / "2.s16"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(StoreError, match=r"chunk 2 of document .* has 1999 samples on the disk, expected 2000"):
        audio_store.assemble(ID, chunks, PAUSES)
    with pytest.raises(NotFoundError):
        audio_store.wav_size(ID)
    assert not list(path.parent.glob("*.part"))


def test_a_whole_file_that_was_cut_is_not_whole(audio_store: AudioStore, tmp_path: Path) -> None:
    chunks = fill(audio_store)
    audio_store.assemble(ID, chunks, PAUSES)
    path = tmp_path / "audio" / ID / "audio.wav"
    audio_store.remove_chunks(ID)
    with path.open("rb+") as file:
        file.truncate(1000)
    assert not audio_store.is_assembled(ID, chunks, PAUSES)
    with pytest.raises(StoreError, match="ends before chunk"):
        list(audio_store.pieces(ID, chunks, PAUSES))


def test_the_sound_of_a_deleted_document_ends_with_an_error(audio_store: AudioStore) -> None:
    chunks = fill(audio_store)
    reading = audio_store.pieces(ID, chunks, PAUSES)
    next(reading)
    audio_store.remove(ID)
    with pytest.raises(NotFoundError):
        list(reading)


def test_used_bytes_are_what_lies_there_also_after_a_restart(audio_store: AudioStore, tmp_path: Path) -> None:
    def lies() -> int:
        return sum(path.stat().st_size for path in (tmp_path / "audio").rglob("*") if path.is_file())

    chunks = fill(audio_store)
    assert audio_store.used_bytes() == lies() == 2 * 2503
    audio_store.put(ID, 0, noise(100))
    assert audio_store.used_bytes() == lies()
    audio_store.put(ID, 0, noise(500, 0))
    audio_store.assemble(ID, chunks, PAUSES)
    assert audio_store.used_bytes() == lies()
    audio_store.remove_chunks(ID)
    assert audio_store.used_bytes() == lies() == AudioStore(AudioFolder(tmp_path / "audio"), quota=1).used_bytes()
    audio_store.remove(ID)
    assert audio_store.used_bytes() == lies() == 0
    assert audio_store.ids() == ()
    audio_store.remove(ID)


def test_partial_files_of_a_killed_service_are_deleted_at_the_next_start(
    audio_store: AudioStore, tmp_path: Path
) -> None:
    fill(audio_store)
    part = tmp_path / "audio" / ID / "9.s16.part"
    part.write_bytes(b"half")
    again = AudioStore(AudioFolder(tmp_path / "audio"), quota=1)
    assert not part.exists()
    assert again.used_bytes() == audio_store.used_bytes()


def test_a_file_is_on_the_disk_before_it_has_its_name(
    audio_store: AudioStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, bool]] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        seen.append((path.name, (tmp_path / "audio" / ID / "0.s16").exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    audio_store.put(ID, 0, noise(10))
    assert seen == [("audio", False), ("0.s16.part", False), (ID, True)]


def test_the_quota_and_the_reserve_refuse_what_does_not_fit(audio_store: AudioStore, tmp_path: Path) -> None:
    second = 48_000
    small = AudioStore(AudioFolder(tmp_path / "audio"), quota=10 * second)
    small.check_room(10.0)
    small.check_room(6.0, waiting_seconds=4.0)
    with pytest.raises(NoRoomError, match=r"about 0\.5 MiB needed with pending documents, 0\.5 MiB left of 0\.5 MiB"):
        small.check_room(6.0, waiting_seconds=4.1)
    small.put(ID, 0, noise(24_000))
    with pytest.raises(NoRoomError, match="raise --disk-quota"):
        small.check_room(9.1)
    free = small.free_bytes()
    careful = AudioStore(AudioFolder(tmp_path / "audio"), quota=10**15, reserve=round(free) + 10**12)
    with pytest.raises(NoRoomError, match="are reserved: delete documents, or free space"):
        careful.check_room(0.1)


def test_a_new_document_needs_room_for_its_chunks_and_for_the_joined_file(tmp_path: Path) -> None:
    roomy = AudioStore(AudioFolder(tmp_path / "audio"), quota=10**18)
    free = roomy.free_bytes() / SECOND  # seconds of audio
    roomy.check_room(0.4 * free)
    roomy.check_room(0.1 * free, waiting_seconds=0.7 * free)  # documents are joined one at a time
    with pytest.raises(NoRoomError, match="not enough disk space"):
        roomy.check_room(0.6 * free)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_write_that_fails_leaves_nothing_behind(
    audio_store: AudioStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    audio_store.put(ID, 0, noise(5))
    sync = os.fsync

    def failing(_: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        expected = StoreError if number == errno.EIO else NoRoomError
        for index in (0, 1):
            with pytest.raises(expected):
                audio_store.put(ID, index, noise(10))
    assert os.fsync is sync
    assert [path.name for path in (tmp_path / "audio" / ID).iterdir()] == ["0.s16"]
    assert audio_store.used_bytes() == 10
    assert audio_store.has(ID, 0, 5)


def test_it_can_be_used_from_many_threads(audio_store: AudioStore) -> None:
    names = [f"{number:032x}" for number in range(4)]

    def work(name: str) -> None:
        for index in range(20):
            audio_store.put(name, index, noise(10))
        if name != names[0]:
            audio_store.remove(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert audio_store.ids() == (names[0],)
    assert audio_store.used_bytes() == 20 * 20


def test_a_document_can_be_removed_while_its_chunks_come(audio_store: AudioStore) -> None:
    over = threading.Event()
    troubles: list[Exception] = []

    def putting() -> None:
        index = 0
        while not over.is_set():
            index += 1
            try:
                audio_store.put(ID, index % 50, noise(10))
            except StoreError as error:  # its folder went while it wrote
                troubles.append(error)

    thread = threading.Thread(target=putting)
    thread.start()
    for _ in range(100):
        audio_store.remove(ID)
    over.set()
    thread.join()
    audio_store.remove(ID)
    assert audio_store.ids() == ()
    assert audio_store.used_bytes() == 0


def test_the_header_of_a_day_of_sound_is_rf64() -> None:
    largest = (2**32 - 1 - 36) // 2
    assert header(largest)[:4] == b"RIFF"
    riff, size, kind, ds64, _, whole, data, samples, _ = struct.unpack("<4sI4s4sIQQQI", header(largest + 1)[:48])
    assert (riff, size, kind, ds64) == (b"RF64", 2**32 - 1, b"WAVE", b"ds64")
    assert (whole, data, samples) == (file_size(largest + 1) - 8, 2 * (largest + 1), largest + 1)
    assert header(largest + 1)[-8:] == b"data" + b"\xff" * 4
    assert len(header(largest + 1)) == 80


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=400).filter(lambda content: len(content) % 2 == 0 and b"\x00\x80" not in content))
def test_bytes_to_floats_and_back_are_the_same_bytes(content: bytes) -> None:
    assert to_bytes(from_bytes(content)) == content


@pytest.fixture
def shared(tmp_path: Path) -> Callable[[], AudioStore]:
    """Opens the audio store of one more service on the same folder."""
    return lambda: AudioStore(
        AudioFolder(tmp_path / "audio", shared=True), quota=10 * SECOND, shared_usage=lambda: 4 * SECOND
    )


def test_a_service_leaves_what_another_is_writing_alone(
    shared: Callable[[], AudioStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, audio = shared(), noise(1000)
    first.put(ID, 1, noise(5))
    old = tmp_path / "audio" / ID / "9.s16.abc.part"
    old.write_bytes(b"half")
    os.utime(old, (1.0, 1.0))
    sync = os.fsync
    seconds: list[AudioStore] = []

    def another_starts(descriptor: int) -> None:
        if not seconds:
            seconds.append(shared())
            seconds[0].put(ID, 0, audio)  # the same chunk, after a claim was lost
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", another_starts)

    assert first.put(ID, 0, audio) == 1000

    assert to_bytes(first.get(ID, 0)) == to_bytes(audio)
    assert sorted(path.name for path in (tmp_path / "audio" / ID).iterdir()) == ["0.s16", "1.s16"]


def test_the_quota_of_a_shared_folder_counts_the_audio_of_all_services(shared: Callable[[], AudioStore]) -> None:
    audio_store = shared()
    assert audio_store.used_bytes() == 4 * SECOND
    audio_store.check_room(6.0)
    with pytest.raises(NoRoomError, match="audio quota exceeded"):
        audio_store.check_room(6.1)


def test_services_that_remove_a_document_at_once_leave_nothing_and_fail_nowhere(
    shared: Callable[[], AudioStore], tmp_path: Path
) -> None:
    services = [shared() for _ in range(4)]
    failures: list[BaseException] = []

    def remove(service: AudioStore) -> None:
        try:
            service.remove(ID)
        except StoreError as error:
            failures.append(error)

    for _ in range(20):
        for index in range(20):
            services[0].put(ID, index, noise(2))
        threads = [threading.Thread(target=remove, args=(service,)) for service in services]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert services[0].ids() == ()
