"""The desk with a pool of one thread and a real store and shelf: what becomes of documents, whatever happens."""

from __future__ import annotations

import threading
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import ThreadPool, audio_of, new_document, words_of

from voxyard.service.config import ServiceSection
from voxyard.service.documents.audio_store import Shelf
from voxyard.service.documents.queue import Desk
from voxyard.service.documents.records import Document, NewDocument
from voxyard.service.documents.store import Store
from voxyard.service.errors import (
    BusyError,
    ConflictError,
    NoRoomError,
    NotFoundError,
    StoreError,
    TooLargeError,
    UnavailableError,
)
from voxyard.speech.audio.joining import Pauses, join
from voxyard.speech.audio.wav import to_bytes
from voxyard.speech.pool.job import Outcome
from voxyard.speech.requests import Request, Result

PAUSES = Pauses()


class Service:
    """A desk with all that it needs, which can be ended and started again."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.section = ServiceSection(**settings)
        self.events: list[str] = []
        self.start()

    def start(self, *, silent: bool = False, quota: int = 10**9) -> None:
        self.store = Store(self.folder / "store.sqlite")
        self.shelf = Shelf(self.folder / "audio", quota=quota)
        self.pool = ThreadPool(silent=silent)
        self.desk = Desk(
            self.store, self.shelf, self.pool, self.section, PAUSES, self.events.append, look_seconds=0.05,
            sweep_seconds=0.05,
        )  # fmt: skip
        self.desk.start()

    def stop(self) -> None:
        self.pool.going.set()
        self.desk.close()
        self.pool.close()
        self.store.close()

    def state(self, new: NewDocument, *states: str) -> Document:
        """The document as soon as it is in one of the states."""
        states = states or ("completed", "failed")
        found: Document = self.when(lambda: self.store.document(new.id), lambda document: document.state in states)
        return found

    def when(self, look: Callable[[], Any], good: Callable[[Any], object]) -> Any:
        deadline = time.monotonic() + 60
        while not good(seen := look()):
            assert time.monotonic() < deadline, f"still {seen}"
            time.sleep(0.005)
        return seen


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(**settings: Any) -> Service:
        made.append(Service(tmp_path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def whole(new: NewDocument) -> bytes:
    """The samples of the joined sound."""
    spoken = ((Result(chunk.index, audio_of(new, chunk.index)), chunk.ending) for chunk in new.chunks)
    return b"".join(to_bytes(piece.audio) for piece in join(_as_kept(spoken), PAUSES))


def _as_kept(spoken: Iterator[tuple[Result, Any]]) -> Iterator[tuple[Result, Any]]:
    for result, ending in spoken:
        kept = np.frombuffer(to_bytes(result.audio), "<i2").astype(np.float32) / np.float32(32767)
        yield Result(result.chunk, kept), ending


def samples(path: Path) -> bytes:
    with wave.open(str(path)) as file:
        return bytes(file.readframes(file.getnframes()))


def test_a_document_becomes_one_sound(service: Callable[..., Service]) -> None:
    desk = service()
    new = new_document(1, chunks=9)

    document, fresh = desk.desk.accept(new)

    assert fresh
    assert document.state == "pending"
    done = desk.state(new)
    assert (done.state, done.chunks_done, done.chunks_failed, done.reason) == ("completed", 9, 0, None)
    assert samples(desk.shelf.wav(new.id)) == whole(new)
    desk.desk.close()
    assert desk.events.count(new.id) >= 9
    assert sorted(path.name for path in (desk.folder / "audio" / new.id).iterdir()) == ["audio.wav"]


def test_two_hundred_documents_at_once_are_all_spoken_in_their_order(service: Callable[..., Service]) -> None:
    desk = service(active_documents=5)
    news = [new_document(number, chunks=1 + number % 4) for number in range(200)]
    accepted: list[str] = []
    entry = threading.Lock()
    todo = iter(news)

    def send() -> None:
        while True:
            with entry:
                new = next(todo, None)
                if new is None:
                    return
                accepted.append(new.id)
                desk.desk.accept(new)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for new in news:
        assert desk.state(new).state == "completed"
        assert samples(desk.shelf.wav(new.id)) == whole(new)
    assert [f"{requests[0].seed:032x}" for requests in desk.pool.submitted] == accepted
    assert desk.pool.most_at_once <= 5


def test_a_failed_chunk_fails_the_document_and_stops_no_other(service: Callable[..., Service]) -> None:
    desk = service()
    desk.pool.fails = lambda request: "no voice" if request.seed == 1 and request.chunk in (2, 4) else None
    bad, good = new_document(1, chunks=6, webhook="http://h/"), new_document(2)

    for new in (bad, good):
        desk.desk.accept(new)

    failed = desk.state(bad)
    assert (failed.state, failed.chunks_done, failed.chunks_failed) == ("failed", 6, 2)
    assert failed.reason == f"chunk 2 ({words_of(bad)[2]!r}) could not be spoken: no voice (and 1 more chunk)"
    chunks = desk.store.chunks(bad.id)
    assert [chunk.state for chunk in chunks] == ["spoken", "spoken", "failed", "spoken", "failed", "spoken"]
    assert [hook.event for hook in desk.store.pending_hooks(time.time())] == ["document.failed"]
    assert desk.state(good).state == "completed"


def test_a_retry_speaks_the_failed_chunks_only(service: Callable[..., Service]) -> None:
    desk = service()
    new = new_document(1, chunks=6)
    desk.pool.fails = lambda request: "no voice" if request.chunk in (2, 4) else None
    desk.desk.accept(new)
    desk.state(new)
    desk.pool.fails = lambda _: None

    again = desk.desk.retry(new.id)

    assert (again.state, again.chunks_done, again.chunks_failed, again.reason) == ("pending", 4, 0, None)
    assert desk.state(new).state == "completed"
    assert [request.chunk for request in desk.pool.submitted[-1]] == [2, 4]
    assert samples(desk.shelf.wav(new.id)) == whole(new)
    with pytest.raises(ConflictError, match="is completed: only a failed one"):
        desk.desk.retry(new.id)


def test_on_failure_silence_completes_the_document_and_says_where(service: Callable[..., Service]) -> None:
    desk = service()
    new = new_document(1, on_failure="silence")
    desk.pool.fails = lambda request: "no voice" if request.chunk == 1 else None

    desk.desk.accept(new)

    assert desk.state(new).state == "completed"
    chunk = desk.store.chunks(new.id)[1]
    assert (chunk.state, chunk.reason) == ("silenced", "no voice")
    assert chunk.samples == round(chunk.estimated_seconds * 24000)


def test_a_document_goes_on_after_a_restart_where_it_was(service: Callable[..., Service]) -> None:
    desk = service()
    new = new_document(1, chunks=6)
    desk.pool.going.clear()
    desk.desk.accept(new)
    desk.state(new, "processing")
    desk.desk.close()
    for index in (0, 3):
        desk.store.spoken(new.id, index, desk.shelf.put(new.id, index, audio_of(new, index)))
    desk.stop()

    desk.start()

    assert desk.state(new).state == "completed"
    assert [request.chunk for request in desk.pool.submitted[0]] == [1, 2, 4, 5]
    assert samples(desk.shelf.wav(new.id)) == whole(new)


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_chunk_whose_file_a_power_cut_has_taken_is_spoken_again(service: Callable[..., Service], damage: str) -> None:
    desk = service()
    new = new_document(1, chunks=4)
    desk.pool.going.clear()
    desk.desk.accept(new)
    desk.state(new, "processing")
    desk.desk.close()
    for index in range(4):
        desk.store.spoken(new.id, index, desk.shelf.put(new.id, index, audio_of(new, index)))
    path = desk.folder / "audio" / new.id / "2.s16"
    if damage == "cut":
        with path.open("rb+") as file:
            file.truncate(10)
    else:
        path.unlink()
    desk.stop()

    desk.start()

    assert desk.state(new).state == "completed"
    assert [[request.chunk for request in requests] for requests in desk.pool.submitted] == [[2]]
    assert samples(desk.shelf.wav(new.id)) == whole(new)


def test_a_kill_between_the_whole_file_and_its_row_speaks_nothing_again(service: Callable[..., Service]) -> None:
    desk = service()
    new = new_document(1, chunks=4)
    desk.pool.going.clear()
    desk.desk.accept(new)
    desk.state(new, "processing")
    desk.desk.close()
    for index in range(4):
        desk.store.spoken(new.id, index, desk.shelf.put(new.id, index, audio_of(new, index)))
    desk.shelf.assemble(new.id, desk.store.chunks(new.id), PAUSES)
    desk.shelf.tidy(new.id)
    desk.stop()

    desk.start()

    assert desk.state(new).state == "completed"
    assert desk.pool.submitted == []
    assert samples(desk.shelf.wav(new.id)) == whole(new)


def test_what_is_left_of_a_deleted_document_goes_at_the_start(service: Callable[..., Service]) -> None:
    desk = service()
    kept = new_document(2)
    desk.desk.accept(kept)
    desk.state(kept)
    desk.desk.close()
    desk.shelf.put("f" * 32, 0, audio_of(new_document(1), 0))
    desk.shelf.put(kept.id, 0, audio_of(kept, 0))
    desk.stop()

    desk.start()

    assert desk.shelf.ids() == (kept.id,)
    assert sorted(path.name for path in (desk.folder / "audio" / kept.id).iterdir()) == ["audio.wav"]


def test_a_document_cancelled_while_it_is_spoken_leaves_nothing(service: Callable[..., Service]) -> None:
    desk = service(active_documents=1)
    new, later = new_document(1, chunks=2000), new_document(2)
    desk.desk.accept(new)
    desk.desk.accept(later)
    desk.when(lambda: desk.store.document(new.id).chunks_done, lambda done: done > 3)

    desk.desk.cancel(new.id)

    with pytest.raises(NotFoundError):
        desk.store.document(new.id)
    assert desk.state(later).state == "completed"
    desk.desk.close()
    assert desk.pool.cancelled == {0}
    assert desk.shelf.ids() == (later.id,)
    assert desk.shelf.used_bytes() == desk.shelf.wav(later.id).stat().st_size
    with pytest.raises(NotFoundError):
        desk.desk.cancel(new.id)


def test_a_cancelled_document_that_waits_is_never_spoken(service: Callable[..., Service]) -> None:
    desk = service(active_documents=1)
    desk.pool.going.clear()
    first, second = new_document(1), new_document(2)
    for new in (first, second):
        desk.desk.accept(new)

    desk.desk.cancel(second.id)
    desk.pool.going.set()

    desk.state(first)
    desk.desk.close()
    assert len(desk.pool.submitted) == 1


def test_the_same_request_twice_is_one_document_even_when_the_queue_is_full(service: Callable[..., Service]) -> None:
    desk = service(max_documents=1)
    desk.pool.going.clear()
    first = new_document(1, idempotency_key="k", fingerprint="a")
    desk.desk.accept(first)

    document, fresh = desk.desk.accept(new_document(2, idempotency_key="k", fingerprint="a"))

    assert (document.id, fresh) == (first.id, False)
    with pytest.raises(ConflictError, match="'k' came before with another request"):
        desk.desk.accept(new_document(2, idempotency_key="k", fingerprint="b"))


def test_a_full_queue_refuses_documents_and_says_for_how_long(service: Callable[..., Service]) -> None:
    desk = service(max_documents=2, max_chunks=10)
    desk.pool.going.clear()
    desk.desk.accept(new_document(1, chunks=4))

    with pytest.raises(TooLargeError, match="11 chunks, this service takes 10"):
        desk.desk.accept(new_document(2, chunks=11))
    with pytest.raises(BusyError, match="4 chunks wait to be spoken and this document has 7") as busy:
        desk.desk.accept(new_document(2, chunks=7))
    assert busy.value.retry_after is not None
    assert busy.value.retry_after >= 1
    desk.desk.accept(new_document(3, chunks=1))
    with pytest.raises(BusyError, match="2 documents wait or are spoken"):
        desk.desk.accept(new_document(4, chunks=1))


def test_the_quota_refuses_what_would_not_fit(service: Callable[..., Service]) -> None:
    desk = service()
    desk.stop()
    desk.start(silent=True, quota=30_000)
    desk.desk.accept(new_document(1, chunks=15))  # about 20 kB

    with pytest.raises(NoRoomError, match=r"of the quota of 0\.0 MiB are left: delete documents"):
        desk.desk.accept(new_document(2, chunks=15))

    desk.desk.cancel(new_document(1).id)
    desk.desk.accept(new_document(2, chunks=15))


def test_finished_documents_are_deleted_when_their_time_is_over(service: Callable[..., Service]) -> None:
    desk = service(retention_hours=0.5 / 3600)
    new = new_document(1)
    desk.desk.accept(new)
    desk.when(desk.store.documents, lambda documents: not documents)
    desk.when(desk.shelf.ids, lambda ids: not ids)


def test_a_document_that_somebody_hears_is_told_to_the_pool(service: Callable[..., Service]) -> None:
    desk = service(active_documents=1)
    desk.pool.going.clear()
    first, second = new_document(1), new_document(2)
    for new in (first, second):
        desk.desk.accept(new)

    desk.desk.listen(first.id, True)
    desk.desk.listen(first.id, True)
    desk.desk.listen(first.id, False)
    desk.desk.listen(second.id, True)
    desk.desk.listen(first.id, False)
    desk.when(lambda: list(desk.pool.listening), lambda seen: len(seen) == 2)
    desk.pool.going.set()

    desk.state(second)
    assert desk.pool.listening == [(0, True), (0, False), (1, True)]


def test_a_fault_of_the_service_fails_its_document_and_no_other(
    service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk = service()
    bad, good = new_document(1), new_document(2)
    put = Shelf.put

    def faulty(shelf: Shelf, id: str, index: int, audio: Any) -> int:
        if id == bad.id:
            raise ZeroDivisionError("a fault")
        return put(shelf, id, index, audio)

    monkeypatch.setattr(Shelf, "put", faulty)

    for new in (bad, good):
        desk.desk.accept(new)

    assert desk.state(bad).reason == "a fault of the service itself: ZeroDivisionError: a fault"
    assert desk.state(good).state == "completed"
    assert "ZeroDivisionError" in caplog.text


def test_a_fault_of_the_clerk_itself_does_not_end_it(
    service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk = service()

    def faulty(*_: object) -> None:
        raise ZeroDivisionError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "expired", faulty)
        desk.when(lambda: caplog.text, lambda text: "a fault of its own, and goes on" in text)

    new = new_document(1)
    desk.desk.accept(new)
    assert desk.state(new).state == "completed"


def test_a_store_that_fails_for_a_while_parks_the_document(
    service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = service()
    new = new_document(1)

    def faulty(*_: object, **__: object) -> None:
        raise StoreError("the disk does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "spoken", faulty)
        desk.desk.accept(new)
        parked = desk.when(lambda: desk.store.document(new.id), lambda document: document.parked)
        assert (parked.parked, parked.state) == ("the disk does not answer", "processing")

    done = desk.state(new)
    assert (done.state, done.parked) == ("completed", None)
    assert samples(desk.shelf.wav(new.id)) == whole(new)


def test_when_the_pool_has_ended_documents_wait_for_the_next_start(service: Callable[..., Service]) -> None:
    desk = service(active_documents=1)
    desk.pool.going.clear()
    first, second = new_document(1), new_document(2)
    for new in (first, second):
        desk.desk.accept(new)
    desk.state(first, "processing")

    desk.pool.end("the pool broke down")

    parked = desk.when(lambda: desk.store.document(first.id), lambda document: document.parked)
    assert parked.parked.endswith("it goes on when the service is started again")
    with pytest.raises(UnavailableError, match="no document can be spoken"):
        desk.desk.accept(new_document(3))
    desk.stop()
    desk.start()
    for new in (first, second):
        assert desk.state(new).state == "completed"


def test_documents_that_no_worker_can_speak_yet_say_why_and_go_on_by_themselves(
    service: Callable[..., Service],
) -> None:
    desk = service()
    desk.pool.going.clear()
    desk.pool.waiting = "GPU 0: 100 MiB are free, a worker needs 6144 MiB"
    new, other = new_document(1), new_document(2)
    for each in (new, other):
        desk.desk.accept(each)

    parked = desk.when(lambda: desk.store.document(new.id), lambda document: document.parked)
    assert (parked.state, parked.parked) == (
        "processing",
        "no worker can start yet: GPU 0: 100 MiB are free, a worker needs 6144 MiB; it goes on by itself",
    )
    desk.desk.cancel(other.id)
    assert desk.desk.problem is None

    desk.pool.waiting = None
    desk.when(lambda: desk.store.document(new.id).parked, lambda reason: reason is None)
    desk.pool.going.set()
    assert desk.state(new).state == "completed"
    assert len(desk.pool.submitted) == 2  # it never left the pool


def test_a_document_deleted_while_the_clerk_is_busy_stops_no_other(
    service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = service()
    desk.pool.going.clear()
    deleted, second, third = (new_document(number) for number in (1, 2, 3))
    desk.desk.accept(deleted)
    desk.state(deleted, "processing")
    submit, begun, go_on = desk.pool.submit, threading.Event(), threading.Event()

    def busy(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return submit(*arguments, **options)

    monkeypatch.setattr(desk.pool, "submit", busy)
    desk.desk.accept(second)
    assert begun.wait(60)
    desk.desk.accept(third)  # the clerk reads this first, and looks around before it reads what is deleted
    desk.desk.cancel(deleted.id)
    time.sleep(0.1)
    go_on.set()
    desk.pool.going.set()

    assert [desk.state(each).state for each in (second, third)] == ["completed", "completed"]
    assert desk.desk.problem is None


def test_what_a_job_says_after_it_was_given_up_is_passed_over(
    service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = service()
    new, asked, said = new_document(1, chunks=50), [], []
    submit, kept = desk.pool.submit, desk.store.spoken

    def talkative(requests: Any, *, deliver: Any, **options: Any) -> Any:
        asked.append(deliver)
        return submit(requests, deliver=deliver, **options)

    def once_faulty(*arguments: Any, **options: Any) -> None:
        said.append(arguments[1])
        if len(said) == 1:
            raise StoreError("the disk does not answer")
        kept(*arguments, **options)

    monkeypatch.setattr(desk.pool, "submit", talkative)
    monkeypatch.setattr(desk.store, "spoken", once_faulty)
    desk.desk.accept(new)
    desk.when(lambda: len(asked), lambda times: times == 2)
    request = Request(0, words_of(new)[0], voice=new.voice, seed=new.seed)
    for _ in range(20):
        asked[0](Outcome(0, request, Result(0, audio_of(new, 0))))

    assert desk.state(new).state == "completed"
    desk.desk.close()
    assert len(said) == 1 + 50
    assert samples(desk.shelf.wav(new.id)) == whole(new)


def test_a_closed_desk_accepts_nothing(service: Callable[..., Service]) -> None:
    desk = service()
    desk.desk.close()
    with pytest.raises(UnavailableError, match="going down"):
        desk.desk.accept(new_document(1))


def test_sound_of_another_rate_is_a_failed_chunk(
    service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = service()
    new = new_document(1, chunks=1)

    def strange(request: Request, _: int) -> Any:
        return audio_of(new, 0)

    monkeypatch.setattr("documents.Result", lambda chunk, audio: Result(chunk, audio, 16_000))
    desk.desk.accept(new)
    assert "16000 samples a second, expected 24000" in (desk.state(new).reason or "")
