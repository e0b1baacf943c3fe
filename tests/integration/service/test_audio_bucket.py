"""Audio files in a bucket: the same audio as in a directory, errors in words, a service that uses it."""

from __future__ import annotations

import re
import socket
import threading
import wave
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import boto3
import httpx
import numpy as np
import pytest
from botocore.awsrequest import AWSResponse
from botocore.stub import ANY, Stubber
from eventually import PATIENCE, eventually
from moto.server import ThreadedMotoServer
from s3_server import BUCKET, s3_server, started
from service_app import serving
from urllib3.response import HTTPResponse

from voxyard.service.audio.bucket import AudioBucket, open_bucket
from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.shelf import check_shelf, open_shelf
from voxyard.service.audio.store import AudioStore
from voxyard.service.documents.records import StoredChunk
from voxyard.service.documents.store import Store
from voxyard.service.errors import NoRoomError, NotFoundError, StoreError, StoreUnavailableError
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.audio.wav import to_bytes

ID, OTHER = "0123456789abcdef" * 2, "f" * 32
PAUSES = Pauses()
URL = f"s3://{BUCKET}/audio"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedMotoServer]:
    """An S3 server with an empty bucket."""
    with s3_server(tmp_path) as running:
        yield running


@pytest.fixture
def bucket(server: ThreadedMotoServer) -> AudioBucket:
    """Opened as settings name it."""
    return open_bucket(URL)


def objects() -> list[str]:
    return [each["Key"] for each in boto3.Session().client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", ())]


def uploads() -> list[Any]:
    return list(boto3.Session().client("s3").list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()))


def noise(samples: int, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, samples).astype(np.float32)


def fill(audio_store: AudioStore, lengths: tuple[int, ...] = (500, 0, 2000, 3)) -> tuple[StoredChunk, ...]:
    return tuple(
        StoredChunk(index, 0, 1, "sentence", 1.0, "spoken", audio_store.put(ID, index, noise(samples, index)), None)
        for index, samples in enumerate(lengths)
    )


def test_the_audio_is_that_of_a_directory_before_and_after_it_is_joined(bucket: AudioBucket, tmp_path: Path) -> None:
    stores = [AudioStore(files, quota=10**9) for files in (AudioFolder(tmp_path / "audio"), bucket)]
    chunks = [fill(each) for each in stores]
    assert chunks[0] == chunks[1]
    found = []
    for each in stores:
        before = [to_bytes(piece.audio) for piece in each.pieces(ID, chunks[0], PAUSES)]
        assert all(each.has(ID, chunk.index, chunk.samples or 0) for chunk in chunks[0])
        assert not each.has(ID, 9, 0)
        assert not each.is_assembled(ID, chunks[0], PAUSES)
        each.assemble(ID, chunks[0], PAUSES)
        each.remove_chunks(ID)
        assert each.is_assembled(ID, chunks[0], PAUSES)
        assert [to_bytes(piece.audio) for piece in each.pieces(ID, chunks[0], PAUSES)] == before
        found.append(b"".join(each.stream(ID, "audio.wav", 0, each.wav_size(ID))))
        assert b"".join(each.stream(ID, "audio.wav", 100, 300)) == found[0][100:300]
    assert found[0] == found[1]
    with wave.open(BytesIO(found[1])) as file:
        assert file.getframerate() == 24_000
    assert objects() == [f"audio/{ID}/audio.wav"]
    assert stores[1].path(ID, "audio.wav") is None
    assert stores[1].ids() == (ID,)


