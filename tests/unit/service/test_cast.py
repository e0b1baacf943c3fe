"""A cast through the service: speech requests, documents, files, what is spoken again, captions, unknown names."""

from __future__ import annotations

import difflib
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from documents import new_document
from epubs import epub
from eventually import eventually
from service_app import Served, serving

from voxyard.service.documents import schema
from voxyard.service.documents.store import Store
from voxyard.speech.pool.pool import Pool
from voxyard.speech.requests import Request

TEXT = "It was late.\n\n[voice:mia]Who is there?[/voice] she asked.\n\n[voice:ben]Nobody.\n\nGo to sleep.[/voice]"
CAST = {"narrator": "announcer", "mia": "v2/en_speaker_9", "ben": "onyx"}
SPEAKERS = ["narrator", "mia", "narrator", "ben"]
VOICES = ["announcer", "v2/en_speaker_9", "announcer", "v2/en_speaker_5"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("cast"), engine={"samples": 240}) as served:
        yield served


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Requests that have reached the pool."""
    found, submit = list[Request](), Pool.submit

    def record(pool: Pool, requests: Any, **options: Any) -> Any:
        found.extend(requests)
        return submit(pool, requests, **options)

    monkeypatch.setattr(Pool, "submit", record)
    return found


def speech(served: Served, **options: Any) -> httpx.Response:
    asked = {"model": "tts-1", "voice": "alloy", "input": TEXT, "cast": CAST, **options}
    return httpx.post(f"{served.url}/v1/audio/speech", json=asked, timeout=60)


def whole(served: Served, answer: httpx.Response) -> str:
    """URL of a document, once it is spoken."""
    assert answer.status_code == 202, answer.text
    url = f"{served.url}{answer.headers['location']}"
    eventually(lambda: httpx.get(url).json()["state"] in ("completed", "failed"), "it is spoken")
    return url


def submitted(served: Served, **options: Any) -> str:
    return whole(served, httpx.post(f"{served.url}/v1/documents", json={"text": TEXT, "cast": CAST, **options}))


@pytest.mark.parametrize("form", ["audio", "sse"])
def test_a_speech_request_is_spoken_by_its_cast(served: Served, asked: list[Request], form: str) -> None:
    assert speech(served, stream_format=form).status_code == 200
    assert [each.voice for each in asked] == VOICES
    assert [each.text for each in asked][1] == "Who is there?"


def test_without_a_narrator_the_voice_of_the_request_speaks_what_has_no_tag(
    served: Served, asked: list[Request]
) -> None:
    cast = {name: CAST[name] for name in ("mia", "ben")}
    assert speech(served, cast=cast).status_code == 200
    assert [each.voice for each in asked] == ["v2/en_speaker_6", VOICES[1], "v2/en_speaker_6", VOICES[3]]


def test_a_document_keeps_its_cast_also_where_a_chunk_is_spoken_again(served: Served, asked: list[Request]) -> None:
    url = submitted(served)
    found = httpx.get(f"{url}?chunks=true").json()
    assert (found["state"], found["voice"]) == ("completed", "announcer")
    assert [each["speaker"] for each in found["chunks"]] == SPEAKERS
    assert [each["voice"] for each in found["chunks"]] == [None, VOICES[1], None, VOICES[3]]
    assert [each.voice for each in asked] == VOICES
    assert [each["ending"] for each in found["chunks"]] == ["paragraph", "sentence", "paragraph", "paragraph"]
    assert httpx.post(f"{url}/chunks/1/redo", json={}).status_code == 202
    eventually(lambda: httpx.get(url).json()["revision"] == 1, "the chunk is spoken again")
    assert (asked[-1].voice, asked[-1].seed) == (VOICES[1], 1)
    after = httpx.get(f"{url}?chunks=true").json()["chunks"][1]
    assert (after["speaker"], after["voice"]) == ("mia", VOICES[1])


def test_captions_tell_who_speaks_and_show_no_tags(served: Served) -> None:
    url = submitted(served)
    vtt = httpx.get(f"{url}/subtitles?format=vtt").text
    cues = [part.split("\n", 1)[1] for part in vtt.split("\n\n")[1:]]
    assert [each.strip() for each in cues] == [
        "<v narrator>It was late.", "<v mia>Who is there?", "<v narrator>she asked.", "<v ben>Nobody.",
            "<v ben>Go to sleep.",
    ]  # fmt: skip
    assert "[" not in httpx.get(f"{url}/subtitles?format=srt").text
    timings = httpx.get(f"{url}/timings").json()["chunks"]
    assert [each["speaker"] for each in timings] == SPEAKERS
    assert [each["text"] for each in timings][1] == "Who is there?"
    assert [word["text"] for word in timings[1]["words"]] == ["Who", "is", "there?"]
    plain = whole(served, httpx.post(f"{served.url}/v1/documents", json={"text": "It was late."}))
    assert "<v" not in httpx.get(f"{plain}/subtitles?format=vtt").text


def test_a_name_is_escaped_in_captions(served: Served) -> None:
    url = submitted(served, text="[voice:A > B & C]Hello there.[/voice]", cast={"A > B & C": "alloy"})
    assert "<v A &gt; B &amp; C>Hello there." in httpx.get(f"{url}/subtitles?format=vtt").text


def test_a_book_has_a_cast_over_its_chapters(served: Served, asked: list[Request]) -> None:
    book = epub(
        {"One": "[voice:mia]Here I begin.", "Two": "And go on.[/voice] The end."}, title="Two voices", author="Ann Ode"
    )
    form = {"cast": json.dumps(CAST)}
    files = {"file": ("book.epub", book, "application/epub+zip")}
    url = whole(served, httpx.post(f"{served.url}/v1/documents", data=form, files=files, timeout=60))
    found = httpx.get(f"{url}?chunks=true").json()
    assert (found["state"], found["reason"]) == ("completed", None)
    said = {each["text"].rpartition("]")[2].strip(): each["speaker"] for each in found["chunks"]}
    assert [speaker for words, speaker in said.items() if "The end." in words] == ["narrator"]
    assert {speaker for words, speaker in said.items() if "begin" in words or "Two" in words} == {"mia"}
    assert {each.voice for each in asked} == {"announcer", VOICES[1]}


def test_parts_of_a_book_keep_their_language_where_they_are_spoken_again(served: Served, asked: list[Request]) -> None:
    chapters = {
        "One": "He came home late, and slept for a very long time.",
        "Zwei": "Er hatte 3 Katzen.",
        "Три": "Он вернулся домой.",
    }
    book = epub(chapters, title="Three languages", languages={"Zwei": "de"})
    files = {"file": ("book.epub", book, "application/epub+zip")}
    url = whole(served, httpx.post(f"{served.url}/v1/documents", files=files, timeout=60))
    found = httpx.get(f"{url}?chunks=true").json()
    assert (found["state"], found["language"], found["voice"]) == ("completed", "en", "v2/en_speaker_6")
    assert found["note"].startswith("a part of the text is in the language ru, and the voice v2/en_speaker_6 speaks en")
    assert "language de" not in found["note"]
    said = [each["words"] for each in httpx.get(f"{url}/script").json()["chunks"]]
    german = next(index for index, words in enumerate(said) if "drei Katzen" in words)
    first = next(each for each in asked if each.chunk == german)
    assert first.voice == "v2/de_speaker_1"

    assert httpx.post(f"{url}/chunks/{german}/redo", json={}).status_code == 202
    eventually(lambda: httpx.get(url).json()["revision"] == 1, "the chunk is spoken again")

    assert (asked[-1].voice, asked[-1].text) == (first.voice, first.text)


@pytest.mark.parametrize("kind", ["markdown", "html", "epub", "chapters"])
def test_titles_have_no_tags(served: Served, kind: str) -> None:
    one, two = "[voice:mia]Chapter of Mia", "Tom [pause 1s] chapter[/voice]"
    text = f"# {one}\n\nHere I begin, with `[voice:zoe]`.\n\n# {two}\n\nThe end.\n"
    page = f"<html><head><title>{one}[/voice]</title></head><body><h1>{one}</h1>Begin.<h1>{two}</h1>End.</body></html>"
    files = {
        "html": ("a.html", page.encode(), "text/html"),
        "epub": ("a.epub", epub({one: "Begin.", two: "End."}, title=f"{one}[/voice]"), "application/epub+zip"),
    }
    url = f"{served.url}/v1/documents"
    if kind in files:
        form = {"cast": json.dumps(CAST)}
        answer = httpx.post(url, data=form, files={"file": files[kind]}, timeout=60)
    elif kind == "markdown":
        answer = httpx.post(url, json={"text": text, "cast": CAST, "input_format": "markdown"})
    else:
        chapters = [{"title": one, "text": "Begin."}, {"title": two, "text": "End."}]
        answer = httpx.post(url, json={"chapters": chapters, "cast": CAST})
    document = whole(served, answer)
    found = httpx.get(document).json()
    assert (found["state"], found["reason"], found["title"]) == ("completed", None, "Chapter of Mia")
    titles = [each["title"] for each in httpx.get(f"{document}/chapters").json()["chapters"]]
    assert titles == ["Chapter of Mia", "Tom chapter"]
    book = httpx.get(f"{document}/audio?format=m4b", timeout=60).content
    assert b"Chapter of Mia" in book
    assert b"[voice" not in book
    assert b"[pause" not in book


def test_ssml_names_voices_too(served: Served, asked: list[Request]) -> None:
    text = '<speak>One. <voice name="ben">Two.</voice></speak>'
    assert speech(served, input=text).status_code == 200
    assert [each.voice for each in asked] == ["announcer", VOICES[3]]


@pytest.mark.parametrize(
    ("change", "parameter", "message"),
    [
        ({"text": "[voice:zoe]A.[/voice]"}, "text", "the voice 'zoe', and the cast has ben, mia, narrator"),
        ({"text": "[voice:zoe]A.", "cast": {}}, "text", "no cast is given; .*GET /v1/audio/voices lists all"),
        ({"cast": {"mia": "aloy"}}, "cast.mia", "no voice 'aloy': the nearest are alloy"),
        ({"cast": {"m]a": "alloy"}}, "cast", "pattern"),
        ({"cast": {f"n{number}": "alloy" for number in range(65)}}, "cast", "64"),
    ],
)
def test_a_name_that_is_no_voice_is_a_bad_request_before_anything_is_spoken(
    served: Served, asked: list[Request], change: dict[str, Any], parameter: str, message: str
) -> None:
    body = {"text": TEXT, "cast": CAST, **change}
    spoken = {"model": "tts-1", "voice": "alloy", "cast": body["cast"], "input": body["text"]}
    for path, json_body in (("documents", body), ("audio/script", body), ("audio/speech", spoken)):
        answer = httpx.post(f"{served.url}/v1/{path}", json=json_body)
        error = answer.json()["error"]
        assert answer.status_code == 400, answer.text
        expected = "input" if path == "audio/speech" and parameter == "text" else parameter
        assert error["param"].startswith(expected)
        assert re.search(message, error["message"])
    assert asked == []


def test_many_unknown_names_cost_one_search_for_the_nearest(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = list[str]()
    nearest = difflib.get_close_matches

    def search(name: str, *others: Any, **options: Any) -> list[str]:
        searched.append(name)
        return nearest(name, *others, **options)

    monkeypatch.setattr(difflib, "get_close_matches", search)
    text = "".join(f"[voice:n{number}]A.[/voice] " for number in range(100))
    answer = httpx.post(f"{served.url}/v1/documents", json={"text": text}, timeout=60)
    assert (answer.status_code, searched) == (400, ["n0"])


def test_a_file_that_names_no_voice_fails_with_the_list(served: Served) -> None:
    page = b"<!doctype html><html lang=en><body><p>[voice:zoe]Hello.[/voice]</p></body></html>"
    files = {"file": ("a.html", page, "text/html")}
    url = whole(
        served,
        httpx.post(f"{served.url}/v1/documents", data={"cast": json.dumps(CAST)}, files=files, timeout=60),
    )
    found = httpx.get(url).json()
    assert found["state"] == "failed"
    assert "the voice 'zoe', and the cast has ben, mia, narrator; other voices are announcer, " in found["reason"]
    assert "GET /v1/audio/voices lists all" in found["reason"]
    refused = httpx.get(f"{url}/audio")
    assert (refused.status_code, "/retry" in refused.text) == (409, False), "the same text would fail again"


def test_an_uploaded_voice_in_a_cast_is_kept_while_its_document_is(served: Served, asked: list[Request]) -> None:
    made = httpx.post(f"{served.url}/v1/audio/voices", data={"name": "own"}, files={"file": ("own", b"tone of mine")})
    assert made.status_code in (200, 201), made.text
    url = submitted(served, cast={**CAST, "mia": "own"})
    assert httpx.delete(f"{served.url}/v1/audio/voices/own").status_code in (200, 204)
    assert httpx.get(f"{url}?chunks=true").json()["chunks"][1]["voice"] == "own"
    httpx.post(f"{url}/chunks/1/redo", json={})
    eventually(lambda: httpx.get(url).json()["revision"] == 1, "the chunk is spoken again")
    assert asked[-1].voice_file == b"tone of mine"


def test_the_script_tells_who_speaks(served: Served) -> None:
    found = httpx.post(f"{served.url}/v1/audio/script", json={"text": TEXT, "cast": CAST}).json()
    assert (found["voice"], [each["speaker"] for each in found["chunks"]]) == ("announcer", SPEAKERS)


def test_a_repeated_request_with_another_cast_is_another_request(served: Served) -> None:
    headers = {"Idempotency-Key": "cast"}
    body = {"text": TEXT, "cast": CAST}
    first = httpx.post(f"{served.url}/v1/documents", json=body, headers=headers)
    assert httpx.post(f"{served.url}/v1/documents", json=body, headers=headers).status_code == 200
    other = {**body, "cast": {**CAST, "mia": "alloy"}}
    assert httpx.post(f"{served.url}/v1/documents", json=other, headers=headers).status_code == 409
    whole(served, first)


def test_a_database_from_before_there_were_casts_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, new = tmp_path / "documents.sqlite", new_document(1)
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        Store(place).close()
    store = Store(place)
    store.accept(new)
    assert [(each.speaker, each.voice) for each in store.chunks(new.id)] == [(None, None)] * 3
    store.close()
    with sqlite3.connect(place) as connection:
        assert {"speaker"} <= {row[1] for row in connection.execute("PRAGMA table_info(chunks)")}
    connection.close()
