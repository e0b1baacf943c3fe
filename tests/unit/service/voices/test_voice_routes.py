"""Voices over HTTP: uploaded, mixed, listed, spoken with, deleted; each key has its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from eventually import eventually
from service_app import Served, serving

from voxyard.service.auth.api_keys import add_key
from voxyard.service.voices.submission import LARGEST_FILE, LARGEST_VOICE

TONE = b"tone 1"
TEXT = "The harbour lay still. Nobody was awake.\n\nNobody but the watchman."


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("voices"), engine={"samples": 240}) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    """A client, whose voices are gone afterwards."""
    with httpx.Client(base_url=served.url, timeout=60) as client:
        yield client
        for each in client.get("/v1/documents").json()["documents"]:
            client.delete(f"/v1/documents/{each['id']}")
        for voice in uploaded(client):
            client.delete(f"/v1/audio/voices/{voice['id']}")


def upload(client: httpx.Client, name: str, content: bytes = TONE, **fields: str) -> httpx.Response:
    return client.post("/v1/audio/voices", data={"name": name, **fields}, files={"file": ("voice.npz", content)})


def uploaded(client: httpx.Client) -> list[dict[str, Any]]:
    return [voice for voice in client.get("/v1/audio/voices").json()["voices"] if voice["uploaded"]]


def spoken(client: httpx.Client, voice: str) -> bytes:
    body = {"model": "tts-1", "input": "Good morning.", "voice": voice, "response_format": "pcm"}
    answer = client.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200, answer.text
    return answer.content


def document(client: httpx.Client, **body: Any) -> str:
    """URL of a completed document."""
    answer = client.post("/v1/documents", json={"text": TEXT, **body})
    assert answer.status_code == 202, answer.text
    url = f"/v1/documents/{answer.json()['id']}"
    eventually(lambda: client.get(url).json()["state"] == "completed", "it is spoken")
    return url


def test_an_uploaded_voice_is_listed_and_used(client: httpx.Client) -> None:
    answer = upload(client, "old_captain", description="From the archive.", language="de")
    assert (answer.status_code, answer.json()["id"]) == (201, "old_captain")
    assert uploaded(client) == [
        {
            "id": "old_captain", "name": "Old captain (uploaded)", "language": "de", "gender": None, "alias_of": None,
            "uploaded": True, "description": "From the archive.", "mixed": None,
        }
    ]  # fmt: skip
    upload(client, "other", b"tone 2")
    assert len({spoken(client, voice) for voice in ("old_captain", "other", "alloy")}) == 3
    url = document(client, voice="old_captain", seed=4)
    found = client.get(url).json()
    assert (found["voice"], found["language"]) == ("old_captain", "de")
    plain = document(client, voice="alloy", seed=4)
    assert client.get(f"{url}/audio").content != client.get(f"{plain}/audio").content


def test_a_form_with_a_document_file_takes_an_uploaded_voice(client: httpx.Client) -> None:
    upload(client, "captain", language="de")
    page = b"<html><body><p>Das Meer war ruhig.</p></body></html>"
    answer = client.post("/v1/documents", data={"voice": "captain"}, files={"file": ("sea.html", page, "text/html")})
    url = f"/v1/documents/{answer.json()['id']}"
    eventually(lambda: client.get(url).json()["state"] in ("completed", "failed"), "it is spoken")
    found = client.get(url).json()
    assert (found["state"], found["voice"], found["language"]) == ("completed", "captain", "de")


def test_a_chunk_is_spoken_again_in_an_uploaded_voice(client: httpx.Client) -> None:
    url = document(client, seed=4)
    before = client.get(f"{url}/audio").content
    upload(client, "captain")
    redo = {"voice": "captain", "seed": 4}  # the document's seed: only the voice changes
    assert client.post(f"{url}/chunks/0/redo", json=redo).status_code == 202
    eventually(lambda: client.get(url).json()["revision"] == 1, "it is spoken again")
    assert client.get(f"{url}?chunks=true").json()["chunks"][0]["voice"] == "captain"
    assert client.get(f"{url}/audio").content != before


def test_a_mixed_voice_is_made_of_the_service_s_and_of_uploaded_ones(client: httpx.Client) -> None:
    upload(client, "captain")
    body = {"name": "calm-captain", "mix": {"manner": "alloy", "timbre": "captain"}, "language": "en"}
    answer = client.post("/v1/audio/voices", json=body)
    assert (answer.status_code, answer.json()["mixed"]) == (201, {"manner": "alloy", "timbre": "captain"})
    client.delete("/v1/audio/voices/captain")
    assert [voice["id"] for voice in uploaded(client)] == ["calm-captain"]
    assert spoken(client, "calm-captain") != spoken(client, "alloy")
    unknown = client.post("/v1/audio/voices", json={"name": "x", "mix": {"manner": "alloy", "timbre": "captain"}})
    assert (unknown.status_code, unknown.json()["error"]["param"]) == (404, "mix.timbre")
    assert unknown.json()["error"]["code"] == "voice_not_found"
    assert "calm-captain" in unknown.json()["error"]["message"]  # the key's own are among the nearest


def test_a_deleted_voice_is_gone_for_requests_and_stays_for_documents(client: httpx.Client, served: Served) -> None:
    upload(client, "captain")
    url = document(client, voice="captain", seed=4)
    audio = client.get(f"{url}/audio").content
    assert client.delete("/v1/audio/voices/captain").status_code == 204
    assert uploaded(client) == []
    gone = client.post("/v1/documents", json={"text": TEXT, "voice": "captain"})
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "voice_not_found")
    assert client.delete("/v1/audio/voices/captain").status_code == 404
    upload(client, "captain", b"tone 2")  # another voice of that name is not the document's
    client.post(f"{url}/chunks/0/redo", json={"seed": 4})
    eventually(lambda: client.get(url).json()["revision"] == 1, "it is spoken again")
    assert client.get(f"{url}/audio").content == audio
    client.delete("/v1/audio/voices/captain")
    client.delete(url)
    served.state.store.voices.sweep()
    with served.state.store._database.read() as connection:
        assert connection.execute("SELECT count(*) AS found FROM voices").fetchall()[0]["found"] == 0


def test_a_repeated_request_finds_its_document_after_its_voice_was_deleted(client: httpx.Client) -> None:
    upload(client, "captain")
    body, headers = {"text": TEXT, "voice": "captain"}, {"Idempotency-Key": "night-1"}
    first = client.post("/v1/documents", json=body, headers=headers)
    client.delete("/v1/audio/voices/captain")
    again = client.post("/v1/documents", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (202, 200), again.text
    assert again.json()["id"] == first.json()["id"]
    other = client.post("/v1/documents", json={**body, "seed": 2}, headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("fields", "content", "status", "code", "parameter"),
    [
        ({"name": "x"}, b"no voice", 400, "invalid_voice", "file"),
        ({"name": "x"}, None, 400, "invalid_request", "file"),
        ({}, TONE, 400, "invalid_request", "name"),
        ({"name": "../x"}, TONE, 400, "invalid_request", "name"),
        ({"name": "a b"}, TONE, 400, "invalid_request", "name"),
        ({"name": "a#b"}, TONE, 400, "invalid_request", "name"),
        ({"name": "x\n"}, TONE, 400, "invalid_request", "name"),
        ({"name": "x" * 65}, TONE, 400, "invalid_request", "name"),
        ({"name": "alloy"}, TONE, 409, "conflict", "name"),
        ({"name": "announcer"}, TONE, 409, "conflict", "name"),
        ({"name": "x", "language": "klingon!"}, TONE, 400, "invalid_request", "language"),
        ({"name": "x", "description": "y" * 501}, TONE, 400, "invalid_request", "description"),
        ({"name": "x"}, TONE + bytes(LARGEST_VOICE), 413, "too_large", "file"),
        ({"name": "x"}, TONE + bytes(LARGEST_FILE), 413, "too_large", "file"),
        ({"name": "x"}, TONE + bytes(2 * LARGEST_FILE), 413, "too_large", None),
    ],
)
def test_what_is_no_voice_is_refused(
    client: httpx.Client, fields: dict[str, str], content: bytes | None, status: int, code: str, parameter: str | None
) -> None:
    files = {"file": ("voice.npz", content)} if content is not None else {"other": ("", b"")}
    answer = client.post("/v1/audio/voices", data=fields, files=files)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, parameter)
    assert uploaded(client) == []


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"name": "x"}, "mix"),
        ({"name": "x", "mix": {"manner": "alloy"}}, "mix.timbre"),
        ({"name": "x", "mix": [0.5, 0.5]}, "mix"),
    ],
)
def test_a_mix_names_both_parts(client: httpx.Client, body: dict[str, Any], parameter: str) -> None:
    answer = client.post("/v1/audio/voices", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, parameter)


def test_another_type_of_body_is_refused(client: httpx.Client) -> None:
    answer = client.post("/v1/audio/voices", content=TONE, headers={"Content-Type": "application/octet-stream"})
    assert answer.status_code == 415


def test_a_name_is_taken_once(client: httpx.Client) -> None:
    upload(client, "captain")
    again = upload(client, "captain", b"tone 2")
    assert (again.status_code, again.json()["error"]["param"]) == (409, "name")


def test_keys_see_use_and_delete_only_their_own_within_their_bound(tmp_path: Path) -> None:
    keys = {name: add_key(tmp_path / "keys.yaml", name) for name in ("ann", "bob")}
    with serving(tmp_path / "data", keys=tmp_path / "keys.yaml", max_voices=2) as served:
        ann, bob = (
            httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {keys[name]}"}, timeout=60)
            for name in ("ann", "bob")
        )
        with ann, bob:
            assert upload(ann, "captain").status_code == 201
            assert uploaded(bob) == []
            assert bob.delete("/v1/audio/voices/captain").status_code == 404
            asked = {"model": "tts-1", "input": "Hello.", "voice": "captain"}
            assert bob.post("/v1/audio/speech", json=asked).status_code == 404
            assert upload(bob, "captain", b"tone 2").status_code == 201  # its own of that name
            assert spoken(ann, "captain") != spoken(bob, "captain")
            url = document(ann, voice="captain")
            ann.delete("/v1/audio/voices/captain")
            assert upload(ann, "second").status_code == 201
            third = upload(ann, "third")
            assert (third.status_code, third.json()["error"]["code"]) == (409, "conflict")
            assert "2 of 2 uploaded voices, 1 of them deleted but in documents" in third.json()["error"]["message"]
            ann.delete(url)
            assert upload(ann, "third").status_code == 201
            assert upload(bob, "fourth").status_code == 201


@pytest.mark.slow
def test_voices_and_their_documents_survive_a_restart(tmp_path: Path) -> None:
    with (
        serving(tmp_path, engine={"seconds": 3600.0}) as served,
        httpx.Client(base_url=served.url, timeout=60) as client,
    ):
        upload(client, "captain")
        upload(client, "unused")
        answer = client.post("/v1/documents", json={"text": TEXT, "voice": "captain", "seed": 4})
        url = f"/v1/documents/{answer.json()['id']}"
        eventually(lambda: client.get(url).json()["state"] == "processing", "it begins")
        client.delete("/v1/audio/voices/captain")  # before any of it is spoken
    with serving(tmp_path) as served, httpx.Client(base_url=served.url, timeout=60) as client:
        eventually(lambda: client.get(url).json()["state"] == "completed", "it is spoken after the restart")
        assert [voice["id"] for voice in uploaded(client)] == ["unused"]
        upload(client, "captain")
        other = document(client, voice="captain", seed=4)
        assert client.get(f"{url}/audio").content == client.get(f"{other}/audio").content


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"voice_files": None}, "the engine of this service takes no voices"), ({"max_voices": 0}, "--max-voices 0")],
)
def test_where_no_voices_are_taken_the_answer_says_so(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with serving(tmp_path, **settings) as served, httpx.Client(base_url=served.url, timeout=60) as client:
        answer = upload(client, "captain")
        assert (answer.status_code, answer.json()["error"]["code"]) == (501, "not_supported")
        assert message in answer.json()["error"]["message"]
        mix = client.post("/v1/audio/voices", json={"name": "x", "mix": {"manner": "alloy", "timbre": "alloy"}})
        assert mix.status_code == 501
