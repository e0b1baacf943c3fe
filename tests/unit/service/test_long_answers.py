"""Long answers about documents: made once for a revision, as work of their key, and no more are kept than may be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from documents import OwningStore, new_document
from eventually import PATIENCE, eventually
from fastapi.testclient import TestClient
from live_service import live
from pydantic import BaseModel
from service_app import running

from voxyard.service.app import create_app
from voxyard.service.auth.api_keys import add_key
from voxyard.service.documents.records import Document
from voxyard.service.documents.store import Store
from voxyard.service.routes.answers import Answer, Answers
from voxyard.service.routes.schemas import DocumentOut, TimingsOut
from voxyard.service.routes.scripts import ScriptOut
from voxyard.service.streaming.audio_response import BLOCK


@pytest.fixture
def document(tmp_path: Path) -> Document:
    store = OwningStore(tmp_path / "store.sqlite")
    found = replace(store.accept(new_document(1))[0], state="completed")
    store.close()
    return found


class Making:
    """Makes answers of so many bytes, and counts them."""

    def __init__(self, size: int = 10, *, lasting: bool = True) -> None:
        self.made, self._size, self._lasting = 0, size, lasting

    def __call__(self) -> Answer:
        self.made += 1
        return Answer(bytes(self._size), lasting=self._lasting)


def asked(answers: Answers, make: Callable[[], Answer], *of: tuple[Document, str]) -> None:
    async def play() -> None:
        await asyncio.gather(*(answers.get(document, kind, make) for document, kind in of))

    asyncio.run(play())


def test_an_answer_is_made_once_for_each_state_of_a_completed_document(document: Document) -> None:
    answers, make = Answers(), Making()
    asked(answers, make, *[(document, "timings")] * 20)
    assert make.made == 1
    asked(answers, make, (document, "script"), (replace(document, revision=1), "timings"), (document, "timings"))
    assert make.made == 3


@pytest.mark.parametrize(
    ("make", "state"), [(Making(lasting=False), "completed"), (Making(), "processing")], ids=["changing", "unfinished"]
)
def test_an_answer_that_may_change_is_made_each_time(document: Document, make: Making, state: Any) -> None:
    asked(Answers(), make, *[(replace(document, state=state), "timings")] * 3)
    assert make.made == 3


def test_those_used_last_are_kept_and_none_that_is_too_large(document: Document) -> None:
    answers, small, large = Answers(kept_bytes=100), Making(40), Making(60)
    asked(answers, small, (document, "a"))
    asked(answers, small, (document, "b"))
    asked(answers, small, (document, "a"))
    asked(answers, small, (document, "c"))
    asked(answers, small, (document, "a"))
    assert small.made == 3
    asked(answers, small, (document, "b"))
    assert small.made == 4
    asked(answers, large, (document, "d"))
    asked(answers, large, (document, "d"))
    assert large.made == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "model"), [("?chunks=true", DocumentOut), ("/script", ScriptOut), ("/timings", TimingsOut)]
)
def test_a_long_answer_is_written_chunk_by_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: str, model: type[BaseModel]
) -> None:
    """What pydantic writes at once holds up all other threads."""
    written, write = list[int](), BaseModel.model_dump_json

    def counted(body: BaseModel, **options: Any) -> str:
        found = write(body, **options)
        written.append(len(found))
        return found

    address = "http://localhost"
    with running(tmp_path / "data") as state, TestClient(create_app(state), base_url=address) as client:
        text = "\n\n".join(f'A "chunks":[ of {place} words, and no more.' for place in range(40))
        id = client.post("/v1/documents", json={"text": text, "title": '"chunks":[]'}).json()["id"]
        eventually(lambda: state.store.document(id).state == "completed", "it is spoken")
        monkeypatch.setattr(BaseModel, "model_dump_json", counted)
        content = client.get(f"/v1/documents/{id}{view}").content
    assert len(content) > 10 * max(written)
    found = model.model_validate_json(content)
    assert write(found).encode() == content
    assert len(found.chunks) == 40  # type: ignore[attr-defined]


@pytest.mark.slow
def test_while_a_keys_long_answers_are_made_no_other_key_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty at once of each kind, more than there are threads for requests."""
    keys = tmp_path / "keys.yaml"
    ann, bob = ({"Authorization": f"Bearer {add_key(keys, name)}"} for name in ("ann", "bob"))
    going = threading.Event()
    with (
        running(tmp_path / "data", keys=keys) as state,
        live(create_app(state), state.section) as url,
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
        ThreadPoolExecutor(50) as clients,
    ):
        id = client.post("/v1/documents", json={"text": "A night."}, headers=ann).json()["id"]
        eventually(lambda: state.store.document(id).state == "completed", "it is spoken")
        for name in ("chunks", "snapshot"):
            monkeypatch.setattr(Store, name, waiting(getattr(Store, name), going))
        in_flight = partial(state.registry.get_sample_value, "voxyard_service_in_flight")
        for answer in ("/timings", "/subtitles", "/chapters", "/script", "?chunks=true"):
            going.clear()
            many = [clients.submit(client.get, f"/v1/documents/{id}{answer}", headers=ann) for _ in range(50)]
            eventually(lambda: (in_flight() or 0) >= 50, "all are asked for")
            assert client.get("/v1/documents", headers=bob).status_code == 200
            going.set()
            assert {each.result().status_code for each in many} == {200}


