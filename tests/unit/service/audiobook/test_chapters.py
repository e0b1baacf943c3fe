"""Chapters: from headings to chunks, in the API, in the audio, in subtitles and in an audiobook."""

from __future__ import annotations

import io
import json
import re
import subprocess
import wave
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import epubs
import httpx
import numpy as np
import pytest
from eventually import eventually
from service_app import Served, serving

from voxyard.extraction.document import TextChapter
from voxyard.service.audiobook.chapters import of_headings, timed
from voxyard.service.documents.records import Chapter
from voxyard.speech.audio.joining import Span
from voxyard.speech.requests import SAMPLE_RATE

BOOK = [
    {"title": "One", "text": "The harbour lay still. Nobody was awake.\n\nNobody but the watchman, who waited."},
    {"title": "Two & more <b>", "text": "In the morning the ships came in, one after the other."},
    {"title": "Three", "text": "Then it was over."},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("chapters"), engine={"samples": 1200}) as served:
        yield served


@pytest.fixture(scope="module")
def book(served: Served) -> dict[str, Any]:
    answer = httpx.post(
        f"{served.url}/v1/documents", json={"title": "A harbour", "author": "Ann\x00 Ode", "chapters": BOOK}, timeout=60
    )
    assert answer.status_code == 202, answer.text
    url = f"{served.url}/v1/documents/{answer.json()['id']}"
    eventually(lambda: httpx.get(url).json()["state"] == "completed", "the book is spoken")
    found: dict[str, Any] = httpx.get(url, params={"chunks": True}).json()
    return {**found, "href": url}


