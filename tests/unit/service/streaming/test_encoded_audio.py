"""Audio in other formats: encoded once for all readers, kept as a file, served with ranges and validators."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
from eventually import PATIENCE, eventually
from service_app import Served, serving

from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import AudioStore
from voxyard.service.documents.records import StoredChunk
from voxyard.service.documents.store import Store
from voxyard.service.routes import document_stream
from voxyard.service.streaming import audio_response
from voxyard.service.streaming.shared_encoding import SharedEncoding
from voxyard.speech.audio.encoder import FORMATS, Encoder
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.requests import SAMPLE_RATE

TEXT = "\n\n".join(f"Paragraph number {number} of a text that is spoken." for number in range(12))
SLOW = {"rows": 1, "seconds": 0.05, "samples": 480}
ID = "0123456789abcdef" * 2
SHIPPED_COPY_SECONDS = document_stream.COPY_SECONDS


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that does other work encodes slowly."""
    monkeypatch.setattr("voxyard.service.routes.document_stream.COPY_SECONDS", 60.0)


@pytest.fixture
def encoders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Formats of the encoders that were opened."""
    opened: list[str] = []

    class Counted(Encoder):
        def __init__(self, format: Any, *arguments: Any, **options: Any) -> None:
            opened.append(format)
            super().__init__(format, *arguments, **options)

    monkeypatch.setattr(audio_response, "Encoder", Counted)
    return opened


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("encoded"), engine={"samples": 480, "rows": 4}) as served:
        yield served


def sent(served: Served) -> str:
    """Address of a new document."""
    return f"{served.url}/v1/documents/" + str(
        httpx.post(f"{served.url}/v1/documents", json={"text": TEXT}, timeout=60).json()["id"]
    )


def completed(served: Served) -> str:
    """Address of a document that is complete, whose chunks' own files are gone."""
    address = sent(served)
    eventually(lambda: httpx.get(address).json()["state"] == "completed", "the document is complete")
    eventually(lambda: files(served, address) == {"audio.wav"}, "its chunks' files are deleted")
    return address


def got(address: str, kind: str = "mp3", headers: dict[str, str] | None = None, **options: Any) -> httpx.Response:
    return httpx.get(f"{address}/audio", params={"format": kind, **options}, headers=headers, timeout=240)


def files(served: Served, address: str) -> set[str]:
    folder = served.state.section.data_dir / "audio" / address.rpartition("/")[2]
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.mark.parametrize("kind", [each for each in FORMATS if each != "wav"])
def test_readers_of_a_completed_document_share_one_encoding_and_then_its_file(
    served: Served, encoders: list[str], kind: str
) -> None:
    address = completed(served)
    with ThreadPoolExecutor(12) as readers:
        together = list(readers.map(lambda _: got(address, kind).content, range(12)))
    later = got(address, kind)

    assert encoders == [kind]
    assert {*together, later.content} == {together[0]}
    assert len(together[0]) > 500
    assert int(later.headers["content-length"]) == len(together[0])
    assert files(served, address) == {"audio.wav", f"audio.{kind}"}


@pytest.mark.parametrize("kind", ["opus", "mp3", "flac", "ogg"])
def test_a_copy_is_decoded_to_the_length_of_the_documents_sound(served: Served, kind: str) -> None:
    address = completed(served)
    seconds = len(got(address, "pcm").content) / (2 * SAMPLE_RATE)
    with av.open(BytesIO(got(address, kind).content), "r") as file:
        (stream,) = file.streams.audio
        decoded = sum([float(frame.samples / frame.sample_rate) for frame in file.decode(stream)])
    assert decoded == pytest.approx(seconds, abs=0.1)


def test_an_encoded_file_takes_ranges_and_has_a_validator(served: Served) -> None:
    address = completed(served)
    first = got(address)
    tag, whole = first.headers["etag"], first.content

    assert first.headers["accept-ranges"] == "bytes"
    part = got(address, headers={"Range": "bytes=100-199", "If-Range": tag})
    assert (part.status_code, part.content) == (206, whole[100:200])
    assert part.headers["content-range"] == f"bytes 100-199/{len(whole)}"
    other = got(address, headers={"Range": "bytes=100-199", "If-Range": '"another"'})
    assert (other.status_code, other.content) == (200, whole)
    dated = got(address, headers={"Range": "bytes=100-199", "If-Range": first.headers["last-modified"]})
    assert dated.status_code == 206
    behind = got(address, headers={"Range": f"bytes={len(whole)}-"})
    assert (behind.status_code, behind.headers["content-range"]) == (416, f"bytes */{len(whole)}")
    for known in (tag, f"W/{tag}", f'"another", {tag}', "*"):
        assert got(address, headers={"If-None-Match": known}).status_code == 304
    assert got(address, "flac").headers["etag"] != tag != got(address, "wav").headers["etag"]


