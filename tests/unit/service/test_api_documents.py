"""Document routes on a real socket: submission, events, audio streams, retry, deletion."""

from __future__ import annotations

import io
import json
import socket
import threading
import wave
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import numpy as np
import pytest
from eventually import PATIENCE, eventually
from service_app import Served, serving

from voxyard.service.auth.api_keys import add_key
from voxyard.service.documents.records import Chapter
from voxyard.service.documents.store import Store
from voxyard.service.routes.serializers import disposition
from voxyard.speech.audio.wav import from_bytes
from voxyard.speech.requests import SAMPLE_RATE

TEXT = "Chapter one.\n\nThe harbour lay still. Nobody was awake at that hour of the night, nobody but the watchman."
LONG = "\n\n".join(f"Paragraph number {number} of a text that takes a while to be spoken." for number in range(30))
SLOW = {"rows": 1, "seconds": 0.15}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("documents"), engine={"samples": 2400}) as served:
        yield served


def ask(served: Served, method: str, path: str, **options: Any) -> httpx.Response:
    return httpx.request(method, served.url + path, timeout=60, **options)


def send(served: Served, text: str = TEXT, **options: Any) -> dict[str, Any]:
    answer = ask(served, "POST", "/v1/documents", json={"text": text, **options})
    assert answer.status_code == 202, answer.text
    document: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/v1/documents/{document['id']}"
    return document


def ended(served: Served, document: dict[str, Any]) -> dict[str, Any]:
    """The document with its chunks, once nothing more happens to it."""
    path = f"/v1/documents/{document['id']}"
    eventually(lambda: ask(served, "GET", path).json()["state"] in ("completed", "failed"), "the document ends")
    found: dict[str, Any] = ask(served, "GET", f"{path}?chunks=true").json()
    return found


