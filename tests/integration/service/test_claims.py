"""Several services on one PostgreSQL: claims with a fence, messages between them, webhooks taken once."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from documents import ThreadPool, audio_of, new_document, no_upload
from eventually import PATIENCE, eventually
from postgres_server import PostgresServer, running_server

from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import AudioStore
from voxyard.service.config import ServiceSection
from voxyard.service.dispatch import dispatcher
from voxyard.service.documents.claims import RELEASE, Claims
from voxyard.service.documents.peers import Peers
from voxyard.service.documents.queue import DocumentQueue
from voxyard.service.documents.records import Document, NewDocument, Redo
from voxyard.service.documents.store import Store
from voxyard.service.errors import ClaimLostError, NotFoundError, StoreUnavailableError
from voxyard.speech.audio.joining import Pauses

CLAIM_SECONDS = 1.5  # until another service takes over, where a test waits for that
KEPT_SECONDS = 15.0  # where a claim or a listener has to be kept: a busy machine renews late


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.url()


@pytest.fixture
def stores(url: str) -> Iterator[tuple[Store, Store]]:
    made = Store(url, service="one"), Store(url, service="two")
    yield made
    for each in made:
        each.close()


def claims_of(store: Store) -> Claims:
    return store.claims


def take_all(store: Store) -> list[str]:
    store.claims.look_again()
    found = []
    while (id := store.claims.take()) is not None:
        found.append(id)
    return found


def run_out(store: Store) -> None:
    """Ends the life of all claims."""
    with store._database.write() as connection:
        connection.execute("UPDATE documents SET claim_until = now() - make_interval(secs => 1)")


def test_each_document_is_claimed_by_one_service_oldest_first(stores: tuple[Store, Store]) -> None:
    ids = [new_document(number).id for number in range(40)]
    for number in range(40):
        stores[0].accept(new_document(number))
    taken: list[list[str]] = [[], []]

    def take(service: int) -> None:
        while (id := stores[service].claims.take()) is not None:
            taken[service].append(id)

    threads = [threading.Thread(target=take, args=(service,)) for service in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(taken[0] + taken[1]) == ids
    assert all(each == sorted(each) for each in taken)
    assert claims_of(stores[0]).held() == tuple(taken[0])
    assert take_all(stores[0]) == take_all(stores[1]) == []


def test_a_stale_owner_writes_nothing(stores: tuple[Store, Store]) -> None:
    stale, owner = stores
    new = new_document(1, 3, webhook="http://h/")
    stale.accept(new)
    assert take_all(stale) == [new.id]
    stale.started(new.id, 1.0)
    stale.chunk_spoken(new.id, 0, 24_000)
    run_out(stale)
    stale.chunk_spoken(new.id, 1, 24_000)  # nobody has taken the document over yet
    assert take_all(owner) == [new.id]
    before = owner.document(new.id), owner.chunks(new.id)

    for write in (
        lambda: stale.started(new.id, 2.0),
        lambda: stale.chunk_spoken(new.id, 2, 24_000),
        lambda: stale.chunk_failed(new.id, 2, "no"),
        lambda: stale.reset_chunks(new.id, [0]),
        lambda: stale.parked(new.id, "no"),
        lambda: stale.redo_ended(new.id, 0, Redo(1, None), 5, None),
        lambda: stale.redone(new.id, {}),
        lambda: stale.completed(new.id, 2.0),
        lambda: stale.failed(new.id, 2.0, "no"),
    ):
        with pytest.raises(ClaimLostError, match="was taken over by another service"):
            write()

    assert (owner.document(new.id), owner.chunks(new.id)) == before
    assert owner.webhooks.pending(1e12) == ()
    owner.chunk_spoken(new.id, 2, 24_000)
    owner.completed(new.id, 3.0)
    assert owner.document(new.id).state == "completed"


def test_who_takes_a_document_over_says_so(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with closing(Store(url, service="gpu-01:1")) as frozen, closing(Store(url, service="gpu-02:1")) as other:
        is_told(frozen, other, caplog)


def is_told(frozen: Store, other: Store, caplog: pytest.LogCaptureFixture) -> None:
    taken, given_back = new_document(1), new_document(2)
    frozen.accept(taken)
    frozen.accept(given_back)
    assert take_all(frozen) == [taken.id, given_back.id]
    frozen.claims.release(given_back.id)
    with frozen._database.write() as connection:  # a minute ago
        connection.execute("UPDATE documents SET claim_until = now() - make_interval(secs => 60) WHERE claim > 0")
        connection.execute("UPDATE documents SET claim_until = NULL WHERE claimed_by IS NULL")
    assert take_all(other) == [taken.id, given_back.id]
    (line,) = [each.getMessage() for each in caplog.records if "taken over" in each.getMessage()]
    found = re.fullmatch(rf"document {taken.id} is taken over from gpu-01, silent for ([0-9.]+) s", line)
    assert found is not None
    assert float(found[1]) > 60


def test_a_takeover_waits_for_the_write_that_has_begun(stores: tuple[Store, Store]) -> None:
    """The fence locks the document: a claim cannot come between the check and the commit."""
    stale, owner = stores
    new = new_document(1)
    stale.accept(new)
    take_all(stale)
    run_out(stale)
    with stale._progress(new.id):
        assert take_all(owner) == []
    assert take_all(owner) == [new.id]


@pytest.mark.parametrize("sql", [RELEASE, "INSERT INTO usage VALUES ($1, $2, 1, 1, 1)"])
def test_the_server_may_end_a_service_that_stands_still_between_two_rows(
    sql: str, stores: tuple[Store, Store], postgres: PostgresServer
) -> None:
    def of_the_service() -> list[str]:
        asked = "SELECT state FROM pg_stat_activity WHERE application_name = 'voxyard' AND xact_start IS NOT NULL"
        return [str(state) for (state,) in postgres.execute(asked)]

    def rows() -> Iterator[tuple[str, int | str]]:
        for number in range(250):
            yield f"day {number}", 1 if sql == RELEASE else "a key"
        # Of one that is active it waits for more, for as long as that takes.
        eventually(lambda: of_the_service() == ["idle in transaction"], of_the_service, 20)

    with stores[0]._database.write() as connection:
        connection.executemany(sql, rows())


def test_claims_that_are_renewed_live_and_those_that_are_lost_are_named(stores: tuple[Store, Store]) -> None:
    first, second = stores
    for number in range(3):
        first.accept(new_document(number))
    kept, lost, deleted = take_all(first)
    assert claims_of(first).renew() == ()
    run_out(first)
    assert take_all(first) == []  # a busy machine renews late: what it works on it does not claim anew
    assert claims_of(first).renew() == ()  # nobody has taken them over
    assert take_all(second) == []
    with first._database.write() as connection:
        connection.execute("UPDATE documents SET claim_until = NULL WHERE id = $1", (lost,))
    assert take_all(second) == [lost]
    second.delete(deleted)

    assert set(claims_of(first).renew()) == {lost, deleted}

    assert claims_of(first).held() == (kept,)
    assert [first.claims.owns(id) for id in (kept, lost)] == [True, False]


def test_documents_that_are_given_back_are_another_services_at_once(stores: tuple[Store, Store]) -> None:
    first, second = stores
    for number in range(2):
        first.accept(new_document(number))
    kept, given = take_all(first)
    first.claims.release(given, "f" * 32)
    assert take_all(second) == [given]
    assert claims_of(first).held() == (kept,)


def test_a_failed_document_that_is_retried_can_be_claimed_at_once(stores: tuple[Store, Store]) -> None:
    first, second = stores
    new = new_document(1, 1)
    first.accept(new)
    take_all(first)
    first.chunk_failed(new.id, 0, "no")
    first.failed(new.id, 1.0, "no")
    second.retry(new.id)
    assert take_all(second) == [new.id]


def test_the_hosts_clocks_do_not_matter_to_claims(stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = stores
    first.accept(new_document(1))
    take_all(first)
    now = time.time()
    for ahead in (1e6, -1e6):
        monkeypatch.setattr(time, "time", lambda ahead=ahead: now + ahead)
        assert take_all(second) == []
        assert claims_of(first).renew() == ()


def test_services_of_one_name_are_told_apart(url: str) -> None:
    made = Store(url, service="one:1"), Store(url, service="one:1")
    new = new_document(1)
    made[0].accept(new)
    assert [take_all(each) for each in made] == [[new.id], []]
    with pytest.raises(ClaimLostError):
        made[1].started(new.id, 1.0)
    made[0].started(new.id, 1.0)
    for each in made:
        each.close()


def test_each_webhook_is_taken_by_one_service_until_its_time_is_over(stores: tuple[Store, Store]) -> None:
    for number in range(20):
        new = new_document(number, webhook=f"http://h/{number}")
        stores[0].accept(new)
        take_all(stores[0])
        stores[0].completed(new.id, 100.0)
    taken: list[list[int]] = [[], []]

    def take(service: int, now: float = 100.0) -> list[int]:
        hooks = stores[service].webhooks
        taken[service].extend(hook.id for hook in hooks.pending(now) if hooks.take(hook))
        return taken[service]

    threads = [threading.Thread(target=take, args=(service,)) for service in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(taken[0] + taken[1]) == len(set(taken[0] + taken[1])) == 20
    assert stores[0].webhooks.pending(100.0 + 3600.0) == (), "a clock that is ahead takes none from the others"
    with stores[0]._database.write() as connection:  # their services were killed
        connection.execute("UPDATE hooks SET taken_until = clock_timestamp() - make_interval(secs => 1)")
    again = stores[1].webhooks.pending(100.0)
    assert [stores[1].webhooks.take(hook) for hook in again] == [True] * 20
    assert not stores[0].webhooks.take(again[0]), "it was looked up before the other took it"
    stores[1].webhooks.done(again[0].id)
    assert again[0].id not in {hook.id for hook in stores[0].webhooks.pending(1e12)}
    stores[1].webhooks.tried(again[1].id, 100.0, 110.0, "refused")
    assert stores[0].webhooks.pending(109.0) == ()
    assert not stores[0].webhooks.take(again[1]), "it was looked up before the other tried it"
    taken[0].clear()
    assert take(0, 110.0) == [again[1].id], "its next attempt is anybody's"


def answers(store: Store) -> bool:
    try:
        store.counts()
    except StoreUnavailableError:
        return False
    return True


class Service:
    """A service without HTTP and with a pool of one thread; its audio is shared."""

    def __init__(
        self, folder: Path, url: str, name: str, *, claim_seconds: float = CLAIM_SECONDS, **settings: Any
    ) -> None:
        self.section = ServiceSection(claim_seconds=claim_seconds, **settings)
        self.store = Store(url, service=name, claim_seconds=claim_seconds)
        self.folder, files = folder, AudioFolder(folder, shared=True)
        self.audio_store = AudioStore(files, quota=10**9, shared_usage=self.store.audio_bytes)
        self.pool = ThreadPool()
        self.changed: list[str] = []
        self.deleted: list[str] = []
        self.missed = threading.Event()
        self.queue = DocumentQueue(
            self.store, self.audio_store, self.pool, self.section, Pauses(), self.changed.append, self.deleted.append,
            read_upload=no_upload, poll_seconds=0.2,
        )  # fmt: skip
        assert self.store.postgres is not None
        self.peers = Peers(self.store.postgres, self.store.claims, self.queue, self.missed.set)
        self.queue.start()
        self.peers.start()
        eventually(self.missed.is_set, f"{name} listens")

    def stop(self) -> None:
        self.pool.going.set()
        self.queue.close()
        self.peers.close()
        self.pool.close()
        self.store.close()

    def spoken(self) -> list[int]:
        """Numbers of the documents that its pool got."""
        return [requests[0].seed for requests in self.pool.submitted]

    def audio(self, new: NewDocument) -> bytes:
        """The joined audio of a document."""
        return b"".join(self.audio_store.stream(new.id, "audio.wav", 0, self.audio_store.wav_size(new.id)))

    def names(self, new: NewDocument) -> list[str]:
        """Names of a document's audio files."""
        return [path.name for path in (self.folder / new.id).iterdir()]

    def ended(self, new: NewDocument) -> Document:
        def document() -> Document | None:
            with suppress(StoreUnavailableError):  # it has just come back, and a busy machine answers late
                found = self.store.document(new.id)
                return found if found.state in ("completed", "failed") else None
            return None

        return eventually(document, f"{new.id} has ended")


Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path, url: str) -> Iterator[Start]:
    made: list[Service] = []

    def make(name: str, place: str = url, **settings: Any) -> Service:
        made.append(Service(tmp_path / "audio", place, name, **settings))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def held(service: Service) -> Service:
    """A service whose workers answer nothing until `going` is set."""
    service.pool.going.clear()
    return service


