"""Several services on one PostgreSQL and one directory, disturbed while documents are written, and what holds then.

Clients send to the services themselves, or to a real HAProxy before them with a release's configuration.
"""

from __future__ import annotations

import random
import signal
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import psycopg
from eventually import eventually
from free_ports import free_port
from postgres_server import PostgresServer
from running_gateway import running_gateway
from tones_process import TonesProcess
from webhook_receiver import Receiver

from fleet.inventory.hosts import Bark, Host, with_upstreams
from voxyard.service.documents.store import Store

NAMES = ("one", "two", "three")
TEXTS = 6  # different documents
AT_ONCE = 40  # documents that are not completed
PATIENCE = 180.0
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


@dataclass
class Cells:
    """Services, their database, and what was asked of them."""

    services: list[TonesProcess]
    server: PostgresServer
    schema: str
    shelf: Path
    receiver: Receiver
    claim_seconds: float
    chunks: int  # of a document
    entrances: Sequence[str]  # URLs to which documents are sent
    trust: ssl.SSLContext | None = None
    ids: dict[int, str] = field(default_factory=dict)
    dice: random.Random = field(default_factory=lambda: random.Random(20))
    stop: threading.Event = field(default_factory=threading.Event)

    def body(self, number: int) -> dict[str, object]:
        """A document; those of the same remainder have the same sound."""
        kind = number % TEXTS
        sentences = (
            f"This is sentence number {place} of a document of kind {kind} that is spoken."
            for place in range(self.chunks)
        )
        return {"text": " ".join(sentences), "seed": kind}

    def write(self, documents: int | None) -> None:
        """Sends documents, each under a key and half of them twice, until there are so many, or until `stop`."""
        dice = random.Random(5)
        first = len(self.ids)
        for number in range(first, 10**6 if documents is None else first + documents):
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
                    f"{dice.choice(self.entrances)}/v1/documents", json={**self.body(number), "webhook": hook},
                    headers={"Idempotency-Key": f"key-{number}"}, timeout=5, verify=self.trust or True,
                )  # fmt: skip
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if answer.status_code in (200, 202):
                return str(answer.json()["id"])
            assert answer.status_code in (502, 503), answer.text  # 502: of a gateway whose service has died
            assert int(answer.headers["Retry-After"]) >= 1
            time.sleep(0.2)

    def at_work(self, documents: int | None) -> tuple[threading.Thread, list[BaseException]]:
        """A client that writes documents, and what has failed there."""
        failures: list[BaseException] = []

        def write() -> None:
            try:
                self.write(documents)
            except BaseException as error:  # noqa: BLE001 — told by the caller's own thread
                failures.append(error)

        thread = threading.Thread(target=write, daemon=True)  # a test that fails does not wait for it
        thread.start()
        return thread, failures

    def read(self) -> tuple[threading.Thread, list[str]]:
        """A client that reads documents from all services until `stop`, and what it got but should not."""
        wrong: list[str] = []

        def read() -> None:
            while not self.stop.is_set():
                for service in self.services:
                    for path in ("", *(f"/{id}" for id in list(self.ids.values())[-3:])):
                        with suppress(httpx.TransportError):  # it is stopped
                            answer = httpx.get(f"{service.url}/v1/documents{path}", timeout=PATIENCE)
                            if answer.status_code not in (200, 503):
                                wrong.append(f"{path}: {answer.status_code} {answer.text}")

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread, wrong

    def query(self, statement: str) -> list[tuple[object, ...]]:
        """Rows of a statement, in which `{schema}` is the services'; none while the database restarts."""
        try:
            return self.server.execute(statement.format(schema=self.schema))
        except psycopg.OperationalError:
            return []

    def count(self, condition: str) -> int:
        """Documents of this condition; 0 while the database restarts."""
        found = self.query(f"SELECT id FROM {{schema}}.documents WHERE {condition}")  # noqa: S608
        return len(found)

    def completed(self) -> int:
        """Documents that are completed."""
        return self.count("state = 'completed'")

    def all_completed(self) -> None:
        """Waits until all are."""
        eventually(lambda: self.completed() == len(self.ids), "all documents are completed", PATIENCE)

    def kill(self) -> None:
        """SIGKILL to a service, which is started again."""
        service = self.dice.choice(self.services)
        service.end()
        time.sleep(self.dice.uniform(0, 2 * self.claim_seconds))
        service.start()

    def kill_worker(self) -> None:
        """SIGKILL to a service's worker, in whose place it starts another."""
        service = self.dice.choice(self.services)
        self.check_running(service)
        assert service.process is not None
        workers = [each for each in psutil.Process(service.process.pid).children() if not each.children()]
        if workers:
            self.dice.choice(workers).kill()

    def check_running(self, service: TonesProcess) -> None:
        """No service ends by itself."""
        assert service.process is not None
        assert service.process.poll() is None, f"{service.name} has ended: {service.log.read_text()[-2000:]}"

    def freeze(self) -> None:
        """A service stands still until others have its documents."""
        service = self.dice.choice(self.services)
        service.signal(signal.SIGSTOP)
        time.sleep(self.claim_seconds * self.dice.uniform(1.5, 3))
        service.signal(signal.SIGCONT)

    def restart_database(self) -> None:
        """PostgreSQL crashes, and is back after some time."""
        self.server.stop()
        time.sleep(self.dice.uniform(0, self.claim_seconds))
        self.server.start()

    def in_mid_document(self, service: TonesProcess) -> set[str]:
        """Ids of the documents that a service has, once it has spoken a part of one of them."""
        mine = f"claimed_by LIKE '{service.name}:%'"
        eventually(
            lambda: self.count(f"{mine} AND chunks_done BETWEEN 1 AND chunks - 1"),
            f"{service.name} is in the midst of a document", PATIENCE,
        )  # fmt: skip
        return {str(id) for (id,) in self.query(f"SELECT id FROM {{schema}}.documents WHERE {mine}")}  # noqa: S608

    def taken_over(self, ids: set[str], service: TonesProcess, since: float) -> float:
        """Seconds from `since` until other services have all that a service had."""
        listed = ", ".join(f"'{id}'" for id in ids)
        still = f"id IN ({listed}) AND claimed_by LIKE '{service.name}:%'"
        eventually(lambda: not self.count(still), f"others have the documents of {service.name}", PATIENCE)
        return time.monotonic() - since

    def lost(self, expected: Sequence[bytes]) -> int:
        """Documents that are missing, doubled, or not the same bytes as without a disturbance."""
        whole = sum(
            (self.shelf / id / "audio.wav").read_bytes() == expected[number % TEXTS] for number, id in self.ids.items()
        )
        stored = self.count("TRUE")
        return max(len(self.ids), stored) - min(whole, len(set(self.ids.values())))

    def stale_writes(self) -> int:
        """Writes of a document's progress by a service that did not have it."""
        return len(
            self.query("SELECT FROM {schema}.written WHERE service IS DISTINCT FROM owner AND state <> 'pending'")
        )

    def check(self, expected: Sequence[bytes]) -> None:
        """All documents are whole, and were written by their owners alone, each chunk once."""
        self.all_completed()
        for each in self.services:
            self.check_running(each)
        assert self.lost(expected) == 0
        assert self.stale_writes() == 0, "a stale owner has written"
        written = self.query("SELECT document, place, state, service FROM {schema}.written")
        spoken = Counter((document, place) for document, place, state, _ in written if state == "spoken")
        assert set(spoken.values()) == {1}, "a chunk was written down twice"
        assert len(spoken) == self.chunks * len(self.ids)
        completed = Counter(document for document, _, state, _ in written if state == "completed")
        assert set(completed.values()) == {1}
        assert {service for *_, service in written} == set(NAMES), "a service had nothing to do"

    def check_webhooks(self, disturbances: int) -> None:
        """Each was delivered, as one delivery; again only where a disturbance came between it and the database."""
        delivered = self.receiver.deliveries
        eventually(lambda: len(delivered) == len(self.ids), "all webhooks are delivered", PATIENCE)
        assert all(len(set(each)) == 1 for each in delivered.values())
        again = sum(len(each) - 1 for each in delivered.values())
        assert again <= 8 * disturbances