@pytest.mark.slow
def test_a_long_document_is_sent_in_parts(bucket: AudioBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxyard.service.audio.bucket.PART_BYTES", 5 << 20)
    content = np.random.default_rng(0).bytes(12 << 20)
    with bucket.write(ID, "audio.wav") as file:
        for at in range(0, len(content), 1 << 20):
            file.write(content[at : at + (1 << 20)])
            assert objects() == []
    assert bucket.read(ID, "audio.wav") == content
    assert b"".join(bucket.stream(ID, "audio.wav", 7, 11 << 20)) == content[7 : 11 << 20]
    assert uploads() == []


def test_a_file_whose_writing_fails_does_not_appear(bucket: AudioBucket) -> None:
    def write(size: int) -> None:
        with bucket.write(ID, "audio.wav") as file:
            file.write(bytes(size))
            raise ZeroDivisionError

    for size in (10, 9 << 20):
        with pytest.raises(ZeroDivisionError):
            write(size)
    assert objects() == []
    assert uploads() == []


@pytest.mark.slow
def test_a_document_is_removed_with_all_its_files_and_no_other(bucket: AudioBucket, server: ThreadedMotoServer) -> None:
    audio_store = AudioStore(bucket, quota=10**9)
    client = boto3.Session().client("s3")
    for index in range(1100):  # more than one request lists or deletes
        client.put_object(Bucket=BUCKET, Key=f"audio/{ID}/{index}.s16", Body=b"")
    audio_store.put(OTHER, 0, noise(5, 0))
    assert audio_store.ids() == (ID, OTHER)
    audio_store.remove(ID)
    audio_store.remove(ID)
    assert objects() == [f"audio/{OTHER}/0.s16"]
    with pytest.raises(NotFoundError):
        audio_store.get(ID, 0)
    with pytest.raises(NotFoundError):
        list(audio_store.stream(ID, "audio.wav", 0, 10))
    with pytest.raises(NotFoundError):
        audio_store.wav_size(ID)


def test_a_bucket_belongs_to_one_set_of_documents(bucket: AudioBucket, tmp_path: Path) -> None:
    one, other = Store(tmp_path / "one.sqlite"), Store(tmp_path / "other.sqlite")
    check_shelf(bucket, one, mark=True)
    check_shelf(open_bucket(URL + "/"), one, mark=True)
    AudioStore(bucket, quota=10**9).put(ID, 0, noise(5, 0))
    with pytest.raises(StoreError, match=f"^{URL}/ has the audio of other documents than those of --store"):
        check_shelf(bucket, other, mark=True)
    check_shelf(open_bucket(f"s3://{BUCKET}/other"), other, mark=True)
    assert bucket.mark("0" * 8) == bucket.marker() != "0" * 8
    one.close()
    other.close()


@pytest.mark.parametrize(
    "url", ["s3://", "s3://Speech", "s3://a", "gs://speech/audio", "s3:///audio", "https://speech"]
)
def test_a_wrong_url_is_an_error(url: str) -> None:
    with pytest.raises(StoreError, match=f"^--shelf {re.escape(url)}: expected a directory, or s3://BUCKET/PREFIX"):
        open_shelf(url, shared=True)


def test_a_bucket_that_is_missing_is_named(server: ThreadedMotoServer) -> None:
    with pytest.raises(
        StoreError, match=r"^s3://missing/: there is no such bucket: make it, or choose another --shelf$"
    ):
        open_bucket("s3://missing").create()


def test_a_server_that_is_away_is_said_so(bucket: AudioBucket, server: ThreadedMotoServer) -> None:
    server.stop()
    with pytest.raises(StoreUnavailableError, match=r"^the audio files cannot be reached now: retry in 5 s$"):
        bucket.read(ID, "0.s16")


class SilentServer:
    """In place of an S3 server: takes connections, and says nothing."""

    def __init__(self, port: int) -> None:
        self.asked = 0
        self._socket = socket.create_server(("127.0.0.1", port))
        self._taken: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                self._taken.append(self._socket.accept()[0])
                self.asked += 1

    def close(self) -> None:
        for each in (self._socket, *self._taken):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "is gone"])
