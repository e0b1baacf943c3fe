"""A PostgreSQL whose processes all stand still: every request has its answer, and nothing is lost or doubled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest
from cells import running_cells
from documents import new_document
from eventually import PATIENCE, eventually
from postgres_server import PostgresServer, running_server
from psycopg_pool import ConnectionPool

from voxyard.service.documents import server_answers
from voxyard.service.documents.postgres import ImpatientConnection
from voxyard.service.documents.store import Store
from voxyard.service.errors import StoreUnavailableError

pytestmark = pytest.mark.needs("initdb")
REQUESTS = 30  # at once; each alone may wait for the database
BEFORE = 5  # documents in progress as it begins to hang


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as made:
        yield made


@pytest.mark.slow
def test_a_statement_is_given_up_and_then_nobody_waits(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImpatientConnection, "silence", 0.5)
    monkeypatch.setattr(server_answers, "ANSWER_SECONDS", 0.3)
    store, first, during = Store(server.url()), new_document(1, 3), new_document(2, 3)
    store.accept(first)
    inside, hangs = threading.Event(), threading.Event()

    def write() -> None:
        with store._database.write() as connection:
            connection.execute("UPDATE documents SET title = 'half' WHERE id = $1", (first.id,))
            inside.set()
            assert hangs.wait(PATIENCE)
            connection.execute("UPDATE documents SET author = 'half' WHERE id = $1", (first.id,))

    with ThreadPoolExecutor(1) as threads:
        half = threads.submit(write)
        assert inside.wait(PATIENCE)
        with server.hung():
            hangs.set()
            with pytest.raises(StoreUnavailableError, match="the database does not answer: retry in 5 s"):
                half.result(PATIENCE)
            monkeypatch.setattr(ConnectionPool, "connection", lambda _: pytest.fail("asked in vain"))
            for act in (store.documents, lambda: store.accept(during)):
                with pytest.raises(StoreUnavailableError) as refused:
                    act()
                assert refused.value.retry_after == 5.0
            monkeypatch.undo()
    eventually(lambda: answered(store.documents), "it answers again")
    assert [(each.id, each.title, each.author) for each in store.documents()] == [(first.id, first.title, None)]
    store.close()


def answered(question: Callable[[], object]) -> bool:
    try:
        question()
    except StoreUnavailableError:
        return False
    return True


@pytest.mark.slow
def test_every_request_is_answered_at_shipped_settings(server: PostgresServer, tmp_path: Path) -> None:
    with running_cells(tmp_path, server, names=("one", "two"), claim_seconds=15.0, chunks=2) as cells:
        one = cells.services[0].url

        def get(path: str) -> httpx.Response:
            return httpx.get(f"{one}{path}", timeout=PATIENCE)

        def send(number: int) -> httpx.Response:
            return httpx.post(
                f"{one}/v1/documents", json=cells.body(number), headers={"Idempotency-Key": f"{number}"},
                timeout=PATIENCE,
            )  # fmt: skip

        def is_accepted(number: int) -> bool:
            return send(number).status_code in (200, 202)

        before = [send(number).json()["id"] for number in range(BEFORE)]
        with server.hung(), ThreadPoolExecutor(2 * REQUESTS) as threads:
            posts = [threads.submit(send, BEFORE + number) for number in range(REQUESTS)]
            reads = [threads.submit(get, f"/v1/documents/{before[number % BEFORE]}") for number in range(REQUESTS)]
            while not all(each.done() for each in (*posts, *reads)):
                assert httpx.get(f"{one}/healthz", timeout=10).status_code == 200  # Prometheus waits no longer
                assert httpx.get(f"{one}/metrics", timeout=10).status_code == 200
            for each in (*posts, *reads):
                answer = each.result()
                assert answer.status_code == 503, answer.text
                assert answer.headers["Retry-After"] == "5"
                assert "does not answer" in answer.json()["error"]["message"]
            eventually(lambda: "voxyard_service_store_up 0.0" in get("/metrics").text, "the metric tells it")
        eventually(lambda: "voxyard_service_store_up 1.0" in get("/metrics").text, "the metric tells the return")
        for number in range(BEFORE + REQUESTS):
            eventually(partial(is_accepted, number), f"document {number} is accepted")
        eventually(lambda: cells.completed() == BEFORE + REQUESTS, "all are completed")
        assert cells.count("TRUE") == BEFORE + REQUESTS, "a request that was given up is a document twice"
        assert cells.stale_writes() == 0
        written = cells.query("SELECT document, place FROM {schema}.written WHERE state = 'spoken'")
        assert len(written) == len(set(written)) == 2 * (BEFORE + REQUESTS), "a chunk was lost, or written down twice"
        assert all("Traceback" not in each.log.read_text() for each in cells.services)
