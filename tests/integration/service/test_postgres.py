"""The store's PostgreSQL: what a start needs, lost connections, a full disk, several services on one database."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from documents import new_document
from eventually import PATIENCE, eventually
from postgres_server import PostgresServer, running_server

from voxyard.service.config import ServiceSection
from voxyard.service.documents.postgres import PostgresDatabase
from voxyard.service.documents.store import Store
from voxyard.service.errors import ConflictError, NoRoomError, ServiceError, StoreError, StoreUnavailableError
from voxyard.service.usage import KEPT_DAYS, Amounts


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = Store(url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server_to_stop() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def own_server(postgres: PostgresServer, server_to_stop: PostgresServer) -> PostgresServer:
    """A server that a test may stop."""
    if not server_to_stop.runs:
        server_to_stop.start()
    return server_to_stop


def in_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_transactions_are_counted_with_the_time_that_they_take(url: str) -> None:
    """Those that fail too, and the waits in a block: a lock of another service is one."""
    database = PostgresDatabase(url)
    before = database.transactions, database.seconds
    with database.write() as connection:
        connection.execute("SELECT pg_sleep(0.2)")
    with pytest.raises(StoreError), database.read() as connection:
        connection.execute("SELECT none")
    assert database.transactions - before[0] == 2
    assert database.seconds - before[1] >= 0.2
    database.close()


def test_services_add_to_the_same_usage(url: str, store: Store) -> None:
    other = Store(url)
    days = [date(2026, 11, 27), date(2026, 11, 28)]

    def add(number: int) -> None:
        for _ in range(10):
            table = (store, other)[number % 2].usage
            table.add({(day, key): Amounts(3, 0.5, 0.25) for day in days for key in ("ben", "anna")})

    in_threads(add, 4)
    found = other.usage.since(days[1])
    assert [(each.day, each.key, each.amounts) for each in found] == [
        (days[1], key, Amounts(120, 20.0, 10.0)) for key in ("anna", "ben")
    ]
    assert len(store.usage.since(days[0], "anna")) == 2
    store.usage.add({(days[1] + timedelta(KEPT_DAYS), "anna"): Amounts(1)})
    assert {each.day for each in other.usage.since(days[0])} == {days[1], days[1] + timedelta(KEPT_DAYS)}
    other.close()


def test_the_place_is_a_file_unless_it_is_a_url(tmp_path: Path) -> None:
    section = ServiceSection(data_dir=tmp_path)
    assert section.store_place() == tmp_path / "documents.sqlite"
    assert section.model_copy(update={"store": "other/x.sqlite"}).store_place() == Path("other/x.sqlite")
    assert section.model_copy(update={"store": "postgresql://u@h/d"}).store_place() == "postgresql://u@h/d"


@pytest.mark.parametrize("url", ["postgresql://u:geheim@h/d", "postgresql://u@h/d?password=geheim"])
def test_a_password_in_the_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(StoreError, match=r"has a password.*leave it out.*PGPASSFILE") as refused:
        Store(url)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("url", ["mysql://u:geheim@h/d", "postgresql://u@h:port/d?pass:geheim"])
def test_an_invalid_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(StoreError, match="invalid --store: expected a path, or a URL such as") as refused:
        Store(url)
    assert "geheim" not in str(refused.value)


def test_without_psycopg_the_extra_is_named(url: str) -> None:
    code = (
        "import sys\nsys.modules['psycopg'] = None\nfrom voxyard.service.documents.store import Store\n"
        "try: Store(sys.argv[1])\nexcept Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=True)
    assert "psycopg is not installed: pip install 'voxyard[postgres]'" in done.stdout


def test_an_unknown_database_ends_the_start_at_once(postgres: PostgresServer) -> None:
    with pytest.raises(StoreError, match=r'cannot open the database none on .*"none" does not exist'):
        PostgresDatabase(postgres.url(database="none"))


def test_a_user_that_may_create_nothing_is_told_so(postgres: PostgresServer) -> None:
    postgres.execute("CREATE ROLE poor LOGIN")
    postgres.execute("GRANT USAGE ON SCHEMA public TO poor")
    with pytest.raises(StoreError, match=r"cannot create tables .*permission denied for schema public; make the user"):
        PostgresDatabase(postgres.url("public").replace("voxyard@", "poor@"))


def test_a_database_of_another_encoding_is_refused(postgres: PostgresServer) -> None:
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0", database="postgres")
    with pytest.raises(StoreError, match="has the encoding LATIN1, expected UTF8: create it with"):
        PostgresDatabase(postgres.url("public", database="latin"))


def test_a_schema_of_a_newer_version_is_refused_and_left_alone(
    store: Store, url: str, postgres: PostgresServer
) -> None:
    store.close()
    schema = url.rpartition("%3D")[2]
    postgres.execute(f"UPDATE {schema}.voxyard SET version = 99")  # noqa: S608
    with pytest.raises(StoreError, match=r"has schema version 99, this voxyard supports up to \d+: it was written by"):
        Store(url)
    assert postgres.execute(f"SELECT version FROM {schema}.voxyard") == [(99,)]  # noqa: S608


@pytest.mark.slow
def test_a_start_waits_for_its_server_and_says_so(own_server: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    url = own_server.url()
    own_server.stop()
    with pytest.raises(
        StoreError, match=r"has not answered for 1 s: .*start PostgreSQL there, or give another --store"
    ):
        PostgresDatabase(url, start_seconds=1.0)
    later = threading.Timer(1.0, own_server.start)
    later.start()
    store = Store(url)
    later.join()
    assert "waiting for the database voxyard on " in caplog.text
    store.close()


def test_a_standby_is_refused(own_server: PostgresServer) -> None:
    url = own_server.url()
    Store(url).close()
    standby = own_server.standby()
    try:
        with pytest.raises(StoreError, match="is a read-only standby: give the address of the primary"):
            Store(
                url.replace(f":{own_server.port}/", f":{standby.port}/").replace(
                    own_server.folder.name, standby.folder.name
                )
            )
    finally:
        standby.close()


def test_a_primary_that_becomes_a_standby_is_unavailable_for_writes_alone(own_server: PostgresServer) -> None:
    standby = own_server.standby()
    url = own_server.url()
    try:
        either = url.replace(f":{own_server.port}/", f",{quote(str(standby.folder), safe='')}/") + (
            f"&port={own_server.port},{standby.port}"
        )
        store, new = Store(either), new_document(1)
        store.accept(new)

        def is_copied() -> bool:
            """Return whether the standby has the document; before, not even its schema has to be there."""
            try:
                return bool(standby.execute(f"SELECT id FROM {url.rpartition('%3D')[2]}.documents"))  # noqa: S608
            except psycopg.errors.UndefinedTable:
                return False

        eventually(is_copied, "it is copied")
        own_server.stop()

        def unavailable() -> bool:
            with pytest.raises(StoreUnavailableError) as refused:
                store.accept(new_document(2))
            return "is a read-only standby now, and has to become the primary" in str(refused.value)

        eventually(unavailable, "it is told from a server that does not answer")
        assert [each.id for each in store.documents()] == [new.id]
        assert store.claims.take() is None
        store.close()
    finally:
        standby.close()


def test_a_connection_lost_in_a_transaction_leaves_nothing_and_the_next_one_works(
    store: Store, postgres: PostgresServer
) -> None:
    def cut() -> None:
        with store._database.write() as connection:
            connection.execute("UPDATE voxyard SET version = 700")
            row = connection.execute("SELECT pg_backend_pid() AS pid").fetchone()
            assert row is not None
            postgres.execute(f"SELECT pg_terminate_backend({row['pid']})")
            connection.execute("SELECT 1")

    with pytest.raises(StoreUnavailableError, match="does not answer: retry in 5 s") as lost:
        cut()
    assert (lost.value.status, lost.value.retry_after, lost.value.exit_code) == (503, 5.0, 1)
    with store._database.read() as connection:
        assert connection.execute("SELECT * FROM voxyard WHERE version = 700").fetchall() == []


CHANGES = ["ALTER TABLE {table} ADD COLUMN later TEXT", "ALTER TABLE {table} ALTER COLUMN {column} TYPE VARCHAR"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_newer_release_changes_the_tables_of_one_that_runs(
    change: str, store: Store, url: str, postgres: PostgresServer
) -> None:
    """Statements that were repeated may have a plan of before: `cached plan must not change result type`."""
    new = new_document(1, 3, webhook="http://h/", idempotency_key="k", fingerprint="f")

    def everything() -> tuple[object, ...]:
        assert store.accept(new)[1] is False
        return (
            store.document(new.id), store.documents(), store.unfinished(), store.text(new.id), store.spoken(new.id),
            store.chunks(new.id), store.changed_chunks(new.id, -1), store.chunks_from(new.id, 1, 2),
            store.snapshot(new.id), store.chapters(new.id), store.cover(new.id), store.redos(new.id),
            store.queue_loads(), store.counts(), store.audio_bytes(), store.upload_bytes(), store.expired(0.0),
            store.webhooks.pending(0.0), store.shelf(),
        )  # fmt: skip

    store.accept(new)
    before = [everything() for _ in range(7)][-1]  # psycopg prepares what comes for the sixth time
    schema = url.rpartition("%3D")[2]
    columns = {"documents": "title", "chunks": "ending", "texts": "text", "uploads": "name", "hooks": "event"}
    for table, column in columns.items():
        postgres.execute(change.format(table=f"{schema}.{table}", column=column))
    assert everything() == before


def test_a_server_that_is_away_is_unavailable_until_it_is_back(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxyard.service.documents.postgres._ANSWER_SECONDS", 1.0)
    store, new = Store(own_server.url()), new_document(1)
    store.accept(new)
    own_server.stop()
    for act in (store.documents, lambda: store.accept(new_document(2))):
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            act()
    own_server.start()
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            assert [document.id for document in store.documents()] == [new.id]
            break
        except StoreUnavailableError:
            assert time.monotonic() < deadline
    store.close()


@pytest.mark.slow
def test_a_full_disk_of_the_server_is_no_room_and_keeps_what_it_had(own_server: PostgresServer) -> None:
    folder = own_server.folder / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=777", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted, root is needed: {mounted.stderr.strip()}")
    try:
        own_server.owned("small")
        own_server.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        store = Store(own_server.url() + "%20-c%20default_tablespace%3Dsmall")

        def fill() -> None:
            for number in range(2, 5000):
                store.accept(new_document(number, 100))

        store.accept(new_document(1))
        with pytest.raises(NoRoomError, match="the disk of the database is full: delete documents") as full:
            fill()
        assert full.value.status == 507
        documents = store.documents(limit=5000)
        assert documents[-1].id == new_document(1).id
        assert all(len(store.chunks(each.id)) == each.chunks for each in documents[-5:])
        store.close()
    finally:
        own_server.stop()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_text_that_postgresql_cannot_hold_is_a_bad_request(store: Store) -> None:
    with pytest.raises(ServiceError, match=r"the text cannot be stored: .*NUL") as refused:
        store.accept(new_document(1, title="a\0b"))
    assert refused.value.status == 400


def test_two_services_that_start_at_once_make_one_schema(url: str) -> None:
    made: list[PostgresDatabase] = []
    in_threads(lambda _: made.append(PostgresDatabase(url)), 4)
    assert len(made) == 4
    assert len(made[0].conninfo) > 0
    for database in made:
        database.close()


def test_the_same_key_from_many_threads_of_two_services_is_one_document(store: Store, url: str) -> None:
    other = Store(url)
    for key in range(20):
        found: list[tuple[str, bool]] = []

        def send(number: int, key: int = key, found: list[tuple[str, bool]] = found) -> None:
            new = new_document(100 * key + number, idempotency_key=f"{key}", fingerprint="a")
            document, fresh = (store, other)[number % 2].accept(new)
            found.append((document.id, fresh))

        in_threads(send, 8)
        assert len(found) == 8
        assert len({id for id, _ in found}) == 1
        assert sum(fresh for _, fresh in found) == 1
        with pytest.raises(ConflictError):
            other.accept(new_document(99, idempotency_key=f"{key}", fingerprint="b"))
    other.close()


def test_a_key_whose_document_is_deleted_meanwhile_is_a_new_document(store: Store, url: str) -> None:
    other, first = Store(url), new_document(1, idempotency_key="k", fingerprint="a")
    stop, failures = threading.Event(), []

    def delete() -> None:
        while not stop.is_set():
            for document in other.documents():
                other.delete(document.id)

    def send(number: int) -> None:
        try:
            for attempt in range(30):
                store.accept(new_document(2 + number * 100 + attempt, idempotency_key="k", fingerprint="a"))
        except ServiceError as error:
            failures.append(error)

    store.accept(first)
    deleting = threading.Thread(target=delete)
    deleting.start()
    in_threads(send, 4)
    stop.set()
    deleting.join()
    other.close()
    assert failures == []