def test_head_has_the_length_of_an_audio_that_was_not_asked_for_yet(served: Served) -> None:
    address = completed(served)
    head = httpx.head(f"{address}/audio", params={"format": "opus"}, timeout=60)
    whole = got(address, "opus")

    assert (head.status_code, head.content) == (200, b"")
    for each in ("content-length", "etag", "content-type", "accept-ranges"):
        assert head.headers[each] == whole.headers[each]
    part = httpx.head(f"{address}/audio", params={"format": "opus"}, headers={"Range": "bytes=0-9"}, timeout=60)
    assert (part.status_code, part.headers["content-length"]) == (206, "10")


def test_a_long_encoding_is_followed_from_its_first_byte(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxyard.service.routes.document_stream.COPY_SECONDS", 0.0)
    address = completed(served)
    growing = got(address)
    eventually(lambda: not len(served.state.encodings), "no encoding is left")
    whole = got(address)

    assert growing.content == whole.content
    assert "content-length" not in growing.headers
    head = httpx.head(f"{address}/audio", params={"format": "aac"}, timeout=60)
    assert (head.status_code, head.content) == (200, b"")
    eventually(lambda: not len(served.state.encodings), "the encoding that HEAD began has ended")


def test_with_the_shipped_time_a_copy_that_takes_longer_is_sent_while_it_is_made(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_stream, "COPY_SECONDS", SHIPPED_COPY_SECONDS)
    goes_on = threading.Event()

    class Held(Encoder):
        def finish(self) -> bytes:
            assert goes_on.wait(PATIENCE), "no reader got the first bytes while the encoder was at work"
            return super().finish()

    monkeypatch.setattr(audio_response, "Encoder", Held)
    address = completed(served)
    with httpx.stream("GET", f"{address}/audio", params={"format": "flac"}, timeout=50) as growing:
        assert "content-length" not in growing.headers
        blocks = growing.iter_raw()
        first = next(blocks)
        assert not goes_on.is_set()
        goes_on.set()
        content = first + b"".join(blocks)

    eventually(lambda: not len(served.state.encodings), "no encoding is left")
    whole = httpx.get(f"{address}/audio", params={"format": "flac"}, timeout=60)
    assert whole.headers["content-length"] == str(len(whole.content))
    assert content == whole.content


@pytest.mark.slow
def test_readers_of_a_growing_document_share_one_encoder_and_wait_without_threads(
    tmp_path: Path, encoders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, all_read = list[SharedEncoding](), threading.Event()
    read, spoken = SharedEncoding.read, Store.chunk_spoken

    def counted(encoding: SharedEncoding) -> Any:
        begun.append(encoding)
        return read(encoding)

    def held(store: Store, id: str, index: int, *arguments: Any, **options: Any) -> Any:
        assert index < 6 or all_read.wait(PATIENCE), "all read before it is complete"
        return spoken(store, id, index, *arguments, **options)

    monkeypatch.setattr(SharedEncoding, "read", counted)
    monkeypatch.setattr(Store, "chunk_spoken", held)
    with serving(tmp_path / "data", engine=SLOW) as served:
        address = sent(served)
        before = threading.active_count()
        most: list[int] = []
        with ThreadPoolExecutor(60) as readers:
            reading = [readers.submit(lambda: got(address).content) for _ in range(60)]
            while not all(each.done() for each in reading):
                if len(begun) == 60:
                    all_read.set()
                most.append(threading.active_count() - before - 60)
                threading.Event().wait(0.02)
        eventually(lambda: httpx.get(address).json()["state"] == "completed", "the document is complete")

        assert encoders == ["mp3"]
        assert {each.result() for each in reading} == {got(address).content}
        assert max(most) < 45  # up to 40 of the framework begin the requests, and none is a reader's
        assert not len(served.state.encodings)


@pytest.mark.slow
def test_readers_that_wait_for_a_slow_disk_hold_up_no_other_request(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = completed(served)
    whole = got(address).content
    disk, stream, before = threading.Event(), AudioStore.stream, threading.active_count()

    def slow(*arguments: Any) -> Iterator[bytes]:
        disk.wait(300)
        yield from stream(*arguments)

    monkeypatch.setattr(AudioStore, "stream", slow)
    with ThreadPoolExecutor(60) as readers:
        reading = [readers.submit(lambda: got(address).content) for _ in range(60)]
        try:
            eventually(lambda: threading.active_count() - before > 60, "all of them are there")
            for _ in range(50):
                assert httpx.get(address, timeout=30).status_code == 200
            assert not any(each.done() for each in reading)
            # Threads that began the readers' requests end when they have had nothing to do for ten seconds.
            eventually(
                lambda: (
                    httpx.get(address, timeout=30).is_success and threading.active_count() - before - len(reading) < 20
                ),
                "readers that wait hold a few threads",
            )
        finally:
            disk.set()
        assert {each.result() for each in reading} == {whole}


def test_an_audiobook_is_a_stored_file_too(served: Served) -> None:
    address = completed(served)
    first = got(address, "m4b")
    part = got(address, "m4b", {"Range": "bytes=-10", "If-Range": first.headers["etag"]})
    head = httpx.head(f"{address}/audio", params={"format": "m4b"}, timeout=60)

    assert (part.status_code, part.content) == (206, first.content[-10:])
    assert (head.status_code, int(head.headers["content-length"])) == (200, len(first.content))
    assert got(address, "m4b", {"If-None-Match": first.headers["etag"]}).status_code == 304


def test_copies_are_counted_and_deleted_with_the_document(served: Served) -> None:
    address = completed(served)
    before = served.state.audio_store.used_bytes()
    size = len(got(address).content)
    assert served.state.audio_store.used_bytes() == before + size

    wav = int(got(address, "wav").headers["content-length"])
    assert httpx.delete(address).status_code == 204
    assert served.state.audio_store.used_bytes() == before - wav
    assert files(served, address) == set()


def test_without_room_for_a_copy_readers_get_the_audio_all_the_same(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = completed(served)
    monkeypatch.setattr(AudioStore, "room_bytes", lambda _: 1000.0)
    streamed = got(address)
    assert files(served, address) == {"audio.wav"}
    monkeypatch.undo()
    assert got(address).content == streamed.content
    assert files(served, address) == {"audio.wav", "audio.mp3"}


def stored(files: AudioFolder) -> AudioStore:
    """A document that is complete, in a place."""
    audio_store = AudioStore(files, quota=10**9, shared_usage=lambda: 0)
    samples = audio_store.put(ID, 0, np.zeros(500, np.float32))
    audio_store.assemble(ID, [StoredChunk(0, 0, 1, "sentence", 1.0, "spoken", samples, None)], Pauses())
    audio_store.remove_chunks(ID)
    return audio_store


def test_services_that_encode_the_same_leave_one_whole_file(tmp_path: Path) -> None:
    stores = [stored(AudioFolder(tmp_path, shared=True)) for _ in range(3)]
    content = bytes(range(256)) * 5000
    with ThreadPoolExecutor(3) as services:
        kept = services.map(lambda each: each.keep_copy(ID, 0, "mp3", BytesIO(content)), stores)
    assert list(kept) == [True] * 3
    assert {path.name for path in (tmp_path / ID).iterdir()} == {"audio.wav", "audio.mp3"}
    assert (tmp_path / ID / "audio.mp3").read_bytes() == content


def test_a_copy_that_fails_half_way_or_whose_document_is_deleted_leaves_nothing(tmp_path: Path) -> None:
    class Broken(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(28, "No space left on device")

    audio_store = stored(AudioFolder(tmp_path))
    assert not audio_store.keep_copy(ID, 0, "mp3", Broken(b"half"))
    assert {path.name for path in (tmp_path / ID).iterdir()} == {"audio.wav"}
    audio_store.remove(ID)
    assert not audio_store.keep_copy(ID, 0, "mp3", BytesIO(b"whole"))
    assert not (tmp_path / ID).exists()