def test_two_services_speak_the_documents_that_one_has_accepted(start: Start) -> None:
    one, two = held(start("one", active_documents=1)), held(start("two", active_documents=1))
    news = [new_document(number, 6) for number in range(30)]
    for new in news:
        one.queue.accept(new)
    eventually(lambda: one.spoken() and two.spoken(), "each of them has a document")
    for each in (one, two):
        each.pool.going.set()
    for new in news:
        assert two.ended(new).state == "completed"
        assert two.audio(new) == one.audio(new)
    assert {*one.spoken(), *two.spoken()} == set(range(30))


def test_a_service_claims_no_more_than_its_workers_begin_soon(start: Start) -> None:
    one, news = held(start("one")), [new_document(number, 3) for number in range(6)]
    one.pool.rows = 2
    for new in news:
        one.queue.accept(new)
    eventually(lambda: len(one.spoken()) == 2, "one has as much as its workers speak now and next")
    two = start("two")
    for new in news[2:]:
        assert two.ended(new).state == "completed"
    one.pool.going.set()
    for new in news:
        assert one.ended(new).state == "completed"
    assert one.spoken() == [0, 1]


def test_a_service_without_workers_leaves_documents_to_the_others(start: Start) -> None:
    one, new = held(start("one")), new_document(1)
    one.queue.accept(new)
    eventually(lambda: one.spoken() == [1], "one has the document")
    one.pool.waiting = "GPU 0 is used by another program"
    two = start("two")
    assert two.ended(new).state == "completed"
    assert two.spoken() == [1]
    assert one.pool.cancelled == {0}
    later = new_document(2)
    one.queue.accept(later)
    assert two.ended(later).state == "completed"
    assert one.spoken() == [1]


