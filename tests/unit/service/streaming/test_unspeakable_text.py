"""Texts that the engine cannot speak: the client's error, known in front or from a worker, no fault of the service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from eventually import eventually
from service_app import Served, serving

GOOD = "The harbour lay still, and nobody was awake at all. It was late. A bell rang far out on the water, twice."
BOTH_ENDS = pytest.mark.parametrize("word", ["unread", "refused"])  # known in front, or by a worker alone


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    engine = {"unread": "unread", "refused": "refused", "unread_language": "xx", "rows": 1}
    with serving(tmp_path_factory.mktemp("unspeakable"), engine=engine, workers=2) as served:
        yield served


def speech(served: Served, text: str, **options: Any) -> httpx.Response:
    asked = {"model": "tts-1", "voice": "alloy", "input": text, "response_format": "pcm", **options}
    return httpx.post(f"{served.url}/v1/audio/speech", json=asked, timeout=60)


def document(served: Served, **content: Any) -> dict[str, Any]:
    """A document that was accepted, at its end."""
    accepted = httpx.post(f"{served.url}/v1/documents", timeout=60, **content)
    assert accepted.status_code == 202, accepted.text
    found: dict[str, Any] = accepted.json()

    def ends() -> bool:
        found.update(httpx.get(f"{served.url}/v1/documents/{found['id']}?chunks=true", timeout=60).json())
        return found["state"] in ("completed", "failed")

    eventually(ends, "the document ends")
    return found


@BOTH_ENDS
@pytest.mark.parametrize("stream", ["audio", "sse"])
def test_a_speech_request_is_a_bad_request_that_says_what_was_found(served: Served, word: str, stream: str) -> None:
    sent, failed = served.watch.sent, len(served.watch.failures)
    answer = speech(served, f"A {word} word.", stream_format=stream)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", "input", "unspeakable_text")
    assert f"found {word!r}, expected a word of mine" in error["message"]
    assert served.watch.sent - sent == (word == "refused"), "one attempt at most"
    assert served.watch.failures[failed:] == ["refused"] * (word == "refused")
    assert speech(served, GOOD).status_code == 200


def test_what_is_known_in_front_is_refused_before_a_stream_begins(served: Served) -> None:
    sent = served.watch.sent
    assert speech(served, f"{GOOD} An unread word.").status_code == 400
    assert served.watch.sent == sent


def test_a_refusal_within_a_stream_of_events_is_an_event_of_the_clients_error(served: Served) -> None:
    asked = {
        "model": "tts-1", "voice": "alloy", "input": f"{GOOD} And now a refused word comes at last.",
        "response_format": "pcm", "stream_format": "sse",
    }  # fmt: skip
    lines: list[str] = []
    with (
        suppress(httpx.RemoteProtocolError),  # the stream is cut, so that nobody takes it for complete
        httpx.stream("POST", f"{served.url}/v1/audio/speech", json=asked, timeout=60) as answer,
    ):
        for line in answer.iter_lines():
            lines.append(line)  # noqa: PERF402 (those before the cut count)
    *_, last = (json.loads(line.removeprefix("data: ")) for line in lines if line)
    assert last["type"] == "error"
    error = last["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", "input", "unspeakable_text")
    assert "found 'refused'" in error["message"]


def test_a_document_is_refused_at_once_where_that_is_known(served: Served) -> None:
    sent = served.watch.sent
    asked = {"text": f"{GOOD}\n\nAn unread word."}
    answer = httpx.post(f"{served.url}/v1/documents", json=asked, timeout=60)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == ("text", "unspeakable_text")
    assert "found 'unread'" in error["message"]
    assert served.watch.sent == sent
    script = httpx.post(f"{served.url}/v1/audio/script", json=asked, timeout=60)
    assert script.status_code == 200, "its words can be shown"


def test_a_language_that_the_engine_does_not_have_is_told_of_the_language(served: Served) -> None:
    spoken = speech(served, GOOD, language="xx")
    written = httpx.post(f"{served.url}/v1/documents", json={"text": GOOD, "language": "xx"}, timeout=60)
    for answer in (spoken, written):
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "language"
        assert "found the language 'xx'" in answer.json()["error"]["message"]
    assert speech(served, GOOD, language="de").status_code == 200


def test_an_upload_fails_with_the_clients_error(served: Served) -> None:
    file = ("a.html", f"<p>{GOOD} An unread word.</p>".encode(), "text/html")
    found = document(served, files={"file": file})
    assert (found["state"], found["code"]) == ("failed", "unspeakable_text")
    assert "found 'unread'" in found["reason"]


def test_a_document_that_a_worker_refuses_fails_with_the_clients_error_and_is_tried_once(served: Served) -> None:
    sent, failed = served.watch.sent, len(served.watch.failures)
    found = document(served, json={"text": f"A refused word.\n\n{GOOD}"})
    assert (found["state"], found["code"]) == ("failed", "unspeakable_text")
    assert "chunk 0 ('A refused word.') could not be synthesized: found 'refused'" in found["reason"]
    assert served.watch.failures[failed:] == ["refused"]
    assert served.watch.sent - sent <= len(found["chunks"])


@BOTH_ENDS
def test_with_silence_for_it_the_rest_of_a_document_is_spoken(served: Served, word: str) -> None:
    asked = {"text": f"{GOOD}\n\nSome {word} word.", "on_failure": "silence"}
    found = document(served, json=asked)
    assert found["state"] == "completed"
    assert found["chunks"][-1]["state"] == "silenced"


def test_a_document_of_nothing_else_is_refused_with_silence_too(served: Served) -> None:
    asked = {"text": "An unread word.", "on_failure": "silence"}
    assert httpx.post(f"{served.url}/v1/documents", json=asked, timeout=60).status_code == 400
