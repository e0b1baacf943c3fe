"""Three real services on one PostgreSQL and one directory, which are killed and frozen, and whose database restarts."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import psycopg
import pytest
from exporters import free_port
from postgres_server import PostgresServer, running_server
from service_app import eventually
from tones_process import TonesProcess

from voxyard.service.documents.store import Store

NAMES = ("one", "two", "three")
CLAIM_SECONDS = 2.0
TEXTS = 6  # different documents
AT_ONCE = 40  # documents that are not completed
PATIENCE = 180.0
LONG_SECONDS, DOCUMENTS = 600.0, 500  # at least, of the long proof
# What each session writes, with the owner of the document at that moment.
AUDIT = """
    CREATE TABLE {schema}.written (document BIGINT, place INTEGER, state TEXT, service TEXT, owner TEXT);
    CREATE FUNCTION {schema}.note_chunk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO {schema}.written SELECT NEW.document, NEW.place, NEW.state, current_setting('application_name'),
            split_part(documents.claimed_by, ':', 1) FROM {schema}.documents WHERE number = NEW.document;
        RETURN NULL; END $$;
    CREATE TRIGGER note_chunk AFTER UPDATE OF state ON {schema}.chunks FOR EACH ROW
        EXECUTE FUNCTION {schema}.note_chunk();
    CREATE FUNCTION {schema}.note_document() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO {schema}.written VALUES (NEW.number, NULL, NEW.state, current_setting('application_name'),
            split_part(OLD.claimed_by, ':', 1));
        RETURN NULL; END $$;
    CREATE TRIGGER note_document AFTER UPDATE OF state ON {schema}.documents FOR EACH ROW
        WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION {schema}.note_document();
"""


def body(number: int) -> dict[str, object]:
    """A document; those of the same remainder have the same sound."""
    kind = number % TEXTS
    sentences = [f"This is sentence number {place} of a document of kind {kind} that is spoken." for place in range(4)]
    return {"text": " ".join(sentences), "seed": kind}


class Receiver:
    """Receiver of webhooks: deliveries by document."""

    def __init__(self) -> None:
        self.deliveries: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                with receiver._lock:
                    receiver.deliveries.setdefault(self.path[1:], []).append(self.headers["X-Voxyard-Delivery"])
                self.send_response(204)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server.server_port


@dataclass
class Cells:
    """Services, their database, and what was asked of them."""

    services: list[TonesProcess]
    server: PostgresServer
    schema: str
    shelf: Path
    receiver: Receiver
    expected: list[bytes]
    ids: dict[int, str] = field(default_factory=dict)
    dice: random.Random = field(default_factory=lambda: random.Random(20))
    stop: threading.Event = field(default_factory=threading.Event)

    def write(self, documents: int | None) -> None:
        """Sends documents, each under a key and half of them twice, until there are so many, or until `stop`."""
        dice = random.Random(5)
        for number in range(10**6 if documents is None else documents):
            while number - self.completed() > AT_ONCE:
                time.sleep(0.2)
            if self.stop.is_set():
                return
            self.ids[number] = self._send(number, dice)
            if dice.random() < 0.5:
                assert self._send(number, dice) == self.ids[number], "the same key has two documents"

    def _send(self, number: int, dice: random.Random) -> str:
        hook = f"http://127.0.0.1:{self.receiver.port}/{number}"
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline, f"document {number} is accepted nowhere"
            try:
                answer = httpx.post(
                    f"{dice.choice(self.services).url}/v1/documents", json={**body(number), "webhook": hook},
                    headers={"Idempotency-Key": f"key-{number}"}, timeout=5,
                )  # fmt: skip
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if answer.status_code in (200, 202):
                return str(answer.json()["id"])
            assert answer.status_code == 503, answer.text
            assert int(answer.headers["Retry-After"]) >= 1
            time.sleep(0.2)

    def count(self, condition: str) -> int:
        """Documents of this condition; 0 while the database restarts."""
        try:
            ((found,),) = self.server.execute(f"SELECT count(*) FROM {self.schema}.documents WHERE {condition}")  # noqa: S608
        except psycopg.OperationalError:
            return 0
        return int(found)

    def completed(self) -> int:
        """Documents that are completed."""
        return self.count("state = 'completed'")

    def kill(self) -> None:
        """SIGKILL to a service, which is started again."""
        service = self.dice.choice(self.services)
        service.end()
        time.sleep(self.dice.uniform(0, 2 * CLAIM_SECONDS))
        service.start()

    def freeze(self) -> None:
        """A service stands still until others have its documents."""
        service = self.dice.choice(self.services)
        service.signal(signal.SIGSTOP)
        time.sleep(CLAIM_SECONDS * self.dice.uniform(1.5, 3))
        service.signal(signal.SIGCONT)

    def restart_database(self) -> None:
        """PostgreSQL crashes, and is back after some time."""
        self.server.stop()
        time.sleep(self.dice.uniform(0, CLAIM_SECONDS))
        self.server.start()

    def check(self) -> None:
        """All documents are whole, and were written by their owners alone."""
        documents = len(self.ids)
        eventually(lambda: self.completed() == documents, "all documents are completed", PATIENCE)
        assert len(set(self.ids.values())) == documents == self.count("TRUE")
        for number, id in self.ids.items():
            assert (self.shelf / id / "audio.wav").read_bytes() == self.expected[number % TEXTS], id
        written = self.server.execute(f"SELECT document, place, state, service, owner FROM {self.schema}.written")  # noqa: S608
        assert [row for row in written if row[3] != row[4] and row[2] != "pending"] == [], "a stale owner has written"
        spoken = Counter((document, place) for document, place, state, _, _ in written if state == "spoken")
        assert set(spoken.values()) == {1}, "a chunk was written down twice"
        assert len(spoken) == 4 * documents
        completed = Counter(document for document, _, state, _, _ in written if state == "completed")
        assert set(completed.values()) == {1}
        assert {service for *_, service, _ in written} == set(NAMES), "a service had nothing to do"

    def check_webhooks(self, disturbances: int) -> None:
        """Each was delivered, as one delivery; again only where a disturbance came between it and the database."""
        delivered = self.receiver.deliveries
        eventually(lambda: len(delivered) == len(self.ids), "all webhooks are delivered", PATIENCE)
        assert all(len(set(each)) == 1 for each in delivered.values())
        again = sum(len(each) - 1 for each in delivered.values())
        assert again <= 8 * disturbances


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    receiver, shelf = Receiver(), tmp_path / "audio"
    (tmp_path / "secret").write_text("a secret of some length")
    with running_server() as server:
        url = server.url()
        schema = url.rpartition("%3D")[2]
        Store(url).close()
        server.execute(AUDIT.format(schema=schema))
        services = [
            TonesProcess(
                tmp_path / name, name, free_port(),
                {
                    "store": f"{url}&application_name={name}", "shelf": str(shelf), "claim_seconds": CLAIM_SECONDS,
                    "instance": name, "active_documents": 4, "rate_limit": 0,
                    "webhook_hosts": f"127.0.0.1:{receiver.port}",
                    "webhook_secret": str(tmp_path / "secret"), "stop_seconds": 5,
                },
            )
            for name in NAMES
        ]  # fmt: skip
        alone = TonesProcess(tmp_path / "alone", "alone", free_port())
        try:
            for each in (alone, *services):
                each.start()
            eventually(lambda: alone.ready, "the service alone is ready", PATIENCE)
            expected = [audio_of(alone, number) for number in range(TEXTS)]
            alone.end()
            eventually(lambda: all(each.ready for each in services), "all services are ready", PATIENCE)
            yield Cells(services, server, schema, shelf, receiver, expected)
        finally:
            for each in (alone, *services):
                if each.process is not None and each.process.poll() is None:
                    each.signal(signal.SIGCONT)
                each.end()
            receiver.server.shutdown()
            receiver.server.server_close()


def audio_of(service: TonesProcess, number: int) -> bytes:
    """The audio of a document from one service without any disturbance."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        id = client.post("/v1/documents", json=body(number)).json()["id"]
        eventually(lambda: client.get(f"/v1/documents/{id}").json()["state"] == "completed", f"{id} is completed")
        return client.get(f"/v1/documents/{id}/audio").content