def test_a_service_whose_pool_has_ended_gives_its_documents_away(start: Start) -> None:
    one, new = held(start("one")), new_document(1)
    one.queue.accept(new)
    eventually(lambda: one.spoken() == [1], "one has the document")
    two = start("two")
    one.pool.end("the pool broke down")
    assert two.ended(new).state == "completed"
    assert one.queue.problem is not None


def test_a_service_that_ends_gives_its_documents_back(start: Start) -> None:
    one, news = held(start("one")), [new_document(number) for number in range(3)]
    for new in news:
        one.queue.accept(new)
    eventually(lambda: len(one.spoken()) == 3, "one has the documents")
    two = start("two")
    one.queue.close()
    with two.store._database.read() as connection:
        assert not connection.execute("SELECT id FROM documents WHERE claimed_by LIKE 'one%'").fetchall()
    for new in news:
        assert two.ended(new).state == "completed"


def test_a_service_that_is_gone_is_followed_by_another_which_keeps_what_was_spoken(start: Start) -> None:
    one, new = held(start("one")), new_document(1, 6)
    one.queue.accept(new)
    eventually(lambda: one.spoken() == [1], "one has the document")
    for index in (0, 3):
        one.store.chunk_spoken(new.id, index, one.audio_store.put(new.id, index, audio_of(new, index)))
    one.peers.close()  # nobody renews
    two = start("two")

    assert two.ended(new).state == "completed"

    assert [request.chunk for request in two.pool.submitted[0]] == [1, 2, 4, 5]
    one.pool.going.set()  # it wakes up, and its chunks come too late
    eventually(lambda: not one.store.claims.owns(new.id), "one knows that it lost the document")
    eventually(lambda: 0 in one.pool.cancelled, "one has withdrawn the document")
    one.queue.close()
    eventually(lambda: one.names(new) == ["audio.wav"], "two has deleted the chunks' files")
    assert one.store.document(new.id) == two.store.document(new.id)


