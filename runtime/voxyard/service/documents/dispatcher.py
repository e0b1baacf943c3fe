"""Dispatcher thread: submits documents to the worker pool and stores the results."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from voxyard.service.documents.audio_store import SECOND, Shelf
from voxyard.service.documents.dispatcher_events import Arrived, Closing, Gone, Heard, InPool, Letter, Listening
from voxyard.service.documents.records import Chunk, Document
from voxyard.service.documents.store import Store
from voxyard.service.documents.throughput import Pace
from voxyard.service.errors import NoRoomError, NotFoundError, ServiceError
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.job import Job, OnFailure, Outcome
from voxyard.speech.requests import SAMPLE_RATE, Request

_log = logging.getLogger(__name__)

SWEEP = 600.0  # seconds between two looks for documents whose time is over
_SHOWN = 60  # characters of a chunk in a message


class Speaker(Protocol):
    """Pool interface of the dispatcher."""

    @property
    def ended(self) -> SpeechError | None:
        """Reason why it takes no more chunks; None while it does."""

    @property
    def waiting(self) -> str | None:
        """Reason why all its workers wait, in words; None while one of them runs, or may start."""

    def submit(
        self,
        requests: Sequence[Request],
        *,
        priority: int = 0,
        listening: bool = False,
        on_failure: OnFailure = "fail",
        deliver: Callable[[Outcome], None] | None = None,
    ) -> Job:
        """Speak these chunks; raises SpeechError when the pool has ended."""


@dataclass(frozen=True)
class Duties:
    """Settings of the dispatcher."""

    active: int = 8  # documents in the pool, or parked, at a time
    retention: float = 168 * 3600.0  # seconds that a finished document is kept
    look: float = 5.0  # seconds between two looks whether a parked document can go on
    sweep: float = SWEEP


@dataclass
class Clerk:
    """Dispatches each document, stores its outcomes, ends it. Nothing else writes a document's progress.

    A document whose sound finds no room is parked, and taken up again when there is room. A fault with one
    document never keeps the others from going on. `changed` and `gone` are told the ids, from the clerk's thread.
    """

    store: Store
    shelf: Shelf
    pool: Speaker
    pauses: Pauses
    duties: Duties
    changed: Callable[[str], None]
    gone: Callable[[str], None]
    pace: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        self._mail: queue.SimpleQueue[Letter] = queue.SimpleQueue()
        self._waiting: deque[str] = deque()
        self._in_pool: dict[str, InPool] = {}
        self._parked: dict[str, str] = {}  # with the reason, in the order they came
        self._listened: set[str] = set()
        self._next_look = self._next_sweep = 0.0
        self._thread = threading.Thread(target=self._run, name="document clerk", daemon=True)
        self._draining = False  # what is not in the pool waits for the next start
        self.stopped: str | None = None  # why nothing more can be spoken

    def start(self) -> None:
        """Take up what an earlier service has left; raises StoreError where that cannot be read."""
        documents = self.store.unfinished()
        self._waiting.extend(document.id for document in documents)
        for id in self.shelf.ids():
            try:
                if self.store.document(id).state == "completed":
                    self.shelf.tidy(id)
            except NotFoundError:
                self.shelf.remove(id)
        self._thread.start()

    def arrived(self, id: str) -> None:
        """Announces a stored document that is to be spoken."""
        self._mail.put(Arrived(id))

    def deleted(self, id: str) -> None:
        """Announces that a document was deleted from the store."""
        spoken = self._in_pool.get(id)
        if spoken is not None and spoken.job is not None:
            spoken.job.cancel()  # at once: the clerk may have much to write
        self._mail.put(Gone(id))

    def listen(self, id: str, listening: bool) -> None:
        """Announces that a listener of the document has come or gone."""
        self._mail.put(Listening(id, listening))

    def drain(self) -> None:
        """Dispatch no more documents."""
        self._draining = True

    def close(self) -> None:
        """Write down what has come, then end; what is not finished stays in the store for the next start."""
        self._mail.put(Closing())
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                if not self._step():
                    return
            except Exception:  # noqa: BLE001 — without this thread no document is ever finished
                _log.exception("the clerk has met a fault of its own, and goes on")
                time.sleep(min(1.0, self.duties.look))

    def _step(self) -> bool:
        """Handles one message, its consequences, and what is due; False when it is time to end."""
        due = min(self._next_look, self._next_sweep)
        try:
            letter = self._mail.get(timeout=max(0.0, due - time.monotonic()))
        except queue.Empty:
            letter = None
        match letter:
            case Closing():
                for spoken in self._in_pool.values():
                    if spoken.job is not None:
                        spoken.job.cancel()
                return False
            case Heard(spoken, outcome):
                if self._in_pool.get(spoken.id) is spoken:
                    with self._guarding(spoken.id):
                        self._put_away(spoken, outcome)
            case Arrived(id):
                self._waiting.append(id)
            case Gone(id):
                self._forget(id)
            case Listening(id, listening):
                self._listen(id, listening)
        now = time.monotonic()
        if self._next_look <= now:
            self._next_look = now + self.duties.look
            self._look()
        if self._next_sweep <= now:
            self._next_sweep = now + self.duties.sweep
            self._sweep()
        self._feed()
        return True

    @property
    def _goes_on(self) -> bool:
        """True where documents are dispatched."""
        return self.stopped is None and not self._draining

    def _feed(self) -> None:
        while self._waiting and self._goes_on and len(self._in_pool) + len(self._parked) < self.duties.active:
            id = self._waiting.popleft()
            if id not in self._in_pool and id not in self._parked:
                self._take_up(id)

    def _look(self) -> None:
        """Resumes parked documents where there is room; reports why the pool waits, or that it has ended.

        A job that ended without its pool was cancelled: its document has been deleted, and the message is on its way.
        """
        for id in tuple(self._parked) if self._goes_on else ():
            self._take_up(id)
        if self._in_pool and self.pool.ended is not None:
            self._stop("the workers have stopped")
        waiting = self.pool.waiting
        for spoken in tuple(self._in_pool.values()):
            if spoken.told != waiting:
                with self._guarding(spoken.id):
                    self._tell(spoken, waiting)

    def _tell(self, spoken: InPool, waiting: str | None) -> None:
        """Marks a document as parked while no worker has memory on its GPU; it resumes by itself."""
        self.store.parked(spoken.id, waiting and f"no worker can start yet: {waiting}; it goes on by itself")
        spoken.told = waiting
        self.changed(spoken.id)

    def _sweep(self) -> None:
        try:
            for id in self.store.expired(time.time() - self.duties.retention):
                delete(self.store, self.shelf, id)
                self._forget(id)
        except ServiceError:
            _log.exception("documents whose time is over could not be deleted; they are looked for again")

    def _take_up(self, id: str) -> None:
        with self._guarding(id):
            document = self.store.document(id)
            if document.state not in ("pending", "processing"):
                self._parked.pop(id, None)
                return
            chunks = self._with_sound(id)
            waiting = [chunk for chunk in chunks if chunk.state == "waiting"]
            if waiting:
                self._check_room(document, waiting)
                self._submit(document, waiting)
            else:
                self._finish(id, chunks)
            self._parked.pop(id, None)

    def _with_sound(self, id: str) -> tuple[Chunk, ...]:
        """The document's chunks; those whose file is not there, or not whole, wait again."""
        chunks = self.store.chunks(id)
        if all(chunk.samples is not None for chunk in chunks) and self.shelf.is_whole(id, chunks, self.pauses):
            return chunks
        lost = [
            chunk.index
            for chunk in chunks
            if chunk.samples is not None and not self.shelf.has(id, chunk.index, chunk.samples)
        ]
        if not lost:
            return chunks
        _log.warning("document %s: the sound of %d chunks is gone or broken: they are spoken again", id, len(lost))
        self.store.respeak(id, lost)
        return self.store.chunks(id)

    def _check_room(self, document: Document, waiting: Sequence[Chunk]) -> None:
        """Refuse to begin what the disk cannot take: its chunks, and then the whole beside them."""
        seconds = sum(chunk.estimated_seconds for chunk in waiting)
        need = round((2 * seconds + document.audio_seconds) * SECOND)
        if self.shelf.free_bytes() < need:
            raise NoRoomError(
                f"the disk has no room for its sound, which needs about {need / 2**20:.1f} MiB: it goes on by itself "
                "when there is room"
            )

    def _submit(self, document: Document, waiting: Sequence[Chunk]) -> None:
        text = self.store.text(document.id)
        requests = [
            Request(
                chunk.index,
                text[chunk.start : chunk.end],
                voice=document.voice,
                seed=document.seed,
                seconds=chunk.estimated_seconds,
            )
            for chunk in waiting
        ]
        spoken = InPool(document.id, {chunk.index for chunk in waiting})
        self.store.started(document.id, time.time())
        self._in_pool[document.id] = spoken
        spoken.job = self.pool.submit(
            requests,
            listening=document.id in self._listened,
            on_failure=document.on_failure,
            deliver=lambda outcome: self._mail.put(Heard(spoken, outcome)),
        )
        self.changed(document.id)

    def _put_away(self, spoken: InPool, outcome: Outcome) -> None:
        id, index, result = spoken.id, outcome.request.chunk, outcome.result
        reason = None if outcome.failure is None else outcome.failure.reason
        if result is not None and result.sample_rate != SAMPLE_RATE:
            reason = f"the engine's sound has {result.sample_rate} samples a second, expected {SAMPLE_RATE}"
            result = None
        if result is None:
            self.store.chunk_failed(id, index, reason or "the engine gave no sound and no reason")
        else:
            samples = self.shelf.put(id, index, result.audio)
            self.store.spoken(
                id, index, samples, reduced=outcome.reduced, silenced=outcome.failure is not None, reason=reason
            )
            self.pace.note(result.seconds)
        spoken.left.discard(index)
        if not spoken.left:
            self._finish(id, self.store.chunks(id))
            del self._in_pool[id]
        self.changed(id)

    def _finish(self, id: str, chunks: Sequence[Chunk]) -> None:
        """Every chunk has its outcome."""
        failed = [chunk for chunk in chunks if chunk.state == "failed"]
        if failed:
            self.store.failed(id, time.time(), _complaint(failed, self.store.text(id)))
        else:
            if not self.shelf.is_whole(id, chunks, self.pauses):
                self.shelf.assemble(id, chunks, self.pauses)
            self.store.completed(id, time.time())
            self.shelf.tidy(id)
        self._listened.discard(id)
        self.changed(id)

    @contextmanager
    def _guarding(self, id: str) -> Iterator[None]:
        """Error boundary of a document: an error ends or parks this document, and no other."""
        try:
            yield
        except NotFoundError as error:
            if self._exists(id):
                self._park(id, f"{error}; it is spoken again")
            else:
                self._forget(id)
        except ServiceError as error:
            self._park(id, str(error))
        except SpeechError as error:
            self._stop(str(error))
            self._park(id, f"{error}; it goes on when the service is started again")
        except Exception as error:  # noqa: BLE001 — whatever it is, the other documents go on
            _log.exception("document %s has met a fault of the service", id)
            self._fail(id, f"a fault of the service itself: {type(error).__name__}: {error}")

    def _exists(self, id: str) -> bool:
        try:
            self.store.document(id)
        except NotFoundError:
            return False
        except ServiceError:
            return True
        return True

    def _park(self, id: str, reason: str) -> None:
        self._withdraw(id)
        if self._parked.get(id) == reason:
            return
        self._parked[id] = reason
        _log.warning("document %s is parked: %s", id, reason)
        try:
            self.store.parked(id, reason)
        except NotFoundError:
            self._forget(id)
            return
        except ServiceError as error:  # it is parked all the same, only nobody can read why
            _log.warning("document %s: that it is parked could not be written down: %s", id, error)
        self.changed(id)

    def _fail(self, id: str, reason: str) -> None:
        self._withdraw(id)
        self._parked.pop(id, None)
        try:
            self.store.failed(id, time.time(), reason)
        except NotFoundError:
            self._forget(id)
            return
        except ServiceError as error:
            self._park(id, f"{reason}; {error}")
        self.changed(id)

    def _stop(self, reason: str) -> None:
        """No document can be spoken before the service is started again."""
        if self.stopped is None:
            self.stopped = reason
            _log.error("no document is spoken any more: %s; start the service again", reason)
        for id in tuple(self._in_pool):
            self._park(id, f"{reason}; it goes on when the service is started again")

    def _withdraw(self, id: str) -> None:
        spoken = self._in_pool.pop(id, None)
        if spoken is not None and spoken.job is not None:
            spoken.job.cancel()

    def _listen(self, id: str, listening: bool) -> None:
        if listening:
            self._listened.add(id)
        else:
            self._listened.discard(id)
        spoken = self._in_pool.get(id)
        if spoken is not None and spoken.job is not None:
            spoken.job.listen(listening)

    def _forget(self, id: str) -> None:
        """The document is not in the store (any more): nothing of it may stay."""
        self._withdraw(id)
        self._parked.pop(id, None)
        self._listened.discard(id)
        try:
            self.shelf.remove(id)
        except ServiceError:
            _log.exception("the sound of document %s could not be deleted; the next start tries again", id)
        self.gone(id)


def delete(store: Store, shelf: Shelf, id: str) -> None:
    """Deletes a document. On a full disk its audio goes first, which frees the space that the store needs."""
    try:
        store.delete(id)
    except NoRoomError:
        shelf.remove(id)
        store.delete(id)
    shelf.remove(id)


def _complaint(failed: Sequence[Chunk], text: str) -> str:
    """Error message of a failed document: the first failed chunk with its text, and how many more."""
    first = failed[0]
    words = text[first.start : first.end]
    shown = words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"
    others = len(failed) - 1
    more = f" (and {others} more {'chunk' if others == 1 else 'chunks'})" if others else ""
    return f"chunk {first.index} ({shown!r}) could not be spoken: {first.reason}{more}"