def samples(content: bytes) -> np.ndarray[Any, Any]:
    with wave.open(io.BytesIO(content)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def test_what_stands_before_the_first_heading_is_a_chapter_of_the_documents_title() -> None:
    starts = [0, 10, 20, 30, 40]
    assert of_headings([], starts, "A book") == ()
    found = of_headings([TextChapter("Two", 30, 2), TextChapter("One", 8)], starts, "A book")
    assert found == (Chapter("A book", 1, 0), Chapter("One", 1, 1), Chapter("Two", 2, 3))


def test_a_heading_with_nothing_to_speak_is_no_chapter() -> None:
    headings = [TextChapter("***", 0), TextChapter("One", 5), TextChapter("…", 90)]
    assert of_headings(headings, [5, 20], "A book") == (Chapter("One", 1, 0),)


def test_the_times_of_a_chapter_are_known_once_its_last_chunk_is() -> None:
    chapters = [Chapter("One", 1, 0), Chapter("Two", 1, 2)]
    second = SAMPLE_RATE
    spans = [Span(0, 0, second), Span(second, 2 * second, 3 * second), Span(3 * second, 4 * second, 5 * second)]
    one, two = timed(chapters, 4, spans)
    assert (one.first, one.last, one.start_seconds, one.end_seconds) == (0, 1, 0.0, 3.0)
    assert (two.first, two.last, two.start_seconds, two.end_seconds) == (2, 3, 4.0, None)


def test_chapters_have_their_chunks_and_times(book: dict[str, Any]) -> None:
    chapters, chunks = book["chapters"], book["chunks"]
    assert [each["title"] for each in chapters] == [each["title"] for each in BOOK]
    assert chapters == httpx.get(f"{book['href']}/chapters").json()["chapters"]
    for chapter, following in zip(chapters, [*chapters[1:], None], strict=True):
        first, last = chunks[chapter["first_chunk"]], chunks[chapter["last_chunk"]]
        assert first["text"].startswith(chapter["title"])
        assert (chapter["start_seconds"], chapter["end_seconds"]) == (first["start_seconds"], last["end_seconds"])
        if following is not None:
            assert following["first_chunk"] == chapter["last_chunk"] + 1
            assert following["start_seconds"] - chapter["end_seconds"] == pytest.approx(1.5)  # the chapter's pause


def test_a_chapter_alone_is_its_part_of_the_whole(book: dict[str, Any]) -> None:
    whole = samples(httpx.get(f"{book['href']}/audio").content)
    for chapter in book["chapters"]:
        start, end = (round(chapter[name] * SAMPLE_RATE) for name in ("start_seconds", "end_seconds"))
        answer = httpx.get(f"{book['href']}/audio", params={"chapter": chapter["index"], "download": True})
        assert np.array_equal(samples(answer.content), whole[start:end])
        plain = re.sub(r'[\\/:*?"<>|\s]+', " ", chapter["title"]).strip()
        assert re.sub(r"[^A-Za-z0-9 ._-]", "_", f"A harbour - {plain}.wav") in answer.headers["content-disposition"]
    assert httpx.get(f"{book['href']}/audio", params={"chapter": 3}).status_code == 404


def test_chapters_and_a_text_exclude_each_other(served: Served) -> None:
    for body in ({}, {"text": "One.", "chapters": BOOK}):
        answer = httpx.post(f"{served.url}/v1/documents", json=body)
        assert (answer.status_code, "expected one of them" in answer.text) == (400, True)


def test_no_chunk_crosses_into_the_next_chapter(served: Served) -> None:
    short = [{"title": "A", "text": "Yes."}, {"title": "B", "text": "No."}]
    answer = httpx.post(f"{served.url}/v1/documents", json={"chapters": short}).json()
    url = f"{served.url}/v1/documents/{answer['id']}"
    eventually(lambda: httpx.get(url).json()["state"] == "completed", "it is spoken")
    assert [chunk["text"] for chunk in httpx.get(f"{url}?chunks=true").json()["chunks"]] == ["A\n\nYes.", "B\n\nNo."]


def test_the_headings_of_a_file_are_its_chapters(served: Served) -> None:
    text = "# The harbour\n\nIt lay still.\n\n## One\n\n- a boat\n\n## Two\n\nThe [end](https://example.org/x).\n"
    answer = httpx.post(f"{served.url}/v1/documents", files={"file": ("harbour.md", text.encode())}).json()
    url = f"{served.url}/v1/documents/{answer['id']}"
    eventually(lambda: httpx.get(url).json()["state"] == "completed", "it is spoken")
    found = httpx.get(f"{url}?chunks=true").json()
    assert [(each["title"], each["level"]) for each in found["chapters"]] == [
        ("The harbour", 1), ("One", 2), ("Two", 2),
    ]  # fmt: skip
    assert [chunk["text"] for chunk in found["chunks"]] == [
        "The harbour", "It lay still.", "One\n\na boat.", "Two\n\nThe end.",
    ]  # fmt: skip


def probed(path: Path) -> dict[str, Any]:
    command = ["ffprobe", "-v", "error", "-show_format", "-show_chapters", "-show_streams", "-of", "json", str(path)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


@pytest.mark.needs("ffprobe")
def test_an_audiobook_has_its_chapters_and_its_title(book: dict[str, Any], tmp_path: Path) -> None:
    answer = httpx.get(f"{book['href']}/audio", params={"format": "m4b"}, timeout=60)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/mp4")
    assert "A harbour.m4b" in answer.headers["content-disposition"]
    (tmp_path / "book.m4b").write_bytes(answer.content)
    found = probed(tmp_path / "book.m4b")
    length = len(samples(httpx.get(f"{book['href']}/audio").content)) / SAMPLE_RATE
    assert (found["format"]["tags"]["title"], found["format"]["tags"]["artist"]) == ("A harbour", "Ann Ode")
    assert found["streams"][0]["tags"]["language"] == "eng"
    assert float(found["format"]["duration"]) == pytest.approx(length, abs=0.05)
    assert [each["tags"]["title"] for each in found["chapters"]] == [each["title"] for each in BOOK]
    starts = [float(each["start_time"]) for each in found["chapters"]]
    assert starts == pytest.approx([each["start_seconds"] for each in book["chapters"]], abs=0.002)
    assert float(found["chapters"][-1]["end_time"]) == pytest.approx(length, abs=0.05)
    part = httpx.get(f"{book['href']}/audio", params={"format": "m4b"}, headers={"Range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, b"ftyp")
    assert httpx.get(f"{book['href']}/audio", params={"format": "m4b", "speed": 2}).status_code == 400


@pytest.mark.needs("ffprobe")
@pytest.mark.parametrize("format", ["mp3", "opus", "flac"])
def test_sound_has_its_title_its_author_and_its_language(book: dict[str, Any], tmp_path: Path, format: str) -> None:
    for chapter, expected in (
        ({}, {"title": "A harbour"}),
        ({"chapter": 1}, {"title": "Two & more <b>", "album": "A harbour"}),
    ):
        answer = httpx.get(f"{book['href']}/audio", params={"format": format, **chapter}, timeout=60)
        path = tmp_path / f"book.{format}"
        path.write_bytes(answer.content)
        found = probed(path)
        tags = found["format"].get("tags") or found["streams"][0]["tags"]  # Ogg has those of a stream
        assert {name.lower(): tag for name, tag in tags.items()} == {
            "artist": "Ann Ode", "language": "eng", **expected,
        }  # fmt: skip


@pytest.mark.slow
@pytest.mark.needs("ffprobe")
def test_an_epub_is_an_audiobook_with_its_cover_also_where_that_is_broken(served: Served, tmp_path: Path) -> None:
    texts = {"One": "The harbour lay still.", "Two": "In the morning the ships came in."}
    for number, (cover, pictures) in enumerate([(epubs.png(), 1), (epubs.png()[:40], 0)]):
        book = epubs.epub(texts, title="The harbour", author="Bo Ek", cover=cover)
        answer = httpx.post(
            f"{served.url}/v1/documents", files={"file": ("book.epub", book, "application/epub+zip")}, timeout=60
        )
        assert answer.status_code == 202, answer.text
        url = f"{served.url}/v1/documents/{answer.json()['id']}"
        eventually(partial(completed, url), "the book is spoken")
        document = httpx.get(url).json()
        assert ([each["title"] for each in document["chapters"]], document["author"]) == (["One", "Two"], "Bo Ek")
        assert (document["note"] or "").startswith("the cover is left out") is not bool(pictures)
        path = tmp_path / f"{number}.m4b"
        path.write_bytes(httpx.get(f"{url}/audio?format=m4b", timeout=60).content)
        found = probed(path)
        assert found["format"]["tags"]["artist"] == "Bo Ek"
        assert [each["tags"]["title"] for each in found["chapters"]] == ["One", "Two"]
        assert sum(each["disposition"]["attached_pic"] for each in found["streams"]) == pictures


def completed(url: str) -> bool:
    return bool(httpx.get(url).json()["state"] == "completed")


def test_subtitles_show_every_word_in_its_time(book: dict[str, Any]) -> None:
    srt = httpx.get(f"{book['href']}/subtitles", params={"format": "srt"}).text
    blocks = [block.split("\n") for block in srt.strip().split("\n\n")]
    assert [block[0] for block in blocks] == [str(number) for number in range(1, len(blocks) + 1)]
    assert all(len(block) <= 4 and all(len(line) <= 42 for line in block[2:]) for block in blocks)
    words = " ".join(" ".join(block[2:]) for block in blocks).split()
    assert words == " ".join(chunk["text"] for chunk in book["chunks"]).split()
    vtt = httpx.get(f"{book['href']}/subtitles", params={"format": "vtt"})
    assert vtt.headers["content-type"].startswith("text/vtt")
    assert vtt.text.startswith("WEBVTT\n\n00:00:00.000 --> ")
    assert "Two &amp; more &lt;b&gt;" in vtt.text


def test_times_of_words_lie_within_their_chunk(book: dict[str, Any]) -> None:
    found = httpx.get(f"{book['href']}/timings").json()
    assert (found["source"], found["complete"]) == ("estimated", True)
    for chunk, times in zip(book["chunks"], found["chunks"], strict=True):
        assert [word["text"] for word in times["words"]] == chunk["text"].split()
        edges = [times["start_seconds"]]
        for word in times["words"]:
            assert word["start_seconds"] == pytest.approx(edges[-1], abs=1e-3)
            edges.append(word["end_seconds"])
        assert edges == sorted(edges)
        assert edges[-1] == pytest.approx(chunk["end_seconds"], abs=1e-3)


def test_an_unfinished_document_has_no_subtitles_and_no_audiobook(tmp_path: Path) -> None:
    with serving(tmp_path, engine={"held": 1}) as served:
        id = httpx.post(f"{served.url}/v1/documents", json={"chapters": BOOK * 3}).json()["id"]
        for path in ("subtitles?format=vtt", "audio?format=m4b", "audio?chapter=8"):
            assert httpx.get(f"{served.url}/v1/documents/{id}/{path}").status_code == 409
        assert httpx.get(f"{served.url}/v1/documents/{id}/timings").json()["complete"] is False
