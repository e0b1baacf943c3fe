"""Document store, in SQLite and in PostgreSQL: progress, durability, concurrent access."""

from __future__ import annotations

import ast
import contextlib
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from documents import OwningStore, new_document
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voxyard.service.documents import (
    claims,
    database,
    peers,
    postgres,
    queries,
    schema,
)
from voxyard.service.documents import store as store_module
from voxyard.service.documents.database import SqliteDatabase
from voxyard.service.documents.records import QueueLoad, Upload
from voxyard.service.documents.store import Store
from voxyard.service.errors import ClaimLostError, ConflictError, NoRoomError, NotFoundError, ServiceError, StoreError


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Place of a store: each test runs on both databases."""
    if request.param == "sqlite":
        return tmp_path / "store.sqlite"
    url: str = request.getfixturevalue("postgres").url()
    return url


@pytest.fixture
def store(place: Path | str) -> Iterator[Store]:
    made = OwningStore(place)
    yield made
    made.close()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store.sqlite")
    yield made
    made.close()


def sqlite_of(store: Store) -> SqliteDatabase:
    assert isinstance(store._database, SqliteDatabase)
    return store._database


def accept_many(store: Store) -> None:
    for number in range(2, 1000):
        store.accept(new_document(number, 50))


def test_a_document_comes_back_as_it_was_accepted(store: Store) -> None:
    new = new_document(1, 3, owner="ann", language="en", webhook="http://h/")

    document, fresh = store.accept(new)

    assert fresh
    assert document == store.document(new.id) == store.document(new.id, "ann")
    assert (document.state, document.chunks, document.chunks_done, document.characters) == (
        "pending",
        3,
        0,
        len(new.text),
    )
    assert (document.voice, document.seed, document.language, document.webhook) == ("en_1", 1, "en", "http://h/")
    assert store.text(new.id) == new.text
    assert [(each.start, each.end, each.ending, each.estimated_seconds) for each in store.chunks(new.id)] == [
        (each.start, each.end, each.ending, each.estimated_seconds) for each in new.chunks
    ]


def test_a_document_of_another_client_is_not_there(store: Store) -> None:
    new = new_document(1, owner="ann")
    store.accept(new)
    with pytest.raises(NotFoundError, match=f"no document {new.id}"):
        store.document(new.id, "bob")
    with pytest.raises(NotFoundError):
        store.documents("bob", before=new.id)


def test_documents_are_listed_newest_first_in_pages(store: Store) -> None:
    for number in range(7):
        store.accept(new_document(number, owner="ann" if number % 2 else "bob", created=100.0 - number))

    first = store.documents(limit=3)
    rest = store.documents(limit=9, before=first[-1].id)

    assert [int(each.id, 16) for each in (*first, *rest)] == [6, 5, 4, 3, 2, 1, 0]
    assert [int(each.id, 16) for each in store.documents("ann")] == [5, 3, 1]
    assert [int(each.id, 16) for each in store.unfinished()] == list(range(7))


def test_an_idempotency_key_is_a_clients_own(store: Store) -> None:
    store.accept(new_document(1, owner="ann", idempotency_key="k", fingerprint="a"))
    _, fresh = store.accept(new_document(2, owner="bob", idempotency_key="k", fingerprint="b"))
    again, repeated = store.accept(new_document(3, owner="ann", idempotency_key="k", fingerprint="a"))
    assert (fresh, repeated, int(again.id, 16)) == (True, False, 1)
    with pytest.raises(ConflictError, match="or use a new key"):
        store.accept(new_document(3, owner="ann", idempotency_key="k", fingerprint="c"))
    assert len(store.documents()) == 2


def test_the_same_key_from_many_threads_is_one_document(store: Store) -> None:
    found: list[tuple[str, bool]] = []

    def send(number: int) -> None:
        document, fresh = store.accept(new_document(number, idempotency_key="k", fingerprint="a"))
        found.append((document.id, fresh))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({id for id, _ in found}) == 1
    assert sum(fresh for _, fresh in found) == 1


def test_the_sums_of_a_document_follow_its_chunks(store: Store) -> None:
    new = new_document(1, 4)
    store.accept(new)
    store.started(new.id, 10.0)
    store.chunk_spoken(new.id, 0, 24_000, reduced=True)
    store.chunk_spoken(new.id, 1, 12_000, silenced=True, reason="why")
    store.chunk_failed(new.id, 2, "no")
    store.chunk_failed(new.id, 2, "no")
    store.chunk_spoken(new.id, 1, 99)

    document, (first, second, third, last) = store.document(new.id), store.chunks(new.id)
    assert (document.chunks_done, document.chunks_failed, document.audio_seconds, document.reduced) == (3, 1, 1.5, True)
    assert (document.state, document.started) == ("processing", 10.0)
    assert (first.state, first.samples) == ("spoken", 24_000)
    assert (second.state, second.samples, second.reason) == ("silenced", 12_000, "why")
    assert (third.state, third.samples, third.reason) == ("failed", None, "no")
    load = QueueLoad.sum(store.queue_loads().values())
    assert (load.documents, load.chunks) == (1, 1)
    assert load.estimated_seconds == pytest.approx(last.estimated_seconds)

    store.reset_chunks(new.id, [0])
    again = store.document(new.id)
    assert (again.chunks_done, again.chunks_failed, again.audio_seconds) == (2, 1, 0.5)
    assert QueueLoad.sum(store.queue_loads().values()).chunks == 2


def test_an_end_queues_the_webhook_once_and_a_retry_takes_it_back(store: Store) -> None:
    new = new_document(1, 1, webhook="http://h/")
    store.accept(new)
    store.chunk_failed(new.id, 0, "no")
    store.failed(new.id, 20.0, "no")
    store.failed(new.id, 21.0, "again")

    (hook,) = store.webhooks.pending(20.0)
    assert (hook.document, hook.url, hook.event, hook.tries) == (new.id, "http://h/", "document.failed", 0)
    assert store.webhooks.pending(19.0) == ()
    store.webhooks.tried(hook.id, 22.0, 30.0, "refused")
    assert store.webhooks.pending(29.0) == ()
    assert [(each.tries, each.error) for each in store.webhooks.pending(30.0)] == [(1, "refused")]

    again = store.retry(new.id)
    assert (again.chunks_done, again.chunks_failed, QueueLoad.sum(store.queue_loads().values()).chunks) == (0, 0, 1)
    assert store.webhooks.pending(99.0) == ()
    store.chunk_spoken(new.id, 0, 1)
    store.completed(new.id, 40.0)
    (hook,) = store.webhooks.pending(99.0)
    assert hook.event == "document.completed"
    store.webhooks.done(hook.id)
    assert store.webhooks.pending(99.0) == ()


def test_a_keys_many_webhooks_keep_no_other_keys_waiting(store: Store) -> None:
    """Receivers of one key may hang: the others have their turn with the next few."""
    for number in range(20):
        owner = "bob" if number == 19 else "ann"
        new = replace(new_document(number, owner=owner), webhook="http://127.0.0.1:1/")
        store.accept(new)
        store.failed(new.id, float(number), "it cannot be spoken")
    assert store.webhooks.pending(100.0, 2)[1].document == new_document(19).id


def test_a_webhook_that_is_given_up_is_gone(store: Store) -> None:
    new = new_document(1, 1, webhook="http://h/")
    store.accept(new)
    store.completed(new.id, 1.0)
    (hook,) = store.webhooks.pending(1.0)
    store.webhooks.tried(hook.id, 2.0, None, "never")
    assert store.webhooks.pending(9.0) == ()


def test_a_deleted_document_takes_everything_with_it(store: Store) -> None:
    new = new_document(1, webhook="http://h/")
    store.accept(new)
    store.completed(new.id, 1.0)

    store.delete(new.id)

    for method in (store.document, store.text, store.chunks, store.delete):
        with pytest.raises(NotFoundError):
            method(new.id)
    with store._database.read() as connection:
        for table in ("documents", "texts", "chunks", "hooks"):
            assert connection.execute(f"SELECT * FROM {table}").fetchall() == []  # noqa: S608


def test_only_finished_documents_expire(store: Store) -> None:
    for number in range(4):
        store.accept(new_document(number, created=1.0))
    store.completed(f"{0:032x}", 10.0)
    store.failed(f"{1:032x}", 11.0, "why")
    store.completed(f"{2:032x}", 20.0)
    assert store.expired(15.0) == (f"{0:032x}", f"{1:032x}")
    assert store.counts() == {"pending": 1, "processing": 0, "completed": 2, "failed": 1}


def test_a_parked_document_says_why_until_it_goes_on(store: Store) -> None:
    new = new_document(1)
    store.accept(new)
    store.parked(new.id, "the disk is full")
    assert store.document(new.id).parked == "the disk is full"
    store.started(new.id, 2.0)
    assert store.document(new.id).parked is None
    store.completed(new.id, 3.0)
    store.parked(new.id, "too late")
    assert store.document(new.id).parked is None


def test_everything_is_there_after_a_restart(store: Store, place: Path | str) -> None:
    new = new_document(1, 2)
    store.accept(new)
    store.chunk_spoken(new.id, 1, 7)
    before = store.document(new.id), store.chunks(new.id)
    store.close()

    again = Store(place)

    assert (again.document(new.id), again.chunks(new.id)) == before
    again.close()


def test_a_second_service_on_the_same_data_is_refused(sqlite_store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="in use by another voxyard service") as refused:
        Store(tmp_path / "store.sqlite")
    assert refused.value.exit_code == 1
    code = (
        "import sys\nfrom pathlib import Path\nfrom voxyard.service.documents.store import Store\n"
        "try: Store(Path(sys.argv[1]))\nexcept Exception as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store.sqlite")], capture_output=True, text=True, check=True
    )
    assert "in use by another voxyard service: stop that one, or use another data directory" in done.stdout


def test_a_store_of_a_newer_version_is_refused_and_left_alone(sqlite_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    sqlite_store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    for _ in range(2):  # the refusal gives the lock back
        with pytest.raises(
            StoreError,
            match=rf"has schema version 99, this voxyard supports up to {len(schema.MIGRATIONS)}: it was written",
        ):
            Store(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError, match="is not a voxyard database"):
        Store(path)
    assert path.read_bytes().startswith(b"not a database")


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot use the data directory .*file"):
        Store(tmp_path / "file" / "store.sqlite")


@pytest.mark.parametrize("again", [False, True], ids=["gone", "replaced"])
def test_a_database_that_goes_while_the_service_runs_takes_nothing_more(
    sqlite_store: Store, tmp_path: Path, again: bool
) -> None:
    (tmp_path / "store.sqlite").unlink()
    if again:
        (tmp_path / "store.sqlite").write_bytes(b"")
    for act in (lambda: sqlite_store.accept(new_document(1)), sqlite_store.documents):
        with pytest.raises(StoreError, match="removed or replaced while the service runs"):
            act()


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.documents()


def test_a_database_without_room_is_no_room_and_keeps_what_it_had(sqlite_store: Store) -> None:
    kept = new_document(1)
    sqlite_store.accept(kept)
    with sqlite_of(sqlite_store).write() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")

    with pytest.raises(NoRoomError, match="is full: delete documents, or free space"):
        accept_many(sqlite_store)

    taken = sqlite_store.documents(limit=1000)
    assert all(len(sqlite_store.chunks(document.id)) == document.chunks for document in taken)
    sqlite_store.delete(kept.id)
    with sqlite_of(sqlite_store).read() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@pytest.mark.parametrize("reading", [False, True], ids=["", "while somebody reads"])
def test_the_file_shrinks_once_large_uploads_are_gone(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch, reading: bool
) -> None:
    monkeypatch.setattr("voxyard.service.documents.database.SHRINK_BYTES", 1 << 20)
    database = sqlite_of(sqlite_store)
    kept = new_document(9)
    sqlite_store.accept(kept)
    for number in range(3):
        upload = Upload("a.epub", "", False, bytes(1 << 20), None)
        sqlite_store.accept(replace(new_document(number), upload=upload))
    sqlite_store.shrink()
    large = database.path.stat().st_size
    for number in range(3):
        sqlite_store.delete(new_document(number).id)
    with contextlib.ExitStack() as readers:
        if reading:
            readers.enter_context(database.read()).execute("SELECT count(*) FROM documents").fetchone()
        sqlite_store.shrink()
    sqlite_store.shrink()
    assert database.path.stat().st_size < large / 4
    assert database.path.with_name(f"{database.path.name}-wal").stat().st_size == 0
    assert [each.id for each in sqlite_store.documents()] == [kept.id]


def test_it_is_written_so_that_a_power_cut_takes_nothing(sqlite_store: Store) -> None:
    with sqlite_of(sqlite_store).write() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1


def test_readers_do_not_wait_for_a_writer_and_cannot_write(store: Store) -> None:
    store.accept(new_document(1))
    with store._database.write() as connection:
        connection.execute("DELETE FROM documents")
        assert len(store.documents()) == 1
    assert store.documents() == ()
    with pytest.raises(ServiceError, match=r"read-?only"), store._database.read() as connection:
        connection.execute("DELETE FROM documents")


def test_a_failure_inside_a_transaction_leaves_nothing(store: Store) -> None:
    new = new_document(1)
    store.accept(new)

    def half() -> None:
        with store._database.write() as connection:
            connection.execute("DELETE FROM texts")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert store.text(new.id) == new.text


def test_no_statement_is_put_together_from_strings() -> None:
    for module in (store_module, queries, database, claims, peers, postgres, schema):
        tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("execute", "executemany"):
                assert isinstance(node.args[0], ast.Constant | ast.Name), f"{module.__name__}:{node.lineno}"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["spoken", "silenced", "failed", "respeak", "retry", "end"]), st.integers(0, 4)),
        max_size=30,
    )
)
def test_the_sums_are_right_whatever_happens(store: Store, steps: list[tuple[str, int]]) -> None:
    new = new_document(1, 5)
    store.accept(new)
    for step, index in steps:
        match step:
            case "spoken" | "silenced":
                store.chunk_spoken(new.id, index, 100 + index, silenced=step == "silenced")
            case "failed":
                store.chunk_failed(new.id, index, "no")
            case "respeak":
                store.reset_chunks(new.id, [index])
            case "end":
                store.failed(new.id, 1.0, "no")
            case "retry":
                if store.document(new.id).state == "failed":
                    store.retry(new.id)
    document, chunks = store.document(new.id), store.chunks(new.id)
    ended = [chunk for chunk in chunks if chunk.state != "waiting"]
    assert document.chunks_done == len(ended)
    assert document.chunks_failed == sum(chunk.state == "failed" for chunk in chunks)
    assert document.audio_seconds == sum(chunk.samples or 0 for chunk in chunks) / 24_000
    if document.state != "failed":
        waiting = sum(chunk.estimated_seconds for chunk in chunks if chunk.state == "waiting")
        load = QueueLoad.sum(store.queue_loads().values())
        assert (load.documents, load.chunks) == (1, 5 - len(ended))
        assert load.estimated_seconds == pytest.approx(waiting, abs=1e-9)
    store.delete(new.id)


def test_the_chunks_that_have_changed_are_found_and_no_others(store: Store) -> None:
    new = new_document(1, chunks=6)
    store.accept(new)
    store.chunk_spoken(new.id, 4, 24)
    before, _ = store.changed_chunks(new.id, 0)
    store.chunk_failed(new.id, 1, "no")
    store.chunk_spoken(new.id, 5, 48)

    document, changed = store.changed_chunks(new.id, before.changes)

    assert [(chunk.index, chunk.state) for chunk in changed] == [(1, "failed"), (5, "spoken")]
    assert (document.changes, document.resets) == (before.changes + 2, 0)
    assert store.changed_chunks(new.id, document.changes)[1] == ()


def test_chunks_that_are_reset_have_changed(store: Store) -> None:
    new = new_document(1, chunks=3)
    store.accept(new)
    for index in range(3):
        store.chunk_spoken(new.id, index, 24)
    before = store.document(new.id)

    store.reset_chunks(new.id, [1])

    document, changed = store.changed_chunks(new.id, before.changes)
    assert [(chunk.index, chunk.state) for chunk in changed] == [(1, "waiting")]
    assert (document.resets, document.chunks_done) == (1, 2)


def test_chunks_are_read_from_an_index_on(store: Store) -> None:
    new = new_document(1, chunks=9)
    store.accept(new)
    assert [chunk.index for chunk in store.chunks_from(new.id, 3, 4)] == [3, 4, 5, 6]
    assert store.chunks_from(new.id, 9, 4) == ()


def test_a_store_of_an_older_version_is_migrated_with_its_documents(
    place: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = new_document(1)
    with contextlib.closing(Store(place)) as store:
        store.accept(new)
    step = ("ALTER TABLE documents ADD COLUMN mood DOUBLE PRECISION NOT NULL DEFAULT 0.5",)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    for _ in range(2):
        with contextlib.closing(Store(place)) as store:
            assert store.document(new.id).title == new.title
            with store._database.read() as connection:
                assert [row["mood"] for row in connection.execute("SELECT mood FROM documents")] == [0.5]


def test_the_author_of_a_document_is_kept_and_one_that_its_file_names_comes_with_its_text(store: Store) -> None:
    given, read = new_document(1, author="Ann Ode"), new_document(2)
    store.accept(given)
    store.accept(replace(read, text="", chunks=(), upload=Upload("a.epub", "", False, b"x")))
    assert (store.document(given.id).author, store.document(read.id).author) == ("Ann Ode", None)
    store.claims.take("extracting")
    store.extracted(read.id, replace(read, author="Bo Ek"))
    assert store.document(read.id).author == "Bo Ek"


def test_progress_is_stored_for_the_claim_alone_that_a_service_has(store: Store) -> None:
    new = new_document(1)
    store.accept(new)
    store.claims.release(new.id)
    with pytest.raises(ClaimLostError, match="was taken over"):
        store.started(new.id, 1.0)
    store.claims.look_again()
    assert store.claims.take() == new.id
    store.claims.look_again()
    assert store.claims.take() is None
    store.started(new.id, 1.0)
    store.failed(new.id, 2.0, "no")
    with pytest.raises(NotFoundError):
        store.started("f" * 32, 1.0)


def test_a_full_disk_or_a_lost_store_ends_no_look_for_documents(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    new = new_document(1)
    store.accept(new)
    store.claims.release(new.id)
    store.claims.look_again()
    with monkeypatch.context() as patch:

        def full() -> None:
            raise NoRoomError("the disk is full")

        patch.setattr(store._database, "write", full)
        assert store.claims.take() is None
    assert "no document can be begun: the disk is full" in caplog.text
    store.claims.look_again()
    assert store.claims.take() == new.id
