"""Document queue and dispatcher, with a pool of one thread and a real store and audio store."""

from __future__ import annotations

import threading
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import ThreadPool, audio_of, new_document, no_upload, words_of
from eventually import PATIENCE, eventually
from joined import join

from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import AudioStore
from voxyard.service.config import ServiceSection
from voxyard.service.documents.queue import DocumentQueue
from voxyard.service.documents.records import Document, NewDocument
from voxyard.service.documents.store import Store
from voxyard.service.errors import (
    BusyError,
    ConflictError,
    NoRoomError,
    NotFoundError,
    StoreError,
    StoreUnavailableError,
    TooLargeError,
    UnavailableError,
)
from voxyard.service.fairness import NO_LIMITS, KeyLimits, LimitsOf, no_limits
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.audio.wav import to_bytes
from voxyard.speech.pool.job import Outcome
from voxyard.speech.requests import Request, Result

PAUSES = Pauses()


class Service:
    """Document queue with its dependencies, which can be stopped and restarted."""

    def __init__(self, folder: Path, limits: LimitsOf = no_limits, **settings: Any) -> None:
        self.folder, self.limits = folder, limits
        self.section = ServiceSection(**settings)
        self.events: list[str] = []
        self.start()

    def start(self, *, silent: bool = False, quota: int = 10**9, pauses: Pauses = PAUSES) -> None:
        self.store = Store(self.folder / "store.sqlite")
        self.audio_store = AudioStore(AudioFolder(self.folder / "audio"), quota=quota)
        self.pool = ThreadPool(silent=silent)
        self.queue = DocumentQueue(
            self.store, self.audio_store, self.pool, self.section, pauses, self.events.append, poll_seconds=0.05,
            read_upload=no_upload, cleanup_seconds=0.05, limits=self.limits,
        )  # fmt: skip
        self.queue.start()

    def stop(self) -> None:
        self.pool.going.set()
        self.queue.close()
        self.pool.close()
        self.store.close()

    def state(self, new: NewDocument, *states: str) -> Document:
        """The document as soon as it is in one of the states."""
        states = states or ("completed", "failed")
        found: Document = self.when(lambda: self.store.document(new.id), lambda document: document.state in states)
        return found

    def when(self, look: Callable[[], Any], good: Callable[[Any], object]) -> Any:
        seen: Any = None

        def is_good() -> object:
            nonlocal seen
            return good(seen := look())

        eventually(is_good, lambda: f"still {seen}", every=0.005)
        return seen


