"""Extraction of an uploaded file as its document's first step: at once accepted, cancellable, by turns of the keys."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import epubs
import httpx
import pdfs
import psutil
import pytest
from documents import ThreadPool
from eventually import PATIENCE, eventually
from service_app import Served, serving

from voxyard.extraction.sandbox import MAX_CONCURRENT
from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import AudioStore
from voxyard.service.auth.api_keys import add_key
from voxyard.service.config import ServiceSection
from voxyard.service.documents.queue import DocumentQueue
from voxyard.service.documents.records import Document, NewChunk, NewDocument, Upload
from voxyard.service.documents.store import Store
from voxyard.service.errors import NoRoomError, UnreadableDocumentError
from voxyard.speech.audio.joining import Pauses

LINE = "It was late and so the night went on until the first light came over the hills."
PDF = pdfs.written([[LINE]])
SLOW_PDF = pdfs.written([[LINE] * 50] * 1500)  # takes the child many seconds


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("uploads"), engine={"samples": 240}) as served:
        yield served


def send(served: Served, content: bytes, name: str = "night.pdf", **options: Any) -> httpx.Response:
    files = {"file": (name, content, "application/octet-stream")}
    return httpx.post(f"{served.url}/v1/documents", files=files, data=options, timeout=60)


def look(served: Served, document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{served.url}/v1/documents/{document['id']}?chunks=true", timeout=60).json()
    return found


def children() -> list[psutil.Process]:
    found = []
    for each in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since it was listed
            if "voxyard.extraction.child" in each.cmdline():
                found.append(each)
    return found


def test_a_file_is_accepted_before_its_text_is_read(served: Served) -> None:
    answer = send(served, PDF, title="Night", seed="3")
    assert (answer.status_code, answer.json()["state"], answer.json()["phase"]) == (202, "pending", "extracting")
    assert answer.json()["progress"]["ratio"] == 0
    sound = httpx.get(f"{served.url}/v1/documents/{answer.json()['id']}/audio?format=pcm", timeout=60)

    found = look(served, answer.json())
    eventually(lambda: look(served, answer.json())["state"] == "completed", "it is spoken")
    assert sound.content
    assert (found["phase"], found["title"]) == (None, "Night")
    assert LINE.startswith(found["chunks"][0]["text"])


def test_the_title_is_the_files_until_its_own_is_read(served: Served) -> None:
    answer = send(served, PDF).json()
    assert answer["title"] == "night"


@pytest.mark.slow
def test_a_file_that_cannot_be_read_fails_its_document_with_message_and_code(served: Served) -> None:
    answer = send(served, PDF[:300])
    assert answer.status_code == 202
    eventually(lambda: look(served, answer.json())["state"] == "failed", "it has failed")

    found = look(served, answer.json())
    assert found["code"] == "unreadable_document"
    assert found["reason"].startswith("night.pdf: ")
    assert found["progress"]["chunks"] == 0
    audio = httpx.get(f"{served.url}/v1/documents/{answer.json()['id']}/audio", timeout=60)
    assert audio.status_code == 409
    assert "night.pdf" in audio.json()["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("declared", "options", "voice", "language"),
    [
        ("deu", {}, "v2/de_speaker_1", "de"),
        ("de-AT", {}, "v2/de_speaker_1", "de"),
        ("de", {"language": "en"}, "v2/en_speaker_6", "en"),
        ("de", {"voice": "alloy"}, "v2/en_speaker_6", "en"),
        ("de", {"voice": "announcer"}, "announcer", "de"),
        ("und", {}, "v2/en_speaker_6", "en"),
        ("no language at all", {}, "v2/en_speaker_6", "en"),
    ],
)
def test_a_file_is_spoken_in_the_language_that_it_declares(
    served: Served, declared: str, options: dict[str, str], voice: str, language: str
) -> None:
    page = f'<html lang="{declared}"><body><p>Um 5 km.</p></body></html>'.encode()
    answer = send(served, page, "page.html", **options)
    eventually(lambda: look(served, answer.json())["state"] == "completed", "it is spoken")
    found = look(served, answer.json())
    assert (found["voice"], found["language"]) == (voice, language)
    words = {"de": "Um fünf Kilometer.", "en": "Um five kilometers."}[language]
    assert served.state.store.spoken(found["id"]) == {0: words}


@pytest.mark.parametrize(("name", "before"), [("text.txt", ""), ("page.html", "<!doctype html><p>")])
def test_a_document_says_that_characters_are_lost(served: Served, name: str, before: str) -> None:
    text = "The rain fell all night. " * 40 + "caf\N{REPLACEMENT CHARACTER} " * 8
    answer = send(served, f"{before}{text}".encode(), name)
    eventually(lambda: look(served, answer.json())["state"] == "completed", "it is spoken")
    assert look(served, answer.json())["note"].startswith("characters are lost at 8 places, the first after “")


def test_a_voice_of_another_language_speaks_and_the_document_says_so(served: Served) -> None:
    page = b'<!doctype html><html lang="de-AT"><body><p>Guten Tag.</p></body></html>'
    note = "the text is in the language de, and the voice v2/en_speaker_6 speaks en"
    file = send(served, page, "page.html", voice="alloy")
    asked = {"text": "Guten Tag.", "language": "de"}
    text = httpx.post(f"{served.url}/v1/documents", json={**asked, "voice": "alloy"}, timeout=60)
    fitting = httpx.post(f"{served.url}/v1/documents", json=asked, timeout=60)
    eventually(lambda: look(served, file.json())["state"] == "completed", "it is spoken")
    assert look(served, file.json())["note"].startswith(note)
    assert text.json()["note"].startswith(note)
    assert fitting.json()["note"] is None


def test_an_epub_is_spoken_in_its_language(served: Served) -> None:
    answer = send(served, epubs.epub({"Eins": "Er ging 5 km."}, title="Ein Buch", language="de-DE"), "buch.epub")
    eventually(lambda: look(served, answer.json())["state"] == "completed", "it is spoken")
    found = look(served, answer.json())
    assert (found["voice"], found["language"]) == ("v2/de_speaker_1", "de")


def test_a_file_is_spoken_in_words_with_its_lexicon_and_pauses(served: Served) -> None:
    text = b"nginx cost $5.\n\n[pause 1.5s]\n\nIt ran."
    answer = send(served, text, "a.md", lexicon=json.dumps({"nginx": "engine x"}), read="currency")
    eventually(lambda: look(served, answer.json())["state"] == "completed", "it is spoken")
    first, second = look(served, answer.json())["chunks"]
    assert served.state.store.spoken(answer.json()["id"]) == {0: "engine x cost five dollars."}
    assert second["start_seconds"] - first["end_seconds"] == pytest.approx(1.5)


@pytest.mark.slow
def test_files_are_read_also_while_no_more_documents_are_spoken(tmp_path: Path) -> None:
    with serving(tmp_path, engine={"seconds": 600.0}, active_documents=1) as served:
        spoken = httpx.post(f"{served.url}/v1/documents", json={"text": LINE}, timeout=60).json()
        eventually(lambda: look(served, spoken)["state"] == "processing", "the first one is being spoken")
        broken, good = send(served, PDF[:300]).json(), send(served, PDF).json()
        eventually(lambda: look(served, broken)["state"] == "failed", "the broken file is found out")
        eventually(lambda: look(served, good)["phase"] != "extracting", "the file is read")
        assert (look(served, good)["state"], look(served, good)["progress"]["chunks"]) == ("pending", 2)


@pytest.mark.parametrize(
    ("name", "content", "status", "code"),
    [
        ("night.png", b"\x89PNG\r\n\x1a\n", 415, "unsupported_document"),
        ("night.pdf", b"no PDF at all", 400, "unreadable_document"),
        ("night.docx", PDF, 400, "unreadable_document"),
    ],
)
def test_a_file_of_another_type_is_refused_at_once(
    served: Served, name: str, content: bytes, status: int, code: str
) -> None:
    answer = send(served, content, name)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_deleting_a_document_ends_the_process_that_reads_it(served: Served) -> None:
    document = send(served, SLOW_PDF).json()
    eventually(children, "a process reads it")

    assert httpx.delete(f"{served.url}/v1/documents/{document['id']}", timeout=60).status_code == 204

    eventually(lambda: not children(), "the process has ended")


def test_the_same_key_and_file_give_the_same_document(served: Served) -> None:
    def post(content: bytes) -> httpx.Response:
        return httpx.post(
            f"{served.url}/v1/documents", files={"file": ("a.pdf", content)}, headers={"Idempotency-Key": "a"},
            timeout=60,
        )  # fmt: skip

    first, again, other = post(PDF), post(PDF), post(pdfs.written([["Another."]]))
    assert (first.status_code, again.status_code, other.status_code) == (202, 200, 409)
    assert first.json()["id"] == again.json()["id"]


@pytest.mark.slow
def test_crafted_files_of_one_key_keep_no_small_file_of_another_waiting(tmp_path: Path) -> None:
    letters = b"".join(b"1 0 0 1 %d %d Tm (a) Tj\n" % (n * 7 % 600, n * 13 % 800) for n in range(190_000))
    crafted = pdfs.document([b"BT /F1 10 Tf\n" + letters + b"ET"] * 9, packed=True)  # 30 s of CPU and more
    keys = {name: add_key(tmp_path / "keys.yaml", name) for name in ("flood", "other")}
    with serving(tmp_path / "data", engine={"samples": 240}, keys=tmp_path / "keys.yaml") as served:
        flood, other = (httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=60) for key in keys.values())
        files = [{"file": (f"{number}.pdf", crafted)} for number in range(4)]
        sent = [flood.post(f"{served.url}/v1/documents", files=each).json()["id"] for each in files]
        eventually(lambda: len(children()) == MAX_CONCURRENT - 1, "all but one place are taken")
        small = other.post(f"{served.url}/v1/documents", files={"file": ("small.pdf", PDF)}).json()["id"]
        most = [0]

        def is_spoken() -> bool:
            most.append(len(children()))
            return bool(other.get(f"{served.url}/v1/documents/{small}").json()["state"] == "completed")

        eventually(is_spoken, "the small file is spoken")
        assert max(most) <= MAX_CONCURRENT
        states = [flood.get(f"{served.url}/v1/documents/{id}").json() for id in sent]
        assert [each["phase"] for each in states] == ["extracting"] * 4, "nobody waited for the crafted files"
        for id in sent:
            assert flood.delete(f"{served.url}/v1/documents/{id}").status_code == 204
        eventually(lambda: not children(), "their readers have ended")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    if request.param == "sqlite":
        return tmp_path / "store.sqlite"
    url: str = request.getfixturevalue("postgres").url()
    return url


def uploaded(number: int = 1, owner: str = "") -> NewDocument:
    upload = Upload("night.pdf", "application/pdf", False, PDF)
    return NewDocument(f"{number:032x}", owner, "night", "", (), time.time(), upload=upload)


class Reader:
    """Reads an upload once it may."""

    def __init__(self) -> None:
        self.going, self.begun, self.cancelled = threading.Event(), threading.Event(), False
        self.owners: list[str] = []

    def __call__(self, document: Document, upload: Upload, cancelled: threading.Event) -> NewDocument:
        self.owners.append(document.owner)
        self.begun.set()
        while not self.going.wait(0.01):
            if cancelled.is_set():
                self.cancelled = True
                raise UnreadableDocumentError("cancelled")
        assert upload.content == PDF
        return self.read(document)

    @staticmethod
    def read(document: Document) -> NewDocument:
        chunk = NewChunk(0, 0, len(LINE), "paragraph", 1.0)
        return NewDocument(document.id, document.owner, "Night", LINE, (chunk,), document.created, voice="en_1")


def queue_of(store: Store, folder: Path, reader: Reader, pool: ThreadPool, quota: int = 10**9) -> DocumentQueue:
    audio_store = AudioStore(AudioFolder(folder), quota=quota)
    return DocumentQueue(
        store, audio_store, pool, ServiceSection(), Pauses(), poll_seconds=0.05, read_upload=reader
    )  # fmt: skip


def test_a_service_that_stopped_goes_on_with_the_extraction_at_its_next_start(
    place: Path | str, tmp_path: Path
) -> None:
    first, second = Reader(), Reader()
    second.going.set()
    for reader in (first, second):
        store, pool = Store(place, service="a", claim_seconds=1.0), ThreadPool()
        queue = queue_of(store, tmp_path / "audio", reader, pool)
        queue.start()
        if reader is first:
            queue.accept(uploaded())
            assert reader.begun.wait(PATIENCE)
        else:
            eventually(lambda: store.document(uploaded().id).state == "completed")  # noqa: B023
            assert store.document(uploaded().id).title == "Night"
            assert store.upload_bytes() == 0
        queue.close()
        pool.close()
        store.close()
    assert first.cancelled


def test_files_of_one_key_leave_a_place_to_another_and_no_more_are_read_at_a_time(
    place: Path | str, tmp_path: Path
) -> None:
    store, pool, reader = Store(place, service="a", claim_seconds=1.0), ThreadPool(), Reader()
    queue = queue_of(store, tmp_path / "audio", reader, pool)
    queue.start()
    for number in range(1, 6):
        queue.accept(uploaded(number, "flood"))
    eventually(lambda: len(reader.owners) == MAX_CONCURRENT - 1, "all but one place are taken")
    for number, owner in enumerate(("other", "third"), 6):
        queue.accept(uploaded(number, owner))
    eventually(lambda: len(reader.owners) == MAX_CONCURRENT, "another key has the last one")
    assert sorted(reader.owners) == ["flood", "flood", "other"]
    queue.cancel(uploaded(1).id)
    eventually(lambda: len(reader.owners) == MAX_CONCURRENT + 1, "a place is free again")
    assert reader.owners[-1] == "third"
    reader.going.set()
    eventually(lambda: store.counts()["completed"] == 6, "all that are left are spoken")
    queue.close()
    pool.close()
    store.close()


def test_uploads_count_in_the_quota(tmp_path: Path) -> None:
    store, pool, reader = Store(tmp_path / "store.sqlite"), ThreadPool(), Reader()
    queue = queue_of(store, tmp_path / "audio", reader, pool, quota=2 * len(PDF))
    queue.start()
    queue.accept(uploaded(1))
    queue.accept(uploaded(2))
    with pytest.raises(NoRoomError):
        queue.accept(uploaded(3))
    queue.close()
    pool.close()
    store.close()


def test_a_document_is_spoken_in_the_order_of_its_arrival_however_long_its_file_was_read(
    place: Path | str,
) -> None:
    store = Store(place, service="a", claim_seconds=60.0)
    file, text = uploaded(1), replace(uploaded(2), upload=None)
    for document in (file, text):
        store.accept(document)
    assert store.claims.take("extracting") == file.id
    assert store.claims.take("extracting") is None
    store.extracted(file.id, Reader.read(store.document(file.id)))
    store.claims.release(file.id)
    store.claims.look_again()
    assert [store.claims.take() for _ in range(3)] == [file.id, text.id, None]
    store.close()


MARKDOWN = "# One\n\nIt *lay* [still](https://example.org/a).\n\n# Two\n\n```py\nx = 1\n```\n\nA bell rang."


@pytest.mark.parametrize("form", [False, True])
def test_a_text_may_be_markdown(served: Served, form: bool) -> None:
    asked = {"text": MARKDOWN, "input_format": "markdown"}
    given: dict[str, Any] = {"json": asked}
    if form:
        given = {"files": {name: (None, value) for name, value in asked.items()}}
    answer = httpx.post(f"{served.url}/v1/documents", **given, timeout=60)
    assert (answer.status_code, answer.json()["title"]) == (202, "One")
    eventually(lambda: look(served, answer.json())["state"] == "completed", "it is spoken")
    found = look(served, answer.json())
    assert [each["title"] for each in found["chapters"]] == ["One", "Two"]
    spoken = " ".join(" ".join(each["text"].split()) for each in found["chunks"])
    assert spoken == "One It lay still. Two A bell rang."


def test_markdown_is_refused_in_words_where_something_else_tells_the_format(served: Served) -> None:
    file = send(served, b"# One", "one.md", input_format="markdown")
    chapters = {"chapters": [{"title": "One", "text": "*A.*"}], "input_format": "markdown"}
    of_chapters = httpx.post(f"{served.url}/v1/documents", json=chapters, timeout=60)
    for answer, said in ((file, "leave input_format out"), (of_chapters, "whose headings begin its chapters")):
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input_format")
        assert said in answer.json()["error"]["message"]


def test_the_words_of_a_markdown_text_are_shown(served: Served) -> None:
    asked = {"text": "It *costs* `$5`.\n\n```\nx\n```", "input_format": "markdown", "read": "all"}
    answer = httpx.post(f"{served.url}/v1/audio/script", json=asked, timeout=60)
    assert [each["words"] for each in answer.json()["chunks"]] == ["It costs five dollars."]
    refused = httpx.post(f"{served.url}/v1/audio/script", json={**asked, "text": "```\nx\n```"}, timeout=60)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "text")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["script", "chapters", "timings", "subtitles", "audio", "audio?format=m4b"])
def test_what_has_happened_to_a_document_without_text_is_told(served: Served, what: str) -> None:
    failed = send(served, PDF[:300]).json()
    eventually(lambda: look(served, failed)["state"] == "failed", "it has failed")
    answer = httpx.get(f"{served.url}/v1/documents/{failed['id']}/{what}", timeout=60)
    assert answer.status_code == 409
    assert f"document {failed['id']} failed: night.pdf: " in answer.json()["error"]["message"]


@pytest.mark.parametrize("what", ["script", "chapters", "timings", "subtitles"])
def test_a_document_that_is_being_read_says_so(served: Served, what: str) -> None:
    reading = send(served, SLOW_PDF).json()
    answer = httpx.get(f"{served.url}/v1/documents/{reading['id']}/{what}", timeout=60)
    httpx.delete(f"{served.url}/v1/documents/{reading['id']}", timeout=60)
    assert answer.status_code == 409
    assert f"the text of document {reading['id']} is being read" in answer.json()["error"]["message"]


@pytest.mark.parametrize("field", ["cast", "lexicon"])
def test_a_field_of_a_form_that_is_no_json_is_told_its_shape(served: Served, field: str) -> None:
    answer = send(served, b"# One\n\nIt rained.", "a.md", **{field: "mia=nova"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
    assert f'{field}: expected a JSON object such as {{"NAME": "VALUE"}}: ' in answer.json()["error"]["message"]