def test_clients_of_a_bucket_that_is_away_are_told_when_to_come_again_and_not_where_it_is(
    hangs: bool, server: ThreadedMotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr("voxyard.service.audio.bucket._READ_SECONDS", 0.5)
    monkeypatch.setattr("voxyard.service.documents.server_answers.ANSWER_SECONDS", 0.3)
    _, port = server.get_host_and_port()
    with (
        serving(tmp_path / "service", shelf=URL) as served,
        httpx.Client(base_url=served.url, timeout=PATIENCE) as client,
    ):
        id = client.post("/v1/documents", json={"text": "One is here. Two is here."}).json()["id"]
        eventually(lambda: client.get(f"/v1/documents/{id}").json()["state"] == "completed", "it is completed")
        whole = client.get(f"/v1/documents/{id}/audio").content
        assert "voxyard_service_shelf_up 1.0" in client.get("/metrics").text
        server.stop()
        silent = SilentServer(port) if hangs else None
        eventually(lambda: client.get(f"/v1/documents/{id}/audio").status_code == 503, "it is away")
        asked = 0 if silent is None else silent.asked
        answers = [client.get(f"/v1/documents/{id}/audio") for _ in range(20)]
        if silent is not None:
            assert silent.asked == asked, "each request waits for a bucket that is known to be away"
        for answer in answers:
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert answer.json()["error"]["message"] == "the audio files cannot be reached now: retry in 5 s"
        assert "voxyard_service_shelf_up 0.0" in client.get("/metrics").text
        told = [each for each in caplog.records if f"{URL}/ cannot be used" in each.getMessage()]
        assert 1 <= len(told) < 5, "it is logged again, and not for each request"
        if silent is not None:
            silent.close()
        again = started(port)
        eventually(lambda: "voxyard_service_shelf_up 1.0" in client.get("/metrics").text, "its return is told")
        assert client.get(f"/v1/documents/{id}/audio").content == whole
        again.stop()


def test_missing_keys_are_said_so(server: ThreadedMotoServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreError, match="no keys: put them into a file named by AWS_SHARED_CREDENTIALS_FILE"):
        open_bucket(URL).create()


REFUSALS: list[tuple[str, int, type[Exception], str]] = [
    ("AccessDenied", 403, StoreError, r"refuses the keys \(AccessDenied\): expected ones that may list, read, write"),
    ("SignatureDoesNotMatch", 403, StoreError, r"refuses the keys \(SignatureDoesNotMatch\): .*CREDENTIALS_FILE"),
    ("RequestTimeTooSkewed", 403, StoreError, "refuses the time of this host's clock: set it"),
    ("MethodNotAllowed", 405, StoreError, r"cannot be read or written \(MethodNotAllowed\)"),
    ("QuotaExceeded", 403, NoRoomError, "is full: delete documents, or give it more room"),
    ("XMinioStorageFull", 507, NoRoomError, "is full"),
    ("SlowDown", 503, StoreUnavailableError, r"cannot be reached now \(SlowDown\): retry in 5 s"),
]


@pytest.mark.parametrize(("code", "status", "kind", "words"), REFUSALS)
def test_refusals_of_the_server_are_errors_of_the_service(
    code: str, status: int, kind: type[Exception], words: str
) -> None:
    client = boto3.Session().client("s3", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="y")
    with Stubber(client) as stub:
        stub.add_client_error("put_object", code, http_status_code=status)
        with pytest.raises(kind, match=words) as refused, AudioBucket(client, BUCKET, "").write(ID, "0.s16") as file:
            file.write(b"..")
    assert type(refused.value) is kind


def test_an_upload_that_cannot_be_given_up_either_says_the_first_error() -> None:
    client = boto3.Session().client("s3", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="y")
    with Stubber(client) as stub:
        where = {"Bucket": BUCKET, "Key": f"{ID}/audio.wav"}
        stub.add_response("create_multipart_upload", {"UploadId": "7"}, where)
        stub.add_client_error("upload_part", "AccessDenied", expected_params={**where, **dict.fromkeys(
            ("UploadId", "PartNumber", "Body"), ANY)})  # fmt: skip
        stub.add_client_error("abort_multipart_upload", "InternalError", http_status_code=500)
        files = AudioBucket(client, BUCKET, "")
        with pytest.raises(StoreError, match="AccessDenied"), files.write(ID, "audio.wav") as file:
            file.write(bytes(9 << 20))


@pytest.mark.slow
def test_a_service_keeps_its_audio_in_a_bucket_and_passes_ranges_on(server: ThreadedMotoServer, tmp_path: Path) -> None:
    with (
        serving(tmp_path / "service", shelf=URL, disk_reserve_mib=0) as served,
        httpx.Client(base_url=served.url) as client,
    ):
        id = client.post("/v1/documents", json={"text": "One is here. Two is here. Three is here."}).json()["id"]
        eventually(lambda: client.get(f"/v1/documents/{id}").json()["state"] == "completed", "it is completed")
        eventually(lambda: objects() == ["audio/.voxyard", f"audio/{id}/audio.wav"], "its chunks are deleted")
        assert not (tmp_path / "service/audio").exists()
        files, sizes = served.state.audio_store._files, []
        assert isinstance(files, AudioBucket)
        files._client.meta.events.register("before-call.s3.HeadObject", lambda **_: sizes.append(id))
        whole = client.get(f"/v1/documents/{id}/audio")
        assert sizes == [id], "its size is asked for once a request"
        assert (whole.status_code, whole.headers["accept-ranges"]) == (200, "bytes")
        assert int(whole.headers["content-length"]) == len(whole.content) > 1000

        def part(asked: str, **more: str) -> httpx.Response:
            return client.get(f"/v1/documents/{id}/audio", headers={"Range": asked, **more})

        for asked, start, end in (("bytes=10-99", 10, 100), ("bytes=10-", 10, None), ("bytes=-7", -7, None)):
            found = part(asked)
            assert found.status_code == 206, asked
            assert found.content == whole.content[start:end], asked
            assert re.fullmatch(rf"bytes \d+-\d+/{len(whole.content)}", found.headers["content-range"])
        assert part("bytes=10-99", **{"If-Range": '"x"'}).status_code == 200
        assert part("bytes=0-1,5-6").status_code == 200
        assert part(f"bytes={len(whole.content)}-").status_code == 416
        client.delete(f"/v1/documents/{id}")
        eventually(lambda: objects() == ["audio/.voxyard"], "its audio is gone")


def test_chunks_wait_in_memory_for_a_bucket_that_is_away(server: ThreadedMotoServer, tmp_path: Path) -> None:
    _, port = server.get_host_and_port()
    with (
        serving(tmp_path / "service", shelf=URL) as served,
        httpx.Client(base_url=served.url, timeout=60) as client,
    ):
        server.stop()
        id = client.post("/v1/documents", json={"text": "One is here. Two is here."}).json()["id"]
        eventually(lambda: served.watch.chunks > 0, "a chunk is spoken")
        assert client.get(f"/v1/documents/{id}").json()["state"] == "processing"
        again = started(port)
        eventually(lambda: client.get(f"/v1/documents/{id}").json()["state"] == "completed", "it is completed")
        assert served.watch.chunks == client.get(f"/v1/documents/{id}").json()["progress"]["chunks"]
        again.stop()


@pytest.mark.slow
def test_documents_are_parked_while_a_bucket_refuses_the_keys(server: ThreadedMotoServer, tmp_path: Path) -> None:
    body = b"<Error><Code>AccessDenied</Code></Error>"

    def refused(request: Any, **_: object) -> AWSResponse:
        raw = HTTPResponse(BytesIO(body), preload_content=False)
        return AWSResponse(request.url, 403, {"content-type": "application/xml"}, raw)

    with serving(tmp_path / "service", shelf=URL) as served, httpx.Client(base_url=served.url, timeout=60) as client:
        files = served.state.audio_store._files
        assert isinstance(files, AudioBucket)
        events = files._client.meta.events
        events.register("before-send.s3.PutObject", refused, "refused")
        id = client.post("/v1/documents", json={"text": "One is here. Two is here."}).json()["id"]

        def parked() -> str:
            return str(client.get(f"/v1/documents/{id}").json()["parked"])

        eventually(lambda: "refuses the keys (AccessDenied)" in parked(), "it is parked, with the reason")
        assert BUCKET not in parked()
        events.unregister("before-send.s3.PutObject", unique_id="refused")
        eventually(lambda: client.get(f"/v1/documents/{id}").json()["state"] == "completed", "it is completed")