def samples(content: bytes) -> np.ndarray[Any, Any]:
    with wave.open(io.BytesIO(content)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def test_a_text_becomes_sound_and_its_chunks_know_their_times(served: Served) -> None:
    document = send(served, title="A night", voice="alloy", seed=3)
    found = ended(served, document)
    sound = samples(ask(served, "GET", found["audio"]["url"]).content)
    assert (found["state"], found["title"], found["voice"], found["seed"]) == (
        "completed", "A night", "v2/en_speaker_6", 3,
    )  # fmt: skip
    assert found["progress"]["ratio"] == 1
    assert found["audio"]["complete"]
    assert found["audio"]["ready_seconds"] == pytest.approx(len(sound) / SAMPLE_RATE, abs=1e-3)
    assert found["chunks"][-1]["end_seconds"] == pytest.approx(len(sound) / SAMPLE_RATE, abs=1e-3)
    for chunk in found["chunks"]:
        start, end = (round(chunk[name] * SAMPLE_RATE) for name in ("start_seconds", "end_seconds"))
        assert end - start == 2400 * len(chunk["text"])
        assert np.abs(sound[start:end]).max() > 8000
    pauses = [
        (a["end_seconds"], b["start_seconds"]) for a, b in zip(found["chunks"], found["chunks"][1:], strict=False)
    ]
    for start, end in pauses:
        assert not sound[round(start * SAMPLE_RATE) : round(end * SAMPLE_RATE)].any()


def test_without_a_voice_the_engines_own_is_written_down(served: Served) -> None:
    assert send(served)["voice"] == "v2/en_speaker_6"
    assert send(served, language="de")["voice"] == "v2/de_speaker_1"


@pytest.mark.parametrize("name", ["night.txt", "ночь.txt", "../../etc/night.txt", 'a"b\n.txt'])
def test_a_file_is_read_and_named_by_its_name(served: Served, name: str) -> None:
    files = {"file": (name, TEXT.encode("utf-16"), "text/plain")}
    answer = ask(served, "POST", "/v1/documents", files=files, data={"voice": "echo", "seed": "4", "language": ""})
    assert answer.status_code == 202, answer.text
    document = answer.json()
    assert document["voice"] == "v2/en_speaker_2"
    assert document["seed"] == 4
    assert "/" not in document["title"]
    chunks = ended(served, document)["chunks"]
    assert chunks[0]["text"].startswith("Chapter one.")


def test_a_file_that_is_read_while_it_is_asked_for_has_chapters_with_chunks(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    extracted, chapters = Store.extracted, Store.chapters
    asked = threading.Event()

    def once_asked(store: Store, *arguments: Any) -> None:
        asked.wait(PATIENCE)
        extracted(store, *arguments)

    def once_read(store: Store, id: str) -> tuple[Chapter, ...]:
        asked.set()
        eventually(lambda: store.document(id).chunks, "the file is read")
        return chapters(store, id)

    monkeypatch.setattr(Store, "extracted", once_asked)
    monkeypatch.setattr(Store, "chapters", once_read)
    file = {"file": ("story.md", b"# One\n\nThe harbour lay still.\n\n# Two\n\nNobody was awake.")}
    id = ask(served, "POST", "/v1/documents", files=file).json()["id"]
    found = ask(served, "GET", f"/v1/documents/{id}").json()
    assert [(each["title"], each["last_chunk"] >= each["first_chunk"]) for each in found["chapters"]] == [
        ("One", True), ("Two", True),
    ]  # fmt: skip


def test_the_same_idempotency_key_gives_the_same_document(served: Served) -> None:
    headers = {"Idempotency-Key": "night-1"}
    body = {"text": TEXT, "seed": 1}
    first = ask(served, "POST", "/v1/documents", json=body, headers=headers)
    again = ask(served, "POST", "/v1/documents", json=body, headers=headers)
    other = ask(served, "POST", "/v1/documents", json={**body, "seed": 2}, headers=headers)
    assert (first.status_code, again.status_code, other.status_code) == (202, 200, 409)
    assert first.json()["id"] == again.json()["id"]
    assert other.json()["error"]["code"] == "conflict"


@pytest.mark.parametrize("key", ["", "with blank", "k" * 256])
def test_an_idempotency_key_must_be_visible_ascii(served: Served, key: str) -> None:
    answer = ask(served, "POST", "/v1/documents", json={"text": TEXT}, headers={"Idempotency-Key": key})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "Idempotency-Key"


@pytest.mark.parametrize("last", ["9" * 18, str(2**63), "9" * 5000, "-1", "x"])
def test_events_are_told_whatever_a_client_says_it_has_received(served: Served, last: str) -> None:
    document = send(served)
    answer = ask(served, "GET", f"/v1/documents/{document['id']}/events", headers={"Last-Event-ID": last})
    assert (answer.status_code, answer.text.count("event: end")) == (200, 1)


def test_every_seed_of_the_command_line_is_taken(served: Served) -> None:
    answer = ask(served, "POST", "/v1/documents", json={"text": TEXT, "seed": 2**63 - 1})
    assert (answer.status_code, answer.json()["seed"]) == (202, 2**63 - 1)


@pytest.mark.parametrize(
    ("wrong", "status", "parameter"),
    [
        ({"text": " \n "}, 400, "text"),
        ({"text": "x", "voice": "nobody"}, 404, "voice"),
        ({"text": "x", "voice": "no\0body"}, 400, "voice"),
        ({"text": "x", "language": "english please"}, 400, "language"),
        ({"text": "x", "seed": 2**63}, 400, "seed"),
        ({"text": "x", "seed": 1.5}, 400, "seed"),
        ({"text": "x", "on_failure": "scream"}, 400, "on_failure"),
        ({"text": "x", "webhook": "http://127.0.0.1/hook"}, 403, "webhook"),
    ],
)
def test_a_wrong_option_is_named(served: Served, wrong: dict[str, Any], status: int, parameter: str) -> None:
    answer = ask(served, "POST", "/v1/documents", json=wrong)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, parameter)


def test_an_upload_without_a_length_is_refused_when_it_grows_too_large(tmp_path: Path) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        yield head
        for _ in range(4096):
            sent += 1 << 16
            yield b"word " * 13107 + b"\n"

    with serving(tmp_path / "data", max_upload_mib=1) as served:
        head = {"Content-Type": "multipart/form-data; boundary=x"}
        answer = ask(served, "POST", "/v1/documents", content=endless(), headers=head)
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "too_large"
        assert sent < 64 << 20
        assert ask(served, "GET", "/v1/documents").json()["documents"] == []


def test_a_text_with_too_many_characters_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "data", max_characters=100) as served:
        answer = ask(served, "POST", "/v1/documents", json={"text": "word " * 21})
        assert answer.status_code == 413
        assert answer.json()["error"]["param"] == "text"