@pytest.fixture
def start_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(**settings: Any) -> Service:
        made.append(Service(tmp_path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def whole(new: NewDocument, pauses: Pauses = PAUSES) -> bytes:
    """The samples of the joined sound."""
    spoken = ((Result(chunk.index, audio_of(new, chunk.index)), chunk.ending) for chunk in new.chunks)
    return b"".join(to_bytes(piece.audio) for piece in join(_as_kept(spoken), pauses))


def _as_kept(spoken: Iterator[tuple[Result, Any]]) -> Iterator[tuple[Result, Any]]:
    for result, ending in spoken:
        kept = np.frombuffer(to_bytes(result.audio), "<i2").astype(np.float32) / np.float32(32767)
        yield Result(result.chunk, kept), ending


def samples(path: Path | None) -> bytes:
    with wave.open(str(path)) as file:
        return bytes(file.readframes(file.getnframes()))


def test_a_document_becomes_one_audio_file(start_service: Callable[..., Service]) -> None:
    service = start_service()
    new = new_document(1, chunks=9)

    document, fresh = service.queue.accept(new)

    assert fresh
    assert document.state == "pending"
    done = service.state(new)
    assert (done.state, done.chunks_done, done.chunks_failed, done.reason) == ("completed", 9, 0, None)
    assert samples(service.audio_store.path(new.id, "audio.wav")) == whole(new)
    service.queue.close()
    assert service.events.count(new.id) >= 9
    assert sorted(path.name for path in (service.folder / "audio" / new.id).iterdir()) == ["audio.wav"]


@pytest.mark.slow
def test_two_hundred_concurrent_documents_are_dispatched_in_order(start_service: Callable[..., Service]) -> None:
    service = start_service(active_documents=5)
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
                service.queue.accept(new)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for new in news:
        assert service.state(new).state == "completed"
        assert samples(service.audio_store.path(new.id, "audio.wav")) == whole(new)
    assert [f"{requests[0].seed:032x}" for requests in service.pool.submitted] == accepted
    assert service.pool.most_at_once <= 5


def test_a_failed_chunk_fails_the_document_and_stops_no_other(start_service: Callable[..., Service]) -> None:
    service = start_service()
    service.pool.fails = lambda request: "no voice" if request.seed == 1 and request.chunk in (2, 4) else None
    bad, good = new_document(1, chunks=6, webhook="http://h/"), new_document(2)

    for new in (bad, good):
        service.queue.accept(new)

    failed = service.state(bad)
    assert (failed.state, failed.chunks_done, failed.chunks_failed) == ("failed", 6, 2)
    assert failed.reason == f"chunk 2 ({words_of(bad)[2]!r}) could not be synthesized: no voice (and 1 more chunk)"
    chunks = service.store.chunks(bad.id)
    assert [chunk.state for chunk in chunks] == ["spoken", "spoken", "failed", "spoken", "failed", "spoken"]
    assert [hook.event for hook in service.store.webhooks.pending(time.time())] == ["document.failed"]
    assert service.state(good).state == "completed"


def test_a_retry_dispatches_the_failed_chunks_only(start_service: Callable[..., Service]) -> None:
    service = start_service()
    new = new_document(1, chunks=6)
    service.pool.fails = lambda request: "no voice" if request.chunk in (2, 4) else None
    service.queue.accept(new)
    service.state(new)
    service.pool.fails = lambda _: None

    again = service.queue.retry(new.id)

    assert (again.state, again.chunks_done, again.chunks_failed, again.reason) == ("pending", 4, 0, None)
    assert service.state(new).state == "completed"
    assert [request.chunk for request in service.pool.submitted[-1]] == [2, 4]
    assert samples(service.audio_store.path(new.id, "audio.wav")) == whole(new)
    with pytest.raises(ConflictError, match="is completed: only a failed document"):
        service.queue.retry(new.id)


def test_on_failure_silence_completes_the_document_and_says_where(start_service: Callable[..., Service]) -> None:
    service = start_service()
    new = new_document(1, on_failure="silence")
    service.pool.fails = lambda request: "no voice" if request.chunk == 1 else None

    service.queue.accept(new)

    assert service.state(new).state == "completed"
    chunk = service.store.chunks(new.id)[1]
    assert (chunk.state, chunk.reason) == ("silenced", "no voice")
    assert chunk.samples == round(chunk.estimated_seconds * 24000)


def test_a_document_goes_on_after_a_restart_where_it_was(start_service: Callable[..., Service]) -> None:
    service = start_service()
    new = new_document(1, chunks=6)
    service.pool.going.clear()
    service.queue.accept(new)
    service.state(new, "processing")
    for index in (0, 3):
        service.store.chunk_spoken(new.id, index, service.audio_store.put(new.id, index, audio_of(new, index)))
    service.queue.close()
    service.stop()

    service.start()

    assert service.state(new).state == "completed"
    assert [request.chunk for request in service.pool.submitted[0]] == [1, 2, 4, 5]
    assert samples(service.audio_store.path(new.id, "audio.wav")) == whole(new)


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_chunk_whose_file_a_power_cut_has_taken_is_spoken_again(
    start_service: Callable[..., Service], damage: str
) -> None:
    service = start_service()
    new = new_document(1, chunks=4)
    service.pool.going.clear()
    service.queue.accept(new)
    service.state(new, "processing")
    for index in range(4):
        service.store.chunk_spoken(new.id, index, service.audio_store.put(new.id, index, audio_of(new, index)))
    service.queue.close()
    path = service.folder / "audio" / new.id / "2.s16"
    if damage == "cut":
        with path.open("rb+") as file:
            file.truncate(10)
    else:
        path.unlink()
    service.stop()

    service.start()

    assert service.state(new).state == "completed"
    assert [[request.chunk for request in requests] for requests in service.pool.submitted] == [[2]]
    assert samples(service.audio_store.path(new.id, "audio.wav")) == whole(new)


def test_a_kill_between_the_whole_file_and_its_row_speaks_nothing_again(start_service: Callable[..., Service]) -> None:
    service = start_service()
    new = new_document(1, chunks=4)
    service.pool.going.clear()
    service.queue.accept(new)
    service.state(new, "processing")
    for index in range(4):
        service.store.chunk_spoken(new.id, index, service.audio_store.put(new.id, index, audio_of(new, index)))
    service.queue.close()
    service.audio_store.assemble(new.id, service.store.chunks(new.id), PAUSES)
    service.audio_store.remove_chunks(new.id)
    service.stop()

    service.start()

    assert service.state(new).state == "completed"
    assert service.pool.submitted == []
    assert samples(service.audio_store.path(new.id, "audio.wav")) == whole(new)


def test_chunks_stay_until_their_document_is_completed_so_that_other_pauses_speak_nothing_again(
    start_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start_service()
    new, longer = new_document(1, chunks=4), Pauses(sentence=0.5)

    def failing(*_: object) -> None:
        raise StoreError("the store is gone")

    with monkeypatch.context() as patch:
        patch.setattr(service.store, "completed", failing)
        service.queue.accept(new)
        service.when(lambda: service.store.document(new.id).parked, bool)
        service.stop()

    service.start(pauses=longer)

    assert service.state(new).state == "completed"
    assert service.pool.submitted == []
    assert samples(service.audio_store.path(new.id, "audio.wav")) == whole(new, longer)


def test_files_of_deleted_documents_are_removed_at_the_start(start_service: Callable[..., Service]) -> None:
    service = start_service()
    kept = new_document(2)
    service.queue.accept(kept)
    service.state(kept)
    service.queue.close()
    service.audio_store.put("f" * 32, 0, audio_of(new_document(1), 0))
    service.audio_store.put(kept.id, 0, audio_of(kept, 0))
    service.stop()

    service.start()

    assert service.audio_store.ids() == (kept.id,)
    assert sorted(path.name for path in (service.folder / "audio" / kept.id).iterdir()) == ["audio.wav"]


def test_a_document_cancelled_while_it_is_spoken_leaves_nothing(start_service: Callable[..., Service]) -> None:
    service = start_service(active_documents=1)
    new, later = new_document(1, chunks=2000), new_document(2)
    service.queue.accept(new)
    service.queue.accept(later)
    service.when(lambda: service.store.document(new.id).chunks_done, lambda done: done > 3)

    service.queue.cancel(new.id)

    with pytest.raises(NotFoundError):
        service.store.document(new.id)
    assert service.state(later).state == "completed"
    service.queue.close()
    assert service.pool.cancelled == {0}
    assert service.audio_store.ids() == (later.id,)
    assert service.audio_store.used_bytes() == service.audio_store.wav_size(later.id)
    with pytest.raises(NotFoundError):
        service.queue.cancel(new.id)


def test_the_audio_of_a_document_that_was_deleted_while_its_place_was_away_is_removed_later(
    start_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = start_service()
    new = new_document(1)
    service.queue.accept(new)
    service.when(lambda: service.store.document(new.id).state, lambda state: state == "completed")

    def away(_: str) -> None:
        raise StoreUnavailableError("the bucket does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(service.audio_store, "remove", away)
        service.queue.cancel(new.id)
        service.when(lambda: f"document {new.id} could not be deleted; trying again later" in caplog.text, bool)
        assert service.audio_store.ids() == (new.id,)
    service.when(service.audio_store.ids, lambda ids: ids == ())


def test_a_cancelled_document_that_waits_is_never_spoken(start_service: Callable[..., Service]) -> None:
    service = start_service(active_documents=1)
    service.pool.going.clear()
    first, second = new_document(1), new_document(2)
    for new in (first, second):
        service.queue.accept(new)

    service.queue.cancel(second.id)
    service.pool.going.set()

    service.state(first)
    service.queue.close()
    assert len(service.pool.submitted) == 1


def test_the_same_request_twice_is_one_document_even_when_the_queue_is_full(
    start_service: Callable[..., Service],
) -> None:
    service = start_service(max_documents=1)
    service.pool.going.clear()
    first = new_document(1, idempotency_key="k", fingerprint="a")
    service.queue.accept(first)

    document, fresh = service.queue.accept(new_document(2, idempotency_key="k", fingerprint="a"))

    assert (document.id, fresh) == (first.id, False)
    with pytest.raises(ConflictError, match="'k' was used with a different request"):
        service.queue.accept(new_document(2, idempotency_key="k", fingerprint="b"))


def test_a_full_queue_refuses_documents_and_says_for_how_long(start_service: Callable[..., Service]) -> None:
    service = start_service(max_documents=2, max_chunks=10)
    service.pool.going.clear()
    service.queue.accept(new_document(1, chunks=4))

    with pytest.raises(TooLargeError, match="11 chunks, the limit is 10"):
        service.queue.accept(new_document(2, chunks=11))
    with pytest.raises(BusyError, match="queue full: 4 of 10 chunks pending, the document has 7; retry in") as busy:
        service.queue.accept(new_document(2, chunks=7))
    assert busy.value.retry_after is not None
    assert busy.value.retry_after >= 1
    service.queue.accept(new_document(3, chunks=1))
    with pytest.raises(BusyError, match=r"queue full: 2 of 2 documents pending; retry in .* or raise --max-documents"):
        service.queue.accept(new_document(4, chunks=1))


def test_the_quota_refuses_what_would_not_fit(start_service: Callable[..., Service]) -> None:
    service = start_service()
    service.stop()
    service.start(silent=True, quota=30_000)
    service.queue.accept(new_document(1, chunks=15))  # about 20 kB

    with pytest.raises(NoRoomError, match=r"left of 0\.0 MiB: delete documents"):
        service.queue.accept(new_document(2, chunks=15))

    service.queue.cancel(new_document(1).id)
    service.queue.accept(new_document(2, chunks=15))


def test_finished_documents_are_deleted_when_their_time_is_over(start_service: Callable[..., Service]) -> None:
    service = start_service(retention_hours=0.5 / 3600)
    new = new_document(1)
    service.queue.accept(new)
    service.when(service.store.documents, lambda documents: not documents)
    service.when(service.audio_store.ids, lambda ids: not ids)


def test_the_pool_knows_which_documents_have_listeners(start_service: Callable[..., Service]) -> None:
    service = start_service(active_documents=1)
    service.pool.going.clear()
    first, second = new_document(1), new_document(2)
    for new in (first, second):
        service.queue.accept(new)

    service.queue.listen(first.id, True)
    service.queue.listen(first.id, True)
    service.queue.listen(first.id, False)
    service.queue.listen(second.id, True)
    service.queue.listen(first.id, False)
    service.when(lambda: list(service.pool.listening), lambda seen: len(seen) == 2)
    service.pool.going.set()

    service.state(second)
    assert service.pool.listening == [(0, True), (0, False), (1, True)]


def test_an_internal_error_fails_its_document_and_no_other(
    start_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = start_service()
    bad, good = new_document(1), new_document(2)
    put = AudioStore.put

    def faulty(audio_store: AudioStore, id: str, index: int, audio: Any) -> int:
        if id == bad.id:
            raise ZeroDivisionError("a fault")
        return put(audio_store, id, index, audio)

    monkeypatch.setattr(AudioStore, "put", faulty)

    for new in (bad, good):
        service.queue.accept(new)

    assert service.state(bad).reason == "internal error of the service: ZeroDivisionError: a fault"
    assert service.state(good).state == "completed"
    assert "ZeroDivisionError" in caplog.text


def test_an_internal_error_does_not_end_the_dispatcher(
    start_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = start_service()

    def faulty(*_: object) -> None:
        raise ZeroDivisionError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(service.store, "expired", faulty)
        service.when(lambda: caplog.text, lambda text: "internal error in the document dispatcher; continuing" in text)

    new = new_document(1)
    service.queue.accept(new)
    assert service.state(new).state == "completed"


def test_a_store_that_fails_for_a_while_parks_the_document(
    start_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start_service()
    new = new_document(1)

    def faulty(*_: object, **__: object) -> None:
        raise StoreError("the disk does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(service.store, "chunk_spoken", faulty)
        service.queue.accept(new)
        parked = service.when(lambda: service.store.document(new.id), lambda document: document.parked)
        assert (parked.parked, parked.state) == ("the disk does not answer", "processing")

    done = service.state(new)
    assert (done.state, done.parked) == ("completed", None)
    assert samples(service.audio_store.path(new.id, "audio.wav")) == whole(new)


@pytest.mark.parametrize("step", ["chunk_spoken", "snapshot", "completed"])
def test_a_store_that_does_not_answer_at_the_end_ends_the_document_later(
    start_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    service, new = start_service(), new_document(1)
    kept, failures = getattr(service.store, step), iter([StoreUnavailableError("the database does not answer")])

    def once_away(*given: Any, **named: Any) -> Any:
        for error in failures:
            raise error
        return kept(*given, **named)

    monkeypatch.setattr(service.store, step, once_away)
    service.queue.accept(new)
    assert service.state(new).state == "completed"
    assert len(service.pool.submitted) == 1
    assert samples(service.audio_store.path(new.id, "audio.wav")) == whole(new)


def test_when_the_pool_has_ended_documents_wait_for_the_next_start(start_service: Callable[..., Service]) -> None:
    service = start_service(active_documents=1)
    service.pool.going.clear()
    first, second = new_document(1), new_document(2)
    for new in (first, second):
        service.queue.accept(new)
    service.state(first, "processing")

    service.pool.end("the pool broke down")

    parked = service.when(lambda: service.store.document(first.id), lambda document: document.parked)
    assert parked.parked.endswith("it resumes when the service is restarted")
    with pytest.raises(UnavailableError, match="no documents are dispatched"):
        service.queue.accept(new_document(3))
    service.stop()
    service.start()
    for new in (first, second):
        assert service.state(new).state == "completed"


def test_documents_without_a_worker_have_a_reason_and_resume_by_themselves(
    start_service: Callable[..., Service],
) -> None:
    service = start_service()
    service.pool.going.clear()
    service.pool.waiting = "GPU 0: 100 MiB are free, a worker needs 6144 MiB"
    new, other = new_document(1), new_document(2)
    for each in (new, other):
        service.queue.accept(each)

    parked = service.when(lambda: service.store.document(new.id), lambda document: document.parked)
    assert (parked.state, parked.parked) == (
        "processing",
        "no worker can start yet: GPU 0: 100 MiB are free, a worker needs 6144 MiB; it resumes by itself",
    )
    service.queue.cancel(other.id)
    assert service.queue.problem is None

    service.pool.waiting = None
    service.when(lambda: service.store.document(new.id).parked, lambda reason: reason is None)
    service.pool.going.set()
    assert service.state(new).state == "completed"
    assert len(service.pool.submitted) == 2  # it never left the pool


def test_a_document_deleted_while_the_dispatcher_is_busy_stops_no_other(
    start_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start_service()
    service.pool.going.clear()
    deleted, second, third = (new_document(number) for number in (1, 2, 3))
    service.queue.accept(deleted)
    service.state(deleted, "processing")
    submit, begun, go_on = service.pool.submit, threading.Event(), threading.Event()

    def busy(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert go_on.wait(PATIENCE)
        return submit(*arguments, **options)

    monkeypatch.setattr(service.pool, "submit", busy)
    service.queue.accept(second)
    assert begun.wait(PATIENCE)
    service.queue.accept(third)  # the dispatcher handles this first, and polls before it handles what is deleted
    service.queue.cancel(deleted.id)
    time.sleep(0.1)
    go_on.set()
    service.pool.going.set()

    assert [service.state(each).state for each in (second, third)] == ["completed", "completed"]
    assert service.queue.problem is None


def test_outcomes_of_a_cancelled_job_are_ignored(
    start_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start_service()
    new, asked, stored = new_document(1, chunks=50), [], []
    submit, kept = service.pool.submit, service.store.chunk_spoken

    def talkative(requests: Any, *, deliver: Any, **options: Any) -> Any:
        asked.append(deliver)
        return submit(requests, deliver=deliver, **options)

    def once_faulty(*arguments: Any, **options: Any) -> None:
        stored.append(arguments[1])
        if len(stored) == 1:
            raise StoreError("the disk does not answer")
        kept(*arguments, **options)

    monkeypatch.setattr(service.pool, "submit", talkative)
    monkeypatch.setattr(service.store, "chunk_spoken", once_faulty)
    service.queue.accept(new)
    service.when(lambda: len(asked), lambda times: times == 2)
    request = Request(0, words_of(new)[0], voice=new.voice, seed=new.seed)
    for _ in range(20):
        asked[0](Outcome(0, request, Result(0, audio_of(new, 0))))

    assert service.state(new).state == "completed"
    service.queue.close()
    assert len(stored) == 1 + 50
    assert samples(service.audio_store.path(new.id, "audio.wav")) == whole(new)


def test_a_closed_queue_accepts_nothing(start_service: Callable[..., Service]) -> None:
    service = start_service()
    service.queue.close()
    with pytest.raises(UnavailableError, match="shutting down"):
        service.queue.accept(new_document(1))


def test_audio_of_another_sample_rate_is_a_failed_chunk(
    start_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start_service()
    new = new_document(1, chunks=1)

    def strange(request: Request, _: int) -> Any:
        return audio_of(new, 0)

    monkeypatch.setattr("documents.Result", lambda chunk, audio: Result(chunk, audio, 16_000))
    service.queue.accept(new)
    assert "16000 Hz, expected 24000 Hz" in (service.state(new).reason or "")


def test_a_key_gets_a_document_into_the_pool_though_another_fills_it(start_service: Callable[..., Service]) -> None:
    service = start_service(active_documents=2)
    service.pool.going.clear()
    for number in range(1, 6):
        service.queue.accept(new_document(number, owner="flood"))
    service.when(lambda: len(service.pool.tenants), lambda count: count == 2)

    service.queue.accept(new_document(6, owner="other"))

    service.when(lambda: [name for name, _ in service.pool.tenants], lambda names: names == ["flood"] * 2 + ["other"])
    service.pool.going.set()
    assert service.state(new_document(5, owner="flood")).state == "completed"


def test_documents_of_the_keys_are_dispatched_by_turns(start_service: Callable[..., Service]) -> None:
    service = start_service(active_documents=1)
    service.pool.going.clear()
    for number, owner in enumerate(("a", "a", "a", "b", "b"), 1):
        service.queue.accept(new_document(number, owner=owner))
    service.pool.going.set()
    service.when(lambda: service.pool.tenants, lambda found: len(found) == 5)

    names = [name for name, _ in service.pool.tenants]
    assert names[:2] == ["a", "b"]
    assert sorted(names) == ["a", "a", "a", "b", "b"]


def test_the_pool_is_told_the_share_of_a_key(start_service: Callable[..., Service]) -> None:
    service = start_service(limits=lambda name: KeyLimits(share=3.0) if name == "paying" else NO_LIMITS)
    service.queue.accept(new_document(1, owner="paying"))
    service.queue.accept(new_document(2, owner="free"))

    service.when(lambda: sorted(service.pool.tenants), lambda found: found == [("free", 1.0), ("paying", 3.0)])


def test_a_key_below_its_part_of_the_queue_is_accepted_though_another_has_filled_it(
    start_service: Callable[..., Service],
) -> None:
    service = start_service(max_documents=4, max_chunks=14)
    service.pool.going.clear()
    for number in range(1, 5):
        service.queue.accept(new_document(number, owner="flood"))
    with pytest.raises(BusyError, match="4 of 4 documents pending"):
        service.queue.accept(new_document(5, owner="flood"))

    service.queue.accept(new_document(6, owner="other"))
    service.queue.accept(new_document(7, owner="other"))
    with pytest.raises(BusyError, match="6 of 4 documents pending"):
        service.queue.accept(new_document(8, owner="other"))


def test_a_key_with_a_limit_of_documents_has_no_more_pending(start_service: Callable[..., Service]) -> None:
    service = start_service(limits=lambda name: KeyLimits(documents=1) if name == "small" else NO_LIMITS)
    service.pool.going.clear()
    service.queue.accept(new_document(1, owner="small"))

    with pytest.raises(BusyError, match="1 of 1 documents of the key small pending"):
        service.queue.accept(new_document(2, owner="small"))
    service.queue.accept(new_document(3, owner="other"))