def test_a_service_that_makes_audio_anew_too_late_replaces_none_of_the_one_that_follows(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "STALE_SECONDS", 0.0)
    one, new = start("one"), new_document(1)
    one.queue.accept(new)
    one.ended(new)
    begun, going, rebuild = threading.Event(), threading.Event(), one.audio_store.rebuild

    def late(*given: Any) -> None:
        begun.set()
        assert going.wait(PATIENCE)
        rebuild(*given)

    monkeypatch.setattr(one.audio_store, "rebuild", late)
    one.queue.redo(new.id, 1, None, 50)
    assert begun.wait(PATIENCE)
    one.peers.close()  # nobody renews
    two = start("two")
    eventually(lambda: two.store.document(new.id).revision == 1, "two follows")
    assert two.pool.submitted == []  # what one has spoken is kept
    (name,) = (f"audio.{two.store.document(new.id).audio}.wav",)
    made = (two.folder / new.id / name).read_bytes()
    two.queue.redo(new.id, 1, None, 51)
    eventually(lambda: two.store.document(new.id).revision == 2, "the chunk is spoken by two")
    going.set()
    (name,) = (f"audio.{two.store.document(new.id).audio}.wav",)
    eventually(lambda: not one.store.claims.owns(new.id), "one knows that it is late")
    eventually(lambda: two.names(new) == [name], "nothing is left of what is not served")
    assert (two.folder / new.id / name).read_bytes() != made
    assert [two.store.document(new.id).revision, two.store.chunks(new.id)[1].seed] == [2, 51]