@contextmanager
def running_cells(
    folder: Path,
    server: PostgresServer,
    names: Sequence[str] = NAMES,
    *,
    claim_seconds: float,
    chunks: int = 4,
    seconds: float = 0.3,
    gateway: bool = False,
    **settings: object,
) -> Iterator[Cells]:
    """Services of these names until the block ends; a chunk takes `seconds`, in which its worker waits."""
    folder.mkdir(exist_ok=True)
    shelf, url = folder / "audio", server.url(host="127.0.0.1")
    schema = url.rpartition("%3D")[2]
    Store(url).close()
    server.execute(AUDIT.format(schema=schema))
    with ExitStack() as stack:
        receiver = stack.enter_context(Receiver.running())
        (folder / "secret").write_text("a secret of some length")
        services = [
            TonesProcess(
                folder / name, name, free_port(),
                {
                    "store": f"{url}&application_name={name}", "shelf": str(shelf), "claim_seconds": claim_seconds,
                    "instance": name, "rate_limit": 0, "webhook_hosts": f"127.0.0.1:{receiver.port}",
                    "webhook_secret": str(folder / "secret"), "stop_seconds": 5, **settings,
                },
                seconds,
            )
            for name in names
        ]  # fmt: skip
        entrances, trust = [each.url for each in services], None
        for each in services:
            stack.callback(_end, each)
            each.start()
        eventually(lambda: all(each.ready for each in services), "all services are ready", PATIENCE)
        if gateway:
            barks = [Host(each.name, "127.0.0.1", "v", roles=("bark",), bark=_bark(each)) for each in services]
            host = with_upstreams([Host("gw", "127.0.0.1", "v", roles=("gateway",)), *barks])[0]
            found = stack.enter_context(running_gateway(host, folder / "haproxy", free_port(), free_port()))
            entrances, trust = [found.url], ssl.create_default_context(cafile=str(found.authority.root))
        yield Cells(services, server, schema, shelf, receiver, claim_seconds, chunks, entrances, trust)


def undisturbed(cells: Cells, folder: Path) -> list[bytes]:
    """Audio of the documents from one service on a database of its own, without any disturbance."""
    alone = TonesProcess(folder / "alone", "alone", free_port(), {"rate_limit": 0}, seconds=0.0)
    alone.start()
    try:
        eventually(lambda: alone.ready, "the service alone is ready", PATIENCE)
        with httpx.Client(base_url=alone.url, timeout=PATIENCE) as client:
            return [_audio(client, cells.body(number)) for number in range(TEXTS)]
    finally:
        alone.end()


def _audio(client: httpx.Client, body: dict[str, object]) -> bytes:
    id = client.post("/v1/documents", json=body).json()["id"]
    eventually(lambda: client.get(f"/v1/documents/{id}").json()["state"] == "completed", f"{id} is completed")
    return client.get(f"/v1/documents/{id}/audio").content


def _bark(service: TonesProcess) -> Bark:
    store = str(service.section["store"])
    return Bark(
        port=service.port, store=f"postgresql://voxyard@{store.rpartition('@')[2].partition('?')[0]}", shelf="/"
    )


def _end(service: TonesProcess) -> None:
    if service.process is not None and service.process.poll() is None:
        service.signal(signal.SIGCONT)
    service.end()