def at_work(cells: Cells, documents: int | None) -> tuple[threading.Thread, list[BaseException]]:
    """A client that writes documents, and what has failed there."""
    failures: list[BaseException] = []

    def write() -> None:
        try:
            cells.write(documents)
        except BaseException as error:  # noqa: BLE001 — told by the test's own thread
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    return thread, failures


def test_a_kill_a_frozen_service_and_a_restart_of_the_database_lose_nothing(cells: Cells) -> None:
    documents = 40
    writing, failures = at_work(cells, documents)
    disturbances: list[Callable[[], None]] = [cells.kill, cells.freeze, cells.restart_database]
    for place, disturb in enumerate(disturbances):
        eventually(lambda place=place: cells.completed() >= 3 + 9 * place, "documents are completed", PATIENCE)  # type: ignore[misc]
        disturb()
    writing.join()
    assert failures == []
    cells.check()
    cells.check_webhooks(len(disturbances))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_minutes_of_disturbances_lose_nothing(cells: Cells) -> None:
    writing, failures = at_work(cells, None)
    end, disturbances = time.monotonic() + LONG_SECONDS, 0
    while (time.monotonic() < end or len(cells.ids) < DOCUMENTS) and not failures:
        cells.dice.choice([cells.kill, cells.kill, cells.freeze, cells.freeze, cells.restart_database])()
        disturbances += 1
        time.sleep(cells.dice.uniform(0, 4 * CLAIM_SECONDS))
    cells.stop.set()
    writing.join()
    assert failures == []
    cells.check()
    cells.check_webhooks(disturbances)
    logs = "".join(service.log.read_text() for service in cells.services)
    assert "was taken over by another service" in logs, "nobody was frozen long enough to try a stale write"
    assert "Traceback" not in logs
