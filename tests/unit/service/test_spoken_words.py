"""What the service speaks of a text: words for figures, lexicons of host and request, pauses, SSML."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml
from engines import sound
from eventually import eventually
from frontends import TonesFrontend
from joined import join
from service_app import Served, running, serving

from voxyard.service.auth.api_keys import add_key, give_lexicon
from voxyard.service.config import ServiceSection
from voxyard.service.documents.queries import _lexicons, lexicons_text
from voxyard.service.documents.submission import DocumentRequest, fingerprint, new_document, unprepared
from voxyard.service.names import open_voices
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.audio.wav import pcm16
from voxyard.speech.reading.lexicon import Lexicon, LexiconEntry, of_mapping
from voxyard.speech.reading.options import READING, ReadingOptions
from voxyard.speech.reading.reader import READING_VERSION
from voxyard.speech.requests import SAMPLE_RATE, Request, Result
from voxyard.speech.script import prepare_script

TEXT = "It cost $5.50 in 1999 and nginx was young. [pause 1.5s] Dr. Bell walked 5 km that day."
SPOKEN = [
    "It cost five dollars fifty in nineteen ninety-nine and engine x was young.",
    "Doctor Bell walked five kilometers that day.",
]
WORDS = {"nginx": "engine x"}
VOICE = "v2/en_speaker_6"  # alloy


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("reading"), engine={"samples": 2400}) as served:
        yield served


def pcm(texts: Sequence[str], joints: Sequence[Any]) -> bytes:
    """Audio of chunks of these words, joined by hand."""
    requests = [Request(number, text, voice=VOICE) for number, text in enumerate(texts)]
    spoken = zip((Result(each.chunk, sound(each, 2400)) for each in requests), joints, strict=True)
    return bytes(pcm16(np.concatenate([piece.audio for piece in join(spoken, Pauses())])).tobytes())


def speech(served: Served, text: str = TEXT, **options: Any) -> httpx.Response:
    asked = {"model": "tts-1", "voice": "alloy", "input": text, "response_format": "pcm", **options}
    return httpx.post(f"{served.url}/v1/audio/speech", json=asked, timeout=60)


def test_speech_is_of_the_words_with_the_requests_lexicon_and_its_pause(served: Served) -> None:
    requests = prepare_script(
        TEXT, TonesFrontend(), voice=VOICE, seed=0, reading=READING.changed(lexicon=of_mapping(WORDS))
    )
    assert [each.text for each in requests.requests] == SPOKEN
    assert speech(served, lexicon=WORDS).content == pcm(SPOKEN, [1.5, "paragraph"])
    assert speech(served, lexicon=None, read=None).content == speech(served).content


def test_with_read_none_the_figures_are_spoken_as_they_are_written(served: Served) -> None:
    written = ["It cost $5.50 in 1999 and nginx was young.", "Dr. Bell walked 5 km that day."]
    assert speech(served, read="none").content == pcm(written, [1.5, "paragraph"])
    some = ["It cost $5.50 in 1999 and nginx was young.", "Dr. Bell walked five kilometers that day."]
    assert speech(served, read="units").content == pcm(some, [1.5, "paragraph"])


@pytest.mark.parametrize(
    ("options", "param", "said"),
    [
        ({"read": "colours"}, "read", "expected all, none, or some of numbers"),
        ({"read": ""}, "read", "expected all, none, or some of numbers"),
        ({"lexicon": {"a": ""}}, "lexicon", "at least 1 character"),
        ({"lexicon": {"a": " "}}, "lexicon", "not all blank"),
        ({"lexicon": {f"w{number}": "x" for number in range(201)}}, "lexicon", "200"),
        ({"lexicon": ["a"]}, "lexicon", "dictionary"),
        ({"input": "<speak>R & D</speak>"}, "input", "no SSML, line 1"),
        ({"input": "One. [pause 11s] Two."}, "input", "expected at most 10 s"),
    ],
)
def test_what_is_wrong_is_named(served: Served, options: dict[str, Any], param: str, said: str) -> None:
    answer = speech(served, **{"text": "One.", **options})
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["param"].startswith(param)
    assert said in error["message"]


def ended(served: Served, answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    path = f"{served.url}/v1/documents/{answer.json()['id']}"
    eventually(lambda: httpx.get(path).json()["state"] in ("completed", "failed"), "the document ends")
    found: dict[str, Any] = httpx.get(f"{path}?chunks=true").json()
    return found


def of_wav(content: bytes) -> bytes:
    with wave.open(io.BytesIO(content)) as file:
        return bytes(file.readframes(file.getnframes()))


def test_a_documents_chunks_show_its_text_and_its_audio_has_the_words(served: Served) -> None:
    body = {"text": TEXT, "voice": "alloy", "lexicon": WORDS}
    found = ended(served, httpx.post(f"{served.url}/v1/documents", json=body, timeout=60))
    audio = of_wav(httpx.get(served.url + found["audio"]["url"]).content)
    assert audio == pcm(SPOKEN, [1.5, "paragraph"])
    assert [each["text"] for each in found["chunks"]] == TEXT.split(" [pause 1.5s] ")
    first, second = found["chunks"]
    assert second["start_seconds"] - first["end_seconds"] == pytest.approx(1.5)
    assert second["end_seconds"] == pytest.approx(len(audio) / 2 / SAMPLE_RATE)


def test_a_form_brings_its_lexicon_as_json(served: Served) -> None:
    fields = {"text": TEXT, "voice": "alloy", "lexicon": json.dumps(WORDS), "read": "all"}
    files = {"nothing": ("", b"")}
    found = ended(served, httpx.post(f"{served.url}/v1/documents", data=fields, files=files, timeout=60))
    assert of_wav(httpx.get(served.url + found["audio"]["url"]).content) == pcm(SPOKEN, [1.5, "paragraph"])
    wrong = httpx.post(f"{served.url}/v1/documents", data={**fields, "lexicon": "{"}, files=files, timeout=60)
    assert wrong.status_code == 400
    assert wrong.json()["error"]["param"].startswith("lexicon")


def test_the_words_of_a_document_are_stored_with_it(tmp_path: Path) -> None:
    """So that a chunk that is spoken after an update of the service has the same words as the others."""
    with running(tmp_path / "data") as state:
        request = DocumentRequest(TEXT, voice="alloy", lexicon=WORDS)
        asked = unprepared(request, owner="", now=0.0, instance="")
        voices = open_voices(state.frontend, None)
        new = new_document(asked, request, state.frontend, voices, section=state.section)
        state.store.accept(new)
        assert state.store.spoken(new.id) == dict(enumerate(SPOKEN))
        assert [each.pause for each in state.store.chunks(new.id)] == [1.5, None]
        state.store.delete(new.id)


def test_the_hosts_lexicon_comes_after_the_requests() -> None:
    host = ReadingOptions(lexicons=(of_mapping({"nginx": "en gee", "Bell": "Belle"}),))
    request = DocumentRequest(TEXT, lexicon=WORDS)
    asked = unprepared(request, owner="", now=0.0, instance="")
    voices = open_voices(TonesFrontend(), None)
    new = new_document(asked, request, TonesFrontend(), voices, section=ServiceSection(), reading=host)
    assert [each.spoken for each in new.chunks] == [SPOKEN[0], SPOKEN[1].replace("Bell", "Belle")]


KEY_WORDS = {"nginx": "en gee", "Bell": "Belle"}
HOST_WORDS = {"nginx": "host x", "Bell": "host Bell", "walked": "strolled"}
ALL_WORDS = "Engine x, Belle strolled."  # each word by request, key and host that has it


@pytest.fixture(scope="module")
def with_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str, Path]]:
    """A service with a lexicon of the host's, and one of a key's."""
    folder = tmp_path_factory.mktemp("key-words")
    path, words = folder / "keys.yaml", folder / "words.yaml"
    key = add_key(path, "ann")
    words.write_text(yaml.safe_dump(KEY_WORDS))
    give_lexicon(path, "ann", "words.yaml")
    reading = ReadingOptions(lexicons=(of_mapping(HOST_WORDS),))
    with serving(folder / "data", engine={"samples": 2400}, keys=path, reading=reading) as served:
        yield served, key, words


def test_words_of_the_request_go_before_the_keys_and_these_before_the_hosts(
    with_key: tuple[Served, str, Path],
) -> None:
    served, key, _ = with_key
    headers = {"Authorization": f"Bearer {key}"}
    asked = {"model": "tts-1", "voice": "alloy", "input": "Nginx, Bell walked.", "response_format": "pcm"}
    answer = httpx.post(
        f"{served.url}/v1/audio/speech", json={**asked, "lexicon": {"nginx": "Engine x"}}, headers=headers, timeout=60
    )
    assert answer.content == pcm([ALL_WORDS], ["paragraph"])


@pytest.mark.parametrize("as_file", [False, True])
def test_a_document_keeps_the_words_that_its_key_had_when_it_was_submitted(
    with_key: tuple[Served, str, Path], as_file: bool
) -> None:
    served, key, words = with_key
    text, fields = "Nginx, Bell walked.", {"voice": "alloy", "lexicon": {"nginx": "Engine x"}}
    page = ("a.html", f"<p>{text}</p>".encode())
    with httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=60, base_url=served.url) as client:
        if as_file:
            new = client.post(
                "/v1/documents", data={**fields, "lexicon": json.dumps(fields["lexicon"])}, files={"file": page}
            )
        else:
            new = client.post("/v1/documents", json={**fields, "text": text})
        words.write_text("Bell: bong\n")
        assert new.status_code == 202, new.text
        url = f"/v1/documents/{new.json()['id']}"
        eventually(lambda: client.get(url).json()["state"] == "completed", "it is spoken")
    assert served.state.store.spoken(new.json()["id"]) == {0: ALL_WORDS}
    words.write_text(yaml.safe_dump(KEY_WORDS))


def test_lexicons_of_an_upload_come_back_from_the_store_as_they_went_in(tmp_path: Path) -> None:
    entries = (LexiconEntry("SQL", "sequel", "en", True), LexiconEntry("nginx", "engine x"))
    lexicons = (of_mapping(WORDS), Lexicon(entries))
    assert _lexicons(lexicons_text(lexicons)) == lexicons
    assert _lexicons(lexicons_text(())) == _lexicons(None) == ()
    assert _lexicons(json.dumps(WORDS)) == (of_mapping(WORDS),)  # as a service of before left them


def test_a_request_without_words_of_its_own_is_the_same_as_before_there_were_any() -> None:
    plain = DocumentRequest("A text.")
    assert fingerprint(plain) == "a3de27de280f0703ccaba55cbadb51a7a5eacd0ad183ddabf1aaf83772846b75"
    assert len({fingerprint(each) for each in (plain, DocumentRequest("A text.", read="none"))}) == 2
    assert len({fingerprint(each) for each in (plain, DocumentRequest("A text.", lexicon={}))}) == 2


def test_the_version_of_the_words_is_told_beside_the_model(served: Served) -> None:
    assert httpx.get(f"{served.url}/v1/models").json()["data"][0]["reading"] == READING_VERSION


def test_the_words_of_a_text_are_shown_and_nothing_is_spoken(served: Served) -> None:
    asked = {"text": TEXT, "voice": "alloy", "lexicon": WORDS}
    answer = httpx.post(f"{served.url}/v1/audio/script", json=asked, timeout=60)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert [chunk["words"] for chunk in found["chunks"]] == SPOKEN
    assert [chunk["text"] for chunk in found["chunks"]] == TEXT.split(" [pause 1.5s] ")
    assert [chunk["pause_seconds"] for chunk in found["chunks"]] == [1.5, None]
    assert (found["voice"], found["language"], found["chapters"]) == (VOICE, "en", [])
    assert found["estimated_seconds"] == pytest.approx(
        sum(each["estimated_seconds"] for each in found["chunks"]), abs=0.01
    )

    kept = httpx.post(f"{served.url}/v1/documents", json=asked, timeout=60).json()
    of_document = httpx.get(f"{served.url}/v1/documents/{kept['id']}/script", timeout=60).json()
    assert of_document == found


def test_the_script_of_a_text_has_the_length_of_a_speech_request_and_that_of_a_book_its_chapters(
    served: Served,
) -> None:
    long = httpx.post(f"{served.url}/v1/audio/script", json={"text": "word " * 900}, timeout=60)
    assert (long.status_code, long.json()["error"]["param"]) == (413, "text")
    assert "/v1/documents/{id}/script" in long.json()["error"]["message"]
    unknown = httpx.post(f"{served.url}/v1/audio/script", json={"text": "Word.", "voice": "nobody"}, timeout=60)
    assert unknown.status_code == 404
    silent = httpx.post(f"{served.url}/v1/audio/script", json={"text": "…"}, timeout=60)
    assert silent.status_code == 400

    chapters = [{"title": "One", "text": "It cost $5."}, {"title": "Two", "text": "It ended."}]
    kept = httpx.post(f"{served.url}/v1/documents", json={"chapters": chapters}, timeout=60).json()
    found = httpx.get(f"{served.url}/v1/documents/{kept['id']}/script", timeout=60).json()
    assert [(each["title"], each["first_chunk"]) for each in found["chapters"]] == [("One", 0), ("Two", 1)]
    assert found["chunks"][0]["words"] == "One.\n\nIt cost five dollars."