@pytest.mark.slow
def test_the_audio_of_an_unfinished_document_is_streamed_in_order_to_its_end(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"rows": 1, "held": 12}, workers=2) as served:
        document = send(served, LONG)
        heard = b""
        with httpx.stream("GET", served.url + document["audio"]["url"], timeout=60) as answer:
            for piece in answer.iter_raw():
                if not heard:
                    assert ask(served, "GET", f"/v1/documents/{document['id']}").json()["state"] == "processing"
                    (tmp_path / "data/on").touch()
                heard += piece
        found = ended(served, document)
        whole = ask(served, "GET", found["audio"]["url"]).content
        assert answer.headers["content-type"] == "audio/wav"
        assert heard[44:] == whole[44:]


@pytest.mark.slow
def test_a_slow_listener_gets_all_audio_after_the_chunk_files_are_deleted(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"samples": 6000}) as served:
        document = send(served, LONG)
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        url = httpx.URL(served.url)
        connection.connect((url.host, url.port or 0))
        connection.sendall(f"GET {document['audio']['url']}?format=pcm HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        found = ended(served, document)
        connection.settimeout(60)
        received = bytearray()
        while piece := connection.recv(1 << 16):
            received += piece
        connection.close()
        whole = ask(served, "GET", found["audio"]["url"]).content
        assert bytes(received).partition(b"\r\n\r\n")[2] == whole[44:]


@pytest.mark.slow
def test_a_listener_who_leaves_stops_no_document(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine=SLOW) as served:
        document = send(served, LONG)
        with httpx.stream("GET", served.url + document["audio"]["url"], timeout=60) as answer:
            next(answer.iter_raw())
        assert ended(served, document)["state"] == "completed"


def test_a_document_that_is_deleted_cuts_its_listener_off_and_leaves_the_queue(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"rows": 1, "held": 25}) as served:
        document = send(served, LONG)
        with httpx.stream("GET", served.url + document["audio"]["url"], timeout=60) as answer:
            pieces = answer.iter_raw()
            next(pieces)
            assert ask(served, "DELETE", f"/v1/documents/{document['id']}").status_code == 204
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)
        eventually(lambda: not served.watch.queue, "the queue is empty")
        assert served.watch.chunks < 30
        assert ask(served, "GET", f"/v1/documents/{document['id']}").status_code == 404
        assert not list((tmp_path / "data" / "audio").glob("*/*"))


def test_a_failed_document_says_why_and_can_be_tried_again(tmp_path: Path) -> None:
    fault = {"rows": 1, "faults": {"speak": ["raise", 2]}, "marks": str(tmp_path)}
    with serving(tmp_path / "data", engine=fault) as served:
        document = ended(served, send(served, "One sentence only."))
        assert document["state"] == "failed"
        assert "One sentence only." in document["reason"]
        assert document["chunks"][0]["state"] == "failed"
        refused = ask(served, "GET", document["audio"]["url"])
        assert refused.status_code == 409
        assert "could not be synthesized" in refused.json()["error"]["message"]
        again = ask(served, "POST", f"/v1/documents/{document['id']}/retry")
        assert again.status_code == 202
        assert ended(served, document)["state"] == "completed"
        assert ask(served, "POST", f"/v1/documents/{document['id']}/retry").status_code == 409


def test_silence_stands_for_a_chunk_that_failed_where_that_was_asked_for(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"poison": [1], "rows": 1}) as served:
        document = ended(served, send(served, "First one here.\n\nSecond one here.", on_failure="silence"))
        assert document["state"] == "completed"
        assert [chunk["state"] for chunk in document["chunks"]] == ["spoken", "silenced"]
        assert document["chunks"][1]["reason"]


def test_a_completed_wav_takes_ranges(served: Served) -> None:
    document = ended(served, send(served))
    whole = ask(served, "GET", document["audio"]["url"]).content

    def ranged(value: str) -> httpx.Response:
        return ask(served, "GET", document["audio"]["url"], headers={"Range": value})

    assert (ranged("bytes=100-199").status_code, ranged("bytes=100-199").content) == (206, whole[100:200])
    assert ranged("bytes=-10").content == whole[-10:]
    assert ranged("bytes=44-").content == whole[44:]
    assert ranged("bytes=44-").headers["content-range"] == f"bytes 44-{len(whole) - 1}/{len(whole)}"
    behind = ranged(f"bytes={len(whole)}-")
    assert behind.status_code == 416
    assert behind.headers["content-range"] == f"bytes */{len(whole)}"
    assert behind.json()["error"]["code"] == "range_not_satisfiable"
    for nonsense in ("bytes=9-3", "bytes=-", "lines=1-2", "bytes=a-b", "bytes=0-1,4-5"):
        assert (ranged(nonsense).status_code, ranged(nonsense).content) == (200, whole)


