"""Dispatcher thread: submits documents to the worker pool and stores the results."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from voxyard.extraction.sandbox import MAX_CONCURRENT
from voxyard.service.audio.store import AudioStore
from voxyard.service.config import ServiceSection
from voxyard.service.dispatch.dispatched import HERE, ActiveDocument, DispatchedDocuments, Listeners
from voxyard.service.dispatch.progress import DocumentProgress, delete_document
from voxyard.service.documents.claims import STAGES, Stage
from voxyard.service.documents.records import Document, NewDocument, Redo, StoredChunk
from voxyard.service.documents.store import Store
from voxyard.service.documents.submission import ReadUpload
from voxyard.service.errors import (
    ClaimLostError,
    LostAudioError,
    NotFoundError,
    ServiceError,
    StoreError,
    StoreUnavailableError,
    UnspeakableTextError,
)
from voxyard.service.fairness import LimitsOf, no_limits
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.errors import SpeechError, given_up_by
from voxyard.speech.pool.job import Outcome
from voxyard.speech.pool.pool import Pool

_log = logging.getLogger(__name__)
T = TypeVar("T")

REDO_PRIORITY = 1  # before documents of the same key: somebody has listened to the chunk, and waits
STALE_SECONDS = 60.0  # that the audio before a change stays, for those who read it
CLEANUP_SECONDS = 600.0  # between two deletions of expired documents
_KEEP_SECONDS = 1.0  # between two attempts to store what is kept


@dataclass
class DocumentDispatcher:
    """Submits each document to the pool, stores its outcomes, completes it; the only writer of what is spoken.

    A document whose audio does not fit on the disk is parked, and resumed when there is room. An error in one
    document does not stop the others. Of documents that several services share it has those that it has claimed, and
    withdraws one that another service has taken over. Its keys have the pool by their shares.
    `on_change` and `on_delete` are called with ids, from the dispatcher's thread.
    """

    store: Store
    audio_store: AudioStore
    pool: Pool
    pauses: Pauses
    section: ServiceSection
    on_change: Callable[[str], None]
    on_delete: Callable[[str], None]
    read_upload: ReadUpload
    limits: LimitsOf = no_limits
    poll_seconds: float = 5.0  # between two attempts to resume parked documents
    cleanup_seconds: float = CLEANUP_SECONDS

    def __post_init__(self) -> None:
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()  # to be called in its thread
        self._dispatched = DispatchedDocuments()
        self._active, self._parked = self._dispatched.active, self._dispatched.parked
        self._threads: dict[ActiveDocument, Stage] = {}
        self._stale: list[tuple[float, str, int]] = []  # when the audio of a document before this number can go
        self._left: set[str] = set()  # deleted documents whose audio could not be deleted
        self._listeners = Listeners(self.section.claim_seconds)
        self._claims = self.store.claims
        self.progress = DocumentProgress(self.store, self.audio_store, self.pauses)
        self._next_poll = self._next_cleanup = 0.0
        self._thread = threading.Thread(target=self._run, name="document-dispatcher", daemon=True)
        self._keeping = False  # outcomes in memory, as the database does not answer
        self._draining = self._closing = False  # nothing more is submitted
        self.problem: str | None = None  # reason why no document is dispatched any more

    def start(self) -> None:
        """Resumes the unfinished documents of an earlier run. Raises StoreError where they cannot be read."""
        try:
            for id, number in self.progress.clean().items():
                self._let_go(id, number)
        except StoreUnavailableError as error:  # restarted since the store was opened
            _log.warning("audio of deleted documents is looked for at the next start: %s", error)
        self._thread.start()

    def accepted(self) -> None:
        """Has a document that was stored, is retried or was given back dispatched."""
        self._events.put(self._claims.look_again)

    def deleted(self, id: str) -> None:
        """Cancels a document that was deleted from the store."""
        active = self._active.get(id)
        if active is not None:
            active.cancel()  # at once: the dispatcher may be busy writing
        self._events.put(partial(self._remove, id))

    def taken_over(self, id: str) -> None:
        """Withdraws a document that another service has taken over."""

        def withdraw() -> None:
            if not self._claims.owns(id):
                self._withdraw(id)

        self._events.put(withdraw)

    def listen(self, id: str, listening: bool, service: str = HERE) -> None:
        """Prioritizes the start of a document while it has listeners, here or at another service."""

        def prioritize() -> None:
            if self._listeners.set(id, listening, service):
                self._prioritize(id)

        self._events.put(prioritize)

    def drain(self) -> None:
        """Stops dispatching documents."""
        self._draining = True

    def close(self) -> None:
        """Stores the outcomes so far and ends the thread; unfinished documents stay in the store for the next start."""
        self._events.put(self._end_threads)
        if self._thread.is_alive():
            self._thread.join()
        if not self._claims.shared:  # other services may be reading it: it goes at the next change
            self._remove_stale(math.inf)

    def _run(self) -> None:
        while True:
            try:
                if not self._step():
                    return
            except Exception:  # noqa: BLE001 — without this thread no document is completed
                _log.exception("internal error in the document dispatcher; continuing")
                time.sleep(min(1.0, self.poll_seconds))

    def _step(self) -> bool:
        """Handles one event and what is due; False where the dispatcher is closing."""
        due = min(self._next_poll, self._next_cleanup)
        with suppress(queue.Empty):
            self._events.get(timeout=max(0.0, due - time.monotonic()))()
        if self._closing and not self._threads_of("redoing"):
            self._give_back(*self._dispatched)
            return False
        now = time.monotonic()
        if self._next_poll <= now:
            self._next_poll = now + self.poll_seconds
            self._claims.look_again()
            self._poll_parked()
            self._remove_stale(now)
            for id in self._listeners.expire():
                self._prioritize(id)
        if self._next_cleanup <= now:
            self._next_cleanup = now + self.cleanup_seconds
            self._delete_expired()
        self._dispatch_waiting()
        return True

    @property
    def _dispatching(self) -> bool:
        """True while documents are dispatched."""
        return self.problem is None and not self._draining and not self._closing

    def _dispatch_waiting(self) -> None:
        """Begins documents for which there is room: to read uploads, and to synthesize what is read."""
        for stage in STAGES:
            while self._dispatching and not self._left_to_others:
                if stage == "extracting" and len(self._threads_of("extracting")) >= MAX_CONCURRENT:
                    break
                busy = self._dispatched.by_owner(stage)
                id = self._claims.take(stage, busy, room=self._has_room(stage, busy))
                if id is None:
                    break
                if id not in self._dispatched:
                    self._submit_document(id)

    @property
    def _left_to_others(self) -> bool:
        """True where no worker can start, and other services may synthesize the documents."""
        return self._claims.shared and self.pool.waiting is not None

    def _has_room(self, stage: Stage, busy: Counter[str]) -> bool:
        """True where one more document of any key may be dispatched: of a shared one, if workers begin it soon."""
        if stage == "extracting":  # a key never has all places
            return max(busy.values(), default=0) < MAX_CONCURRENT - 1
        if busy.total() >= self.section.active_documents:
            return False
        return not self._claims.shared or self._dispatched.unspoken < 2 * self.pool.rows

    def _poll_parked(self) -> None:
        """Resumes parked documents where there is room; records why the pool waits, or that it has ended.

        A job that ended while its pool runs was cancelled: its document was deleted, and the event is in the queue.
        """
        for id in tuple(self._parked) if self._dispatching else ():
            self._submit_document(id)
        if self._active and self.pool.ended is not None:
            self._stop("the worker pool has stopped")
        waiting = self.pool.waiting
        if self._left_to_others:
            self._give_back(*self._active)
        for active in tuple(self._active.values()):
            if active.reported_reason != waiting:
                with self._error_boundary(active.id):
                    self._report_waiting(active, waiting)

    def _report_waiting(self, active: ActiveDocument, waiting: str | None) -> None:
        """Marks a document as parked while no worker can start; it resumes by itself."""
        self.store.parked(active.id, waiting and f"no worker can start yet: {waiting}; it resumes by itself")
        active.reported_reason = waiting
        self.on_change(active.id)

    def _delete_expired(self) -> None:
        try:
            for id in self.store.expired(time.time() - self.section.retention_hours * 3600.0):
                with suppress(NotFoundError):  # another service was faster
                    delete_document(self.store, self.audio_store, id)
                self._remove(id)
            for id in tuple(self._left):
                self._remove(id)
            self.store.voices.sweep()
            self.store.shrink()
        except ServiceError:
            _log.exception("expired documents could not be deleted; trying again later")

    def _submit_document(self, id: str) -> None:
        with self._error_boundary(id):
            document = self.store.document(id)
            self._dispatched.know(document)
            if document.state == "failed" or (document.state == "completed" and not document.redos):
                self._parked.pop(id, None)
                self._claims.drop(id)
                return
            if self._claims.number(id) <= document.audio:  # its files have this number already
                self._give_back(id)
                self._claims.look_again()
                return
            if document.extracting:
                if len(self._threads_of("extracting")) < MAX_CONCURRENT:
                    self._parked.pop(id, None)
                    self._extract(document)
                else:
                    self._parked[id] = "its file waits to be read"
                return
            chunks = self.progress.chunks_with_audio(document)
            waiting = [chunk for chunk in chunks if chunk.waits]
            if waiting or document.redos:
                self.progress.check_room(document, waiting)
            if waiting:
                self._submit_chunks(document, waiting)
            else:
                active = self._active[id] = ActiveDocument(id, {})
                self._finish(active, document)
            self._parked.pop(id, None)

    def _extract(self, document: Document) -> None:
        """Has the text of a document's upload extracted in a thread, as its first step."""
        active = self._active[document.id] = ActiveDocument(document.id, {})

        def work() -> NewDocument:
            return self.read_upload(document, self.store.upload(document.id), active.cancelled)

        self._in_thread(active, "extracting", work, partial(self._store_text, document.id))
        self.on_change(document.id)

    def _in_thread(
        self, active: ActiveDocument, stage: Stage, work: Callable[[], T], then: Callable[[Future[T]], None]
    ) -> None:
        """Works for a document in a thread; the dispatcher's calls `then` in `_end_thread`, unless it was cancelled."""
        self._threads[active] = stage

        def run() -> None:
            made: Future[T] = Future()
            try:
                with given_up_by(active.cancelled):
                    made.set_result(work())
            except Exception as error:  # noqa: BLE001 — the dispatcher's thread raises it
                made.set_exception(error)
            self._events.put(partial(self._end_thread, active, partial(then, made)))

        threading.Thread(target=run, name=f"voxyard-{stage}", daemon=True).start()

    def _end_thread(self, active: ActiveDocument, then: Callable[[], None]) -> None:
        """Stores what a thread has made, unless its document was cancelled."""
        del self._threads[active]
        if self._active.get(active.id) is not active or active.cancelled.is_set():
            self._remove_late(active.id)
            return
        with self._error_boundary(active.id):
            then()

    def _end_threads(self) -> None:
        """Has the threads end soon that make audio anew; the next start begins again."""
        self._closing = True
        for active in self._threads_of("redoing"):
            active.cancelled.set()

    def _threads_of(self, stage: Stage) -> list[ActiveDocument]:
        """Documents whose threads still run, cancelled or not."""
        return [active for active, of in self._threads.items() if of == stage]

    def _store_text(self, id: str, extracted: Future[NewDocument]) -> None:
        """Stores an extracted text, whose document waits then to be synthesized; or fails the document."""
        try:
            text = extracted.result()
        except StoreError:
            raise
        except ServiceError as error:
            self._fail(id, str(error), error.code)
            return
        self.store.extracted(id, text)
        self._give_back(id)  # whichever service has room claims it
        self._claims.look_again()
        self.on_change(id)

    def _submit_chunks(self, document: Document, waiting: Sequence[StoredChunk]) -> None:
        active, again = ActiveDocument(document.id, {chunk.index: chunk for chunk in waiting}), document.redos > 0
        requests = self.progress.begin(document, waiting)
        self._active[document.id] = active
        active.job = self.pool.submit(
            requests,
            priority=REDO_PRIORITY if again else 0,
            listening=document.id in self._listeners,
            on_failure="fail" if again else document.on_failure,
            deliver=lambda outcome: self._events.put(partial(self._chunk_finished, active, outcome)),
            tenant=document.owner,
            share=self.limits(document.owner).share,
        )
        self.on_change(document.id)

    def _chunk_finished(self, active: ActiveDocument, outcome: Outcome) -> None:
        """Stores an outcome, or keeps it while the database does not answer: workers go on with what they have."""
        if self._active.get(active.id) is not active:
            return
        with self._error_boundary(active.id):
            self._store_or_keep(active, outcome)

    def _store_or_keep(self, active: ActiveDocument, outcome: Outcome) -> None:
        try:
            self._store_outcome(active, outcome)
        except StoreUnavailableError as error:
            if not self._keeping:
                _log.warning("chunks are kept in memory, until they can be stored: %s", error)
            self._keeping = True
            self._events.put(partial(self._chunk_finished, active, outcome))
            time.sleep(min(_KEEP_SECONDS, self.poll_seconds))
        else:
            self._keeping = False

    def _store_outcome(self, active: ActiveDocument, outcome: Outcome) -> None:
        id, chunk = active.id, active.remaining.get(outcome.request.chunk)
        if chunk is not None:  # else it is stored, and only the end of its document was not
            self.progress.add(id, chunk, outcome)
            refused = outcome.result is None and outcome.failure is not None and outcome.failure.refused
            if refused and chunk.redo is None:  # nothing makes the document whole
                self._fail(id, self.progress.refusal(id, outcome), UnspeakableTextError.code)
                return
            del active.remaining[chunk.index]
        if not active.remaining:
            self._finish(active, self.store.document(id))
        self.on_change(id)

    def _finish(self, active: ActiveDocument, document: Document) -> None:
        """Completes or fails a document whose chunks all have an outcome; of a completed one, makes the audio anew.

        That is done in a thread, with the chunks that were spoken again.
        """
        if document.state != "completed":
            self.progress.finish(document.id)
            self._end(document.id)
            return
        redos = {index: each for index, each in self.store.redos(document.id).items() if each.samples is not None}
        claim = self._claims.number(document.id)
        if not redos:
            self._store_rebuilt(document.id, redos, claim)
            return
        work = partial(self.progress.rebuild, document.id, redos, claim, active.cancelled)
        self._in_thread(active, "redoing", work, partial(self._store_rebuilt, document.id, redos, claim))

    def _store_rebuilt(
        self, id: str, redos: Mapping[int, Redo], claim: int, rebuilt: Future[None] | None = None
    ) -> None:
        """Has a document served with its new audio; what was asked for meanwhile waits for its turn.

        Its file has the number of this claim: after another service had the document it is made once more.
        """
        if self._claims.number(id) != claim:
            self._give_back(id)
            self._claims.look_again()
            return
        if rebuilt is not None:
            try:
                rebuilt.result()
            except LostAudioError as error:
                self._fail(id, str(error))
                return
        self.store.redone(id, redos)
        self._end(id)
        self._claims.look_again()
        self._remove_late(id)

    def _end(self, id: str) -> None:
        """Forgets a document that has ended."""
        self._active.pop(id, None)
        self._claims.drop(id)
        self._listeners.forget(id)
        self.on_change(id)

    @contextmanager
    def _error_boundary(self, id: str) -> Iterator[None]:
        """Error boundary: an error fails or parks this document and no other."""
        try:
            yield
        except ClaimLostError:
            self._withdraw(id)
        except NotFoundError as error:
            if self._exists(id):
                self._park(id, f"{error}; it is synthesized again")
            else:
                self._remove(id)
        except ServiceError as error:
            self._park(id, str(error))
        except SpeechError as error:
            self._stop(str(error), id)
        except Exception as error:  # noqa: BLE001 — the other documents continue
            _log.exception("internal error in document %s", id)
            self._fail(id, f"internal error of the service: {type(error).__name__}: {error}")

    def _exists(self, id: str) -> bool:
        try:
            self.store.document(id)
        except NotFoundError:
            return False
        except ServiceError:
            return True
        return True

    def _park(self, id: str, reason: str) -> None:
        self._cancel_job(id)
        if self._parked.get(id) == reason:
            return
        self._parked[id] = reason
        _log.warning("document %s is parked: %s", id, reason)
        try:
            if not self._stored(id, partial(self.store.parked, id, reason)):
                return
        except ServiceError as error:  # parked all the same, without a stored reason
            _log.warning("document %s: the reason why it is parked could not be stored: %s", id, error)
        self.on_change(id)

    def _fail(self, id: str, reason: str, code: str | None = None) -> None:
        self._cancel_job(id)
        self._parked.pop(id, None)
        try:
            if not self._stored(id, partial(self.store.failed, id, time.time(), reason, code)):
                return
        except ServiceError as error:
            self._park(id, f"{reason}; {error}")
        else:
            self._claims.drop(id)
        self.on_change(id)

    def _stored(self, id: str, change: Callable[[], None]) -> bool:
        """Makes a change in the store; False where the document is another service's by now, or deleted."""
        try:
            change()
        except ClaimLostError:
            self._withdraw(id)
            return False
        except NotFoundError:
            self._remove(id)
            return False
        return True

    def _stop(self, reason: str, *ids: str) -> None:
        """Stops dispatching until the service is restarted; other services on the database go on."""
        if self.problem is None:
            self.problem = reason
            _log.error("no documents are dispatched any more: %s; restart the service", reason)
        for id in (*self._active, *ids):
            self._park(id, f"{reason}; it resumes when the service is restarted")
        self._give_back(*self._dispatched)

    def _give_back(self, *ids: str) -> None:
        """Gives documents to the services that can synthesize them now."""
        for id in ids:
            self._cancel_job(id)
            self._parked.pop(id, None)
        try:
            self._claims.release(*ids)
        except ServiceError as error:
            _log.warning("%d documents could not be given back, their claims run out: %s", len(ids), error)

    def _withdraw(self, id: str) -> None:
        """Stops work on a document that another service has taken over, and removes what was written too late."""
        self._cancel_job(id)
        self._parked.pop(id, None)
        self._claims.drop(id)
        _log.warning("document %s was taken over by another service: it is spoken there", id)
        self._remove_late(id)

    def _remove_late(self, id: str) -> None:
        """Deletes chunks' files that are not needed any more, and soon the audio before the last change."""
        try:
            self._let_go(id, self.progress.remove_late_chunks(id))
        except NotFoundError:
            self._remove(id)
        except ServiceError as error:
            _log.warning("document %s: chunks that are not needed are deleted at the next start: %s", id, error)

    def _let_go(self, id: str, number: int) -> None:
        """Has the audio of a document before that of this number deleted, once those who read it have had time."""
        if number:
            self._stale.append((time.monotonic() + STALE_SECONDS, id, number))

    def _remove_stale(self, now: float) -> None:
        """Deletes audio before changes that has been there for long enough."""
        due = [(id, number) for when, id, number in self._stale if when <= now]
        self._stale = [each for each in self._stale if each[0] > now]
        for id, number in due:
            try:
                self.audio_store.remove_revisions(id, before=number)
            except ServiceError as error:
                _log.warning("document %s: its audio before a change could not be deleted: %s", id, error)

    def _cancel_job(self, id: str) -> None:
        active = self._active.pop(id, None)
        if active is not None:
            active.cancel()

    def _prioritize(self, id: str) -> None:
        """Tells the pool whether a document has listeners."""
        active = self._active.get(id)
        if active is not None and active.job is not None:
            active.job.listen(id in self._listeners)

    def _remove(self, id: str) -> None:
        """Removes what is left of a document that is not in the store (any more)."""
        self._cancel_job(id)
        self._parked.pop(id, None)
        self._claims.drop(id)
        self._listeners.forget(id)
        try:
            self.audio_store.remove(id)
        except ServiceError:
            self._left.add(id)
            _log.exception("the audio of document %s could not be deleted; trying again later", id)
        else:
            self._left.discard(id)
        self.on_delete(id)
