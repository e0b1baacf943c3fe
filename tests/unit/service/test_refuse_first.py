"""What has no room is refused before it is prepared; while one key's documents are prepared, nobody else waits."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from eventually import PATIENCE, eventually
from fastapi.testclient import TestClient
from live_service import live
from service_app import running

from voxyard.service import texts
from voxyard.service.app import create_app
from voxyard.service.auth.api_keys import add_key
from voxyard.service.documents import submission

URL = "http://127.0.0.1"
MANY = 45  # more than a service has threads for requests


class Preparing:
    """Preparing of documents, which takes until it may end, where the text says so."""

    def __init__(self) -> None:
        self.begun, self.going = 0, threading.Event()
        self._script = texts.script

    def __call__(self, text: str, *arguments: Any, **options: Any) -> Any:
        self.begun += 1
        if text.startswith("Slow"):
            assert self.going.wait(PATIENCE)
        return self._script(text, *arguments, **options)


@pytest.fixture
def preparing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Preparing]:
    found = Preparing()
    monkeypatch.setattr(submission, "script", found)
    yield found
    found.going.set()


FULL: dict[str, Any] = {
    "max_documents": 1,
    "engine": {"rows": 1, "seconds": 60.0},
}  # with one document that is not spoken meanwhile


@pytest.mark.parametrize(
    ("settings", "first", "text", "status"),
    [
        (FULL, "A night.", "A night.", 429),
        ({"max_chunks": 3}, "", "A long night. " * 200, 413),
        ({"disk_quota_mib": 1}, "", "A long night. " * 1000, 507),
        ({"disk_reserve_mib": 10**9}, "", "A night.", 507),
    ],
    ids=["queue", "chunks", "quota", "disk"],
)
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "second"}], ids=["without", "with an idempotency key"])
def test_a_document_without_room_is_refused_before_it_is_prepared(
    tmp_path: Path,
    preparing: Preparing,
    settings: dict[str, Any],
    first: str,
    text: str,
    status: int,
    headers: dict[str, str],
) -> None:
    with running(tmp_path, **settings) as state, TestClient(create_app(state), base_url=URL) as client:
        if first:
            assert client.post("/v1/documents", json={"text": first}).status_code == 202
        before = preparing.begun
        answer = client.post("/v1/documents", json={"text": text}, headers=headers)
        assert (answer.status_code, preparing.begun - before) == (status, 0), answer.text


def test_a_full_queue_refuses_a_document_before_its_body_is_read_and_knows_one_that_is_there(tmp_path: Path) -> None:
    first: dict[str, Any] = {"json": {"text": "A night."}, "headers": {"Idempotency-Key": "first"}}
    with running(tmp_path, **FULL) as state, TestClient(create_app(state), base_url=URL) as client:
        made, again = (client.post("/v1/documents", **first) for _ in range(2))
        refused = client.post("/v1/documents", content=b"{", headers={"Content-Type": "application/json"})
    assert (made.status_code, again.status_code, refused.status_code) == (202, 200, 429)
    assert made.json()["id"] == again.json()["id"]


@pytest.mark.slow
def test_while_a_keys_documents_are_prepared_no_other_key_and_no_probe_waits(
    tmp_path: Path, preparing: Preparing
) -> None:
    ann, bob = (
        {"Authorization": f"Bearer {add_key(tmp_path / 'keys.yaml', name)}"} for name in ("ann", "bob")
    )  # fmt: skip
    with (
        running(tmp_path / "data", keys=tmp_path / "keys.yaml") as state,
        live(create_app(state), state.section) as url,
        ThreadPoolExecutor(MANY) as clients,
    ):

        def send(headers: dict[str, str], text: str) -> int:
            return httpx.post(f"{url}/v1/documents", json={"text": text}, headers=headers, timeout=PATIENCE).status_code

        sent = [clients.submit(send, ann, f"Slow {number}.") for number in range(MANY)]
        eventually(lambda: preparing.begun == 1, "the first is prepared")
        for path, headers in (("/readyz", {}), ("/metrics", {}), ("/v1/documents", bob)):
            assert httpx.get(url + path, headers=headers, timeout=PATIENCE).status_code in (200, 503)
        assert send(bob, "A night.") == 202
        speech = {"model": "tts-1", "input": "A night.", "voice": "alloy"}
        assert httpx.post(f"{url}/v1/audio/speech", json=speech, headers=bob, timeout=PATIENCE).status_code == 200
        assert not any(each.done() for each in sent)
        preparing.going.set()
        assert {each.result() for each in sent} == {202}


def test_a_document_whose_client_has_gone_is_given_up(tmp_path: Path, preparing: Preparing) -> None:
    with running(tmp_path) as state, live(create_app(state), state.section) as url:
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port or 80)) as client:
            body = b'{"text": "Slow."}'
            client.sendall(
                b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            eventually(lambda: preparing.begun == 1, "it is prepared")
        in_flight = partial(state.registry.get_sample_value, "voxyard_service_in_flight")
        eventually(lambda: in_flight() == 0, "its request has ended, before it is prepared")
        preparing.going.set()
        assert httpx.post(f"{url}/v1/documents", json={"text": "A night."}, timeout=PATIENCE).status_code == 202
        assert [each.title for each in state.store.documents()] == ["A night."]


def test_the_end_of_a_service_waits_for_no_document_that_is_prepared(tmp_path: Path, preparing: Preparing) -> None:
    with running(tmp_path, stop_seconds=0.1, drain_seconds=0.1) as state, ThreadPoolExecutor(2) as clients:
        with live(create_app(state), state.section) as url:
            sent = [
                clients.submit(httpx.post, f"{url}/v1/documents", json={"text": "Slow."}, timeout=PATIENCE)
                for _ in range(2)
            ]
            eventually(lambda: preparing.begun == 1, "one is prepared, and one waits")
        answers = [each.result() for each in sent]
        assert not preparing.going.is_set()
    assert [answer.status_code for answer in answers] == [503, 503]