def test_a_completed_document_comes_in_other_formats_and_speeds(served: Served) -> None:
    document = ended(served, send(served, title='Night: "one"/two'))
    url = document["audio"]["url"]
    whole = ask(served, "GET", url).content
    fast = ask(served, "GET", url, params={"speed": 2, "download": True})
    pcm = ask(served, "GET", url, params={"format": "pcm"})
    coded = ask(served, "GET", url, params={"format": "mp3"})
    assert len(samples(fast.content)) == pytest.approx(len(samples(whole)) / 2, rel=0.01)
    assert fast.headers["content-disposition"].startswith('attachment; filename="Night one two.wav"')
    assert pcm.content == whole[44:]
    assert np.array_equal(from_bytes(pcm.content), from_bytes(whole[44:]))
    assert coded.headers["content-type"] == "audio/mpeg"
    assert coded.content


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("夜" * 200, "夜" * 80),  # 100 of these letters have more bytes than a file's name may have
        ("🌊" * 200, "🌊" * 60),
        ("tide" * 40, "tide" * 25),
        ("a\u202egnp\u2069", "a gnp"),  # would be shown as a3pm.png
        ("شب\u200cها", "شب\u200cها"),
    ],
)
def test_a_download_has_a_name_that_every_file_system_takes(served: Served, title: str, name: str) -> None:
    record = replace(served.state.store.document(send(served)["id"]), title=title)
    header = disposition(record, "mp3", download=True)
    assert header.isascii()
    assert unquote(header.partition("UTF-8''")[2]) == f"{name}.mp3"
    assert len(f"{name}.mp3".encode()) <= 255


def test_events_tell_every_chunk_and_end(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine=SLOW, workers=2) as served:
        document = send(served, LONG)
        told = list(events(served, document))
        found = ended(served, document)
    assert told[-1][1:] == ("end", {"id": document["id"], "state": "completed"})
    assert next(each for each in told if each[1] == "progress")[2]["id"] == document["id"]
    ratios = [each[2]["progress"]["ratio"] for each in told if each[1] == "progress"]
    assert ratios == sorted(ratios)
    assert len(ratios) > 2
    last = {each[2]["index"]: each[2] for each in told if each[1] == "chunk"}
    for chunk in found["chunks"]:
        assert last[chunk["index"]]["state"] == chunk["state"]
        assert last[chunk["index"]]["start_seconds"] == chunk["start_seconds"]
        assert last[chunk["index"]]["end_seconds"] == chunk["end_seconds"]


def test_events_go_on_where_the_connection_was_lost(served: Served) -> None:
    document = ended(served, send(served))
    all_told = list(events(served, document))
    chunks = [each for each in all_told if each[1] == "chunk"]
    number = all_told[-1][0]
    later = list(events(served, document, {"Last-Event-ID": str(number)}))
    strange = list(events(served, document, {"Last-Event-ID": "²".encode("latin-1")}))
    assert len(chunks) == len(document["chunks"]) == number
    assert [each[1] for each in later] == ["progress", "end"]
    assert [each[1:] for each in strange] == [each[1:] for each in all_told]


def test_a_key_has_no_more_event_streams_than_it_may_and_gets_its_place_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxyard.service.routes.document_stream.MOST_EVENTS", 2)
    keys = tmp_path / "keys.yaml"
    ann, bob = ({"Authorization": f"Bearer {add_key(keys, name)}"} for name in ("ann", "bob"))
    with serving(tmp_path / "data", keys=keys, engine={"rows": 1, "seconds": 60.0}) as served, ExitStack() as stack:
        path = f"/v1/documents/{ask(served, 'POST', '/v1/documents', json={'text': TEXT}, headers=ann).json()['id']}"
        for _ in range(2):
            stack.enter_context(httpx.stream("GET", f"{served.url}{path}/events", headers=ann, timeout=PATIENCE))
        refused = ask(served, "GET", f"{path}/events", headers=ann)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["message"] == "2 event streams of the key are open: close one of them"
        assert ask(served, "GET", "/v1/documents", headers=bob).status_code == 200
        stack.close()
        eventually(lambda: not served.state.open_events, "both are closed")
        with httpx.stream("GET", f"{served.url}{path}/events", headers=ann, timeout=PATIENCE) as again:
            assert again.status_code == 200