@pytest.mark.slow
def test_while_a_keys_redos_wait_for_the_disk_another_key_changes_what_it_likes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty at once, more than there are threads for requests."""
    keys = tmp_path / "keys.yaml"
    ann, bob = ({"Authorization": f"Bearer {add_key(keys, name)}"} for name in ("ann", "bob"))
    going = threading.Event()
    with (
        running(tmp_path / "data", keys=keys) as state,
        live(create_app(state), state.section) as url,
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
        ThreadPoolExecutor(50) as clients,
    ):
        ids = [client.post("/v1/documents", json={"text": "A night."}, headers=key).json()["id"] for key in (ann, bob)]
        eventually(lambda: all(state.store.document(id).state == "completed" for id in ids), "both are spoken")
        monkeypatch.setattr(Store, "redo", waiting(Store.redo, going))
        in_flight = partial(state.registry.get_sample_value, "voxyard_service_in_flight")
        redo = partial(client.post, f"/v1/documents/{ids[0]}/chunks/0/redo", headers=ann)
        many = [clients.submit(redo) for _ in range(50)]
        eventually(lambda: (in_flight() or 0) >= 50, "all are asked for")
        assert client.get("/v1/documents", headers=bob).status_code == 200
        assert client.delete(f"/v1/documents/{ids[1]}", headers=bob).status_code == 204
        going.set()
        assert {each.result().status_code for each in many} == {202}


def test_the_state_of_a_completed_document_is_made_once_and_after_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, chapters = list[str](), Store.chapters

    def counted(store: Store, id: str) -> Any:
        made.append(id)
        return chapters(store, id)

    with running(tmp_path) as state, TestClient(create_app(state), base_url="http://127.0.0.1") as client:
        url = f"/v1/documents/{client.post('/v1/documents', json={'text': 'A night.'}).json()['id']}"
        eventually(lambda: client.get(url).json()["state"] == "completed", "it is spoken")
        for path in (url, f"{url}?chunks=true"):  # what said so may have been asked for before, and was not kept
            client.get(path)
        monkeypatch.setattr(Store, "chapters", counted)
        assert [client.get(path).status_code for path in [url, f"{url}?chunks=true"] * 3] == [200] * 6
        assert made == []
        assert client.get(url, headers={"X-Forwarded-Prefix": "/under"}).status_code == 200
        state.queue.drain()  # what is asked for waits
        client.post(f"{url}/chunks/0/redo")
        assert client.get(url).json()["redo"]["waiting"] == [0]


def test_a_long_answer_is_sent_in_blocks_and_whole() -> None:
    sent, content = list[Any](), bytes(range(256)) * 1000

    async def send(message: Any) -> None:
        sent.append(message)

    for body in (content, b""):
        sent.clear()
        asyncio.run(Answer(body).response()({"type": "http"}, asyncio.Queue[Any]().get, send))
        blocks = [message["body"] for message in sent[1:]]
        assert (b"".join(blocks), max(map(len, blocks)) <= BLOCK) == (body, True)
        assert [message["more_body"] for message in sent[1:]] == [True] * (len(blocks) - 1) + [False]
        assert dict(sent[0]["headers"])[b"content-length"] == b"%d" % len(body)


def waiting(read: Callable[..., Any], going: threading.Event) -> Callable[..., Any]:
    def slowly(*arguments: Any) -> Any:
        assert going.wait(PATIENCE)
        return read(*arguments)

    return slowly
