"""A long first sentence in two chunks: script, document, captions, redo; and documents that were stored before it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from eventually import eventually
from service_app import Served, serving

from voxyard.speech.audio.joining import Pauses
from voxyard.speech.text import boundaries

FIRST, REST = "When the rain had stopped at last,", "the children ran out and played until evening."
BOOK = [
    {"title": "One", "text": f"{FIRST} {REST} Nobody in the harbour was awake."},
    {"title": "Two", "text": f"{FIRST} {REST}"},
]
TEXT = f"{FIRST} {REST} Nobody in the harbour was awake."
ENGINE = {"samples": 1200, "rows": 1}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("opening"), engine=ENGINE) as served:
        yield served


def accepted(served: Served, **body: Any) -> str:
    """URL of a new document."""
    answer = httpx.post(f"{served.url}/v1/documents", json=body, timeout=60)
    assert answer.status_code == 202, answer.text
    return f"{served.url}/v1/documents/{answer.json()['id']}"


def completed(url: str) -> dict[str, Any]:
    eventually(lambda: httpx.get(url).json()["state"] == "completed", "the document is spoken")
    found: dict[str, Any] = httpx.get(url, params={"chunks": True}).json()
    return found


def test_the_script_and_the_document_have_the_same_chunks(served: Served) -> None:
    asked = {"text": TEXT, "voice": "alloy"}
    script = httpx.post(f"{served.url}/v1/audio/script", json=asked, timeout=60).json()
    url = accepted(served, **asked)
    document = completed(url)

    assert [chunk["text"] for chunk in script["chunks"]][:2] == [FIRST, REST]
    assert [chunk["words"] for chunk in script["chunks"]] == [chunk["text"] for chunk in document["chunks"]]
    assert httpx.get(f"{url}/script").json() == script
    first, second, third = document["chunks"]
    assert second["start_seconds"] - first["end_seconds"] == pytest.approx(Pauses().clause, abs=1e-3)
    assert third["start_seconds"] - second["end_seconds"] == pytest.approx(Pauses().sentence, abs=1e-3)


def test_captions_and_chapters_hold_every_word_once(served: Served) -> None:
    url = accepted(served, title="A book", chapters=BOOK)
    document = completed(url)
    lines = httpx.get(f"{url}/subtitles", params={"format": "srt"}, timeout=60).text.strip().split("\n")
    said = [line for line in lines if line and not line.isdigit() and "-->" not in line]
    vtt = httpx.get(f"{url}/subtitles", params={"format": "vtt"}, timeout=60).text.split("\n")

    texts = [f"{chapter['title']} {chapter['text']}" for chapter in BOOK]
    assert " ".join(said) == " ".join(texts)
    assert [line for line in vtt if line in said] == said
    assert [chapter["title"] for chapter in document["chapters"]] == ["One", "Two"]
    one, two = document["chapters"]
    assert (one["first_chunk"], two["first_chunk"]) == (0, one["last_chunk"] + 1)
    assert two["start_seconds"] - one["end_seconds"] == pytest.approx(Pauses().chapter, abs=1e-3)


def test_the_opening_clause_alone_is_spoken_again(served: Served) -> None:
    url = accepted(served, text=TEXT, seed=7)
    before = completed(url)
    assert httpx.post(f"{url}/chunks/0/redo", json={"voice": "v2/de_speaker_1", "seed": 3}).status_code == 202
    eventually(lambda: httpx.get(url).json()["revision"] == 1, "the clause is spoken again")
    after = completed(url)

    assert [chunk["text"] for chunk in after["chunks"]] == [chunk["text"] for chunk in before["chunks"]]
    assert [chunk["seed"] for chunk in after["chunks"]] == [3, None, None]


@pytest.mark.slow
def test_a_document_keeps_the_chunks_that_it_was_stored_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that cut no first sentence leaves it half spoken; the next one speaks the rest of these chunks."""
    monkeypatch.setattr(boundaries, "OPENING_SECONDS", math.inf)
    with serving(tmp_path / "calm", engine=ENGINE) as calm:
        url = accepted(calm, text=TEXT, seed=7)
        expected = completed(url)
        sound = httpx.get(f"{url}/audio").content
    with serving(tmp_path / "data", engine={**ENGINE, "held": 1}) as earlier:
        id = accepted(earlier, text=TEXT, seed=7).rpartition("/")[2]
        eventually(lambda: earlier.state.store.document(id).chunks_done, "a part is spoken")
        assert earlier.state.store.document(id).state != "completed"
    monkeypatch.undo()

    with serving(tmp_path / "data", engine=ENGINE) as later:
        url = f"{later.url}/v1/documents/{id}"
        document = completed(url)
        assert [chunk["text"] for chunk in document["chunks"]] == [chunk["text"] for chunk in expected["chunks"]]
        assert document["chunks"][0]["text"] == f"{FIRST} {REST}"
        assert httpx.get(f"{url}/audio").content == sound
        assert completed(accepted(later, text=TEXT, seed=7))["chunks"][0]["text"] == FIRST