def test_events_end_when_the_document_is_deleted(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"held": 0}) as served:
        document = send(served)
        told: list[Any] = []
        followed = threading.Event()
        thread = threading.Thread(target=lambda: told.extend(events(served, document, open_=followed)))
        thread.start()
        assert followed.wait(PATIENCE)
        eventually(lambda: served.watch.queue, "it is being spoken")
        assert ask(served, "DELETE", f"/v1/documents/{document['id']}").status_code == 204
        thread.join(60)
        assert told[-1][1:] == ("end", {"id": document["id"], "state": "deleted"})


def test_an_idle_event_stream_sends_keep_alive_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxyard.service.routes.document_stream.HEARTBEAT", 0.05)
    with serving(tmp_path / "data", engine={"held": 0}) as served:
        document = send(served)
        with httpx.stream("GET", f"{served.url}/v1/documents/{document['id']}/events", timeout=60) as answer:
            lines = answer.iter_lines()
            assert any(line.startswith(":") for line in lines)


def test_documents_are_listed_the_newest_first_page_by_page(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as served:
        ids = [send(served, f"Text number {number}.")["id"] for number in range(5)]
        listed: list[str] = []
        before: str | None = ""
        while before is not None:
            page = ask(served, "GET", f"/v1/documents?limit=2{before and f'&before={before}'}").json()
            listed += [each["id"] for each in page["documents"]]
            before = page["next"]
        assert listed == ids[::-1]


def test_a_client_sees_its_own_documents_only(tmp_path: Path) -> None:
    keys = {name: add_key(tmp_path / "keys.yaml", name) for name in ("ann", "bob")}
    with serving(tmp_path / "data", keys=tmp_path / "keys.yaml") as served:
        ann, bob = ({"Authorization": f"Bearer {keys[name]}"} for name in ("ann", "bob"))
        body = {"text": TEXT}
        document = ask(served, "POST", "/v1/documents", json=body, headers={**ann, "Idempotency-Key": "1"}).json()
        path = f"/v1/documents/{document['id']}"
        refused = [
            ask(served, method, path + rest, headers=bob).status_code
            for method, rest in (
                ("GET", ""), ("GET", "/audio"), ("GET", "/events"), ("POST", "/retry"), ("DELETE", ""),
            )
        ]  # fmt: skip
        assert refused == [404] * 5
        assert ask(served, "GET", "/v1/documents", headers=bob).json()["documents"] == []
        assert ask(served, "GET", f"/v1/documents?before={document['id']}", headers=bob).status_code == 404
        other = ask(served, "POST", "/v1/documents", json=body, headers={**bob, "Idempotency-Key": "1"})
        assert other.status_code == 202
        assert ask(served, "GET", path, headers=ann).status_code == 200
        assert ask(served, "GET", path).status_code == 401


def test_a_full_queue_is_429_with_retry_after(tmp_path: Path) -> None:
    with serving(tmp_path / "data", engine={"held": 0}, max_documents=1) as served:
        send(served)
        answer = ask(served, "POST", "/v1/documents", json={"text": TEXT})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1


def events(
    served: Served, document: dict[str, Any], headers: Any = None, open_: threading.Event | None = None
) -> Iterator[tuple[int, str, Any]]:
    """(id, event, data) of each event, once the stream has ended; `open_` is set when it has begun."""
    url = f"{served.url}/v1/documents/{document['id']}/events"
    with httpx.stream("GET", url, headers=headers, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        if open_ is not None:
            open_.set()
        for event in "\n".join(answer.iter_lines()).split("\n\n"):
            lines = dict(line.split(": ", 1) for line in event.split("\n") if line and not line.startswith(":"))
            if lines:
                yield int(lines["id"]), lines["event"], json.loads(lines["data"])