def test_audio_made_anew_under_an_earlier_claim_is_not_taken_for_that_of_the_next(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another service had the document, and gave it back before this one knew, while a thread made the audio anew."""
    one, new = start("one", claim_seconds=KEPT_SECONDS), new_document(1)
    one.queue.accept(new)
    one.ended(new)
    rebuild, made_under = one.audio_store.rebuild, list[int]()

    def late(*given: Any) -> None:
        made_under.append(given[5])
        rebuild(*given)
        if len(made_under) == 1:
            with one.store._database.write() as connection:
                connection.execute("UPDATE documents SET claim = claim + 1, claimed_by = NULL, claim_until = NULL")
            eventually(lambda: one.store.claims.number(new.id) > made_under[0], "it is claimed again")

    monkeypatch.setattr(one.audio_store, "rebuild", late)
    one.queue.redo(new.id, 1, None, 50)
    eventually(lambda: one.store.document(new.id).revision == 1, "the chunk is spoken again")
    served = one.store.document(new.id).audio
    assert one.audio_store.size(new.id, f"audio.{served}.wav") is not None
    assert made_under[-1] == served
    assert [requests[0].seed for requests in one.pool.submitted] == [1, 50]


def test_audio_that_another_service_may_be_reading_outlives_the_service_that_made_it_anew(start: Start) -> None:
    one, new = start("one"), new_document(1)
    one.queue.accept(new)
    one.ended(new)
    eventually(lambda: one.names(new) == ["audio.wav"], "its chunks' files are deleted")
    one.queue.redo(new.id, 1, None, 50)
    eventually(lambda: one.store.document(new.id).revision == 1, "the chunk is spoken again")
    eventually(lambda: len(one.names(new)) == 2, "the chunks' files are deleted")
    one.queue.close()
    assert "audio.wav" in one.names(new)


@pytest.mark.slow
def test_a_renewal_keeps_a_document_as_long_as_its_chunks_take(start: Start) -> None:
    one, new = held(start("one", claim_seconds=KEPT_SECONDS)), new_document(1)
    one.queue.accept(new)
    eventually(lambda: one.spoken() == [1], "one has the document")
    two = start("two", claim_seconds=KEPT_SECONDS)
    time.sleep(1.2 * KEPT_SECONDS)
    assert two.spoken() == []
    one.pool.going.set()
    assert two.ended(new).state == "completed"
    assert one.spoken() == [1]


def test_a_claim_that_is_lost_is_withdrawn_from_the_pool_at_the_next_renewal(start: Start) -> None:
    one, new = held(start("one")), new_document(1)
    one.queue.accept(new)
    eventually(lambda: one.spoken() == [1], "one has the document")
    with one.store._database.write() as connection:
        connection.execute("UPDATE documents SET claim = claim + 1, claim_until = now() + make_interval(secs => 3600)")
    eventually(lambda: one.pool.cancelled == {0}, "one has withdrawn the document")


def test_a_deletion_at_one_service_ends_the_work_of_another(start: Start) -> None:
    one, new = held(start("one")), new_document(1)
    one.queue.accept(new)
    eventually(lambda: one.spoken() == [1], "one has the document")
    two = start("two")
    two.queue.cancel(new.id)
    eventually(lambda: one.pool.cancelled == {0}, "one has withdrawn the document")
    eventually(lambda: new.id in one.deleted, "one knows of the deletion")
    assert one.audio_store.ids() == ()
    with pytest.raises(NotFoundError):
        one.store.document(new.id)


def test_changes_and_listeners_of_one_service_are_known_to_the_other(start: Start) -> None:
    one, new = held(start("one")), new_document(1)
    two = held(start("two", active_documents=1))
    two.pool.waiting = "no GPU"
    two.queue.accept(new)
    eventually(lambda: one.spoken() == [1], "one has the document")
    two.queue.listen(new.id, True)
    two.queue.listen(new.id, True)
    eventually(lambda: one.pool.listening == [(0, True)], "one knows of the listener")
    one.queue.listen(new.id, True)
    two.queue.listen(new.id, False)
    two.queue.listen(new.id, False)
    one.queue.listen(new.id, False)
    eventually(lambda: one.pool.listening == [(0, True), (0, False)], "one knows that nobody listens")
    two.changed.clear()
    one.pool.going.set()
    eventually(lambda: two.changed.count(new.id) >= 4, "two knows of the chunks and the end")


@pytest.mark.slow
def test_a_listener_that_dies_with_its_service_is_forgotten(start: Start) -> None:
    one, two = (held(start(name, claim_seconds=KEPT_SECONDS)) for name in ("one", "two"))
    new = new_document(1)
    two.pool.waiting = "no GPU"
    one.queue.accept(new)
    eventually(lambda: one.spoken() == [1], "one has the document")
    two.queue.listen(new.id, True)
    eventually(lambda: one.pool.listening == [(0, True)], "one knows of the listener")
    time.sleep(1.2 * KEPT_SECONDS)
    assert one.pool.listening == [(0, True)]  # it still listens
    two.peers.close()  # it is gone, and says nothing any more
    eventually(lambda: one.pool.listening == [(0, True), (0, False)], "one has forgotten the listener")


@pytest.mark.slow
def test_a_listener_at_one_service_does_not_end_that_of_another(start: Start) -> None:
    one, two, three = (held(start(name, claim_seconds=KEPT_SECONDS)) for name in ("one", "two", "three"))
    new = new_document(1)
    two.pool.waiting = three.pool.waiting = "no GPU"
    one.queue.accept(new)
    eventually(lambda: one.spoken() == [1], "one has the document")
    two.queue.listen(new.id, True)
    three.queue.listen(new.id, True)
    eventually(lambda: one.pool.listening == [(0, True)], "one knows of the listeners")
    two.queue.listen(new.id, False)
    time.sleep(1.2 * KEPT_SECONDS)
    assert one.pool.listening == [(0, True)]
    three.queue.listen(new.id, False)
    eventually(lambda: one.pool.listening == [(0, True), (0, False)], "one knows that nobody listens")


def test_a_service_that_takes_over_learns_who_listens(start: Start) -> None:
    one, two, new = held(start("one")), held(start("two")), new_document(1)
    two.pool.waiting = "no GPU"
    one.queue.accept(new)
    eventually(lambda: one.spoken() == [1], "one has the document")
    two.queue.listen(new.id, True)
    three = held(start("three"))
    one.queue.close()
    eventually(lambda: three.pool.listening == [(0, True)], "three has the document, and knows of the listener")


def test_a_restart_of_the_database_loses_nothing_and_speaks_nothing_twice(start: Start) -> None:
    with running_server() as server:
        one, new = held(start("one", server.url())), new_document(1, 20)
        one.queue.accept(new)
        eventually(lambda: one.spoken() == [1], "one has the document")
        one.missed.clear()
        eventually(lambda: one.peers.state().store_answers, "it answers")
        server.stop()
        eventually(lambda: not one.peers.state().store_answers, "the metrics say so")
        with pytest.raises(StoreUnavailableError):
            one.queue.accept(new_document(2))
        one.pool.going.set()  # all chunks are spoken while the database is away
        time.sleep(0.5)
        server.start()
        eventually(lambda: answers(one.store), "the database answers")
        assert one.ended(new).state == "completed"
        assert one.spoken() == [1]
        eventually(one.missed.is_set, "one listens again")
        eventually(lambda: one.peers.state().store_answers, "it answers again")
        one.queue.accept(new_document(3))
        assert one.ended(new_document(3)).state == "completed"
        one.stop()
        one.stop = lambda: None  # type: ignore[method-assign]


def test_documents_that_were_taken_over_are_counted_by_the_service_that_had_them(url: str) -> None:
    one, two = Store(url, service="gpu-01:7"), Store(url, service="gpu-02:8")
    for number in range(4):
        one.accept(new_document(number))
    (first, *others) = take_all(one)
    one.claims.release(first)
    run_out(one)
    assert len(take_all(two)) == 4
    assert claims_of(two).ran_out() == {"gpu-01": len(others)}  # the one that was given back is none
    assert claims_of(one).ran_out() == {}
    one.close()
    two.close()


def test_a_database_that_goes_away_during_a_start_does_not_end_it(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, new = start("one"), new_document(1)
    one.queue.accept(new)
    one.ended(new)
    real, failures = Store.document, iter([StoreUnavailableError("the database does not answer")])

    def sometimes(store: Store, id: str, owner: str | None = None) -> Document:
        for error in failures:
            raise error
        return real(store, id, owner)

    monkeypatch.setattr(Store, "document", sometimes)
    two, later = start("two"), new_document(2)
    assert "looked for at the next start: the database does not answer" in caplog.text
    two.queue.accept(later)
    assert two.ended(later).state == "completed"
