"""Document queue: accept, cancel, retry; enforces the queue limits. Whoever follows a document is woken."""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from voxyard.service.audio.store import SECOND, AudioStore
from voxyard.service.config import ServiceSection
from voxyard.service.dispatch.dispatcher import DocumentDispatcher
from voxyard.service.dispatch.progress import delete_document
from voxyard.service.documents.records import Document, NewDocument, QueueLoad, Size
from voxyard.service.documents.store import Store
from voxyard.service.documents.submission import ReadUpload
from voxyard.service.errors import BusyError, ServiceError, TooLargeError, UnavailableError
from voxyard.service.fairness import LimitsOf, fair_part, no_limits
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.pool.pool import Pool


def _ignore(_: str) -> None:
    pass


class DocumentQueue:
    """Queue of documents, dispatched by turns of their keys. Its methods may be called from any thread.

    `on_change` is called with the id of each document that changed, `on_delete` with that of each deleted one.
    """

    def __init__(
        self,
        store: Store,
        audio_store: AudioStore,
        pool: Pool,
        section: ServiceSection,
        pauses: Pauses,
        on_change: Callable[[str], None] = _ignore,
        on_delete: Callable[[str], None] | None = None,
        *,
        read_upload: ReadUpload,
        limits: LimitsOf = no_limits,
        poll_seconds: float = 5.0,
        cleanup_seconds: float = 600.0,
    ) -> None:
        self._store, self._audio_store, self._section, self._on_change = store, audio_store, section, on_change
        self._on_delete = on_change if on_delete is None else on_delete
        self._limits = limits
        poll_seconds = min(poll_seconds, section.claim_seconds / 3)
        self._dispatcher = DocumentDispatcher(
            store,
            audio_store,
            pool,
            pauses,
            section,
            on_change,
            self._on_delete,
            read_upload,
            limits,
            poll_seconds,
            cleanup_seconds,
        )
        self._accept_lock = threading.Lock()  # checking the limits and storing are one step
        self._draining = self._closing = False
        self._listeners: dict[str, int] = {}

    def start(self) -> None:
        """Starts the dispatcher, which resumes the unfinished documents of an earlier run.

        Raises:
            StoreError: the store cannot be read.
        """
        self._dispatcher.start()

    def drain(self) -> None:
        """Dispatches nothing more; the outcomes of chunks in progress are still stored. Returns at once.

        Of new documents it accepts, for the next start, those of requests that began before, and those with an
        idempotency key: a repeated request must find the document of the first one, and has no other place.
        """
        self._draining = True
        self._dispatcher.drain()

    def close(self) -> None:
        """Accepts nothing more, stores the outcomes so far, and ends; the next start resumes the rest."""
        with self._accept_lock:
            self._closing = True
        self._dispatcher.close()

    @property
    def problem(self) -> str | None:
        """Reason why no document is dispatched any more; None while they are."""
        return self._dispatcher.problem

    @property
    def draining(self) -> bool:
        """True once `drain` was called."""
        return self._draining

    def earlier(self, new: NewDocument) -> Document | None:
        """Document of an earlier request with the same idempotency key, whatever has changed since it was accepted.

        Raises:
            ConflictError: another request came with the same idempotency key.
            UnavailableError: the service is shutting down.
        """
        if new.idempotency_key is None:
            return None
        with self._accept_lock:
            self._refuse_closing()
            return self._store.earlier(new)

    def check(self, owner: str, size: Size, *, admitted: bool) -> None:
        """Refuses what `accept` would refuse of a document of at least this size, before it is prepared.

        Raises:
            ServiceError: as `accept`, but for its idempotency key.
        """
        with self._accept_lock:
            self._check(owner, size, refused=self._draining and not admitted)

    def accept(self, new: NewDocument, *, admitted: bool = False) -> tuple[Document, bool]:
        """Stores a document and dispatches it; False where the same request was accepted before.

        `admitted`: its request began before `drain`.

        Raises:
            ConflictError: another request came with the same idempotency key.
            BusyError: the queue is full; `retry_after` is estimated from the throughput so far.
            TooLargeError: the document exceeds the limit of an empty queue.
            NoRoomError: its audio would not fit on the disk.
            UnavailableError: the service is shutting down, or the pool has stopped.
        """
        refused = self._draining and not admitted and new.idempotency_key is None
        with self._accept_lock:
            self._refuse_closing(refused)
            earlier = self._store.earlier(new)
            if earlier is not None:
                return earlier, False
            self._check(new.owner, Size.of(new), refused=refused)
            document, fresh = self._store.accept(new)
            if fresh:
                self._dispatcher.accepted()
        self._on_change(document.id)
        return document, fresh

    def cancel(self, id: str) -> None:
        """Cancels a document and deletes it with its audio.

        Raises:
            NotFoundError: no such document.
        """
        delete_document(self._store, self._audio_store, id)
        self._dispatcher.deleted(id)
        self._on_delete(id)

    def retry(self, id: str) -> Document:
        """Dispatches the failed chunks of a failed document again.

        Raises:
            ConflictError: the document has not failed.
            NotFoundError: no such document.
        """
        document = self._store.retry(id)
        self._dispatcher.accepted()
        self._on_change(id)
        return document

    def redo(self, id: str, index: int, voice: str | None, seed: int | None) -> Document:
        """Has a chunk of a completed document spoken again; its present audio is served until the new one is whole.

        Raises:
            ConflictError: the document is not completed.
            NotFoundError: no such document or chunk.
        """
        self._store.redo(id, index, voice, seed)
        self._dispatcher.accepted()
        self._on_change(id)
        return self._store.document(id)

    def listen(self, id: str, listening: bool) -> None:
        """Adds or removes a listener; the pool prioritizes the start of a document with listeners."""
        with self._accept_lock:
            before = self._listeners.pop(id, 0)
            after = max(0, before + (1 if listening else -1))
            if after:
                self._listeners[id] = after
            changed = bool(before) != bool(after)
            if changed:
                self._dispatcher.listen(id, bool(after))
        if changed:
            with suppress(ServiceError):  # a document is spoken without priority, too
                self._store.heard(id, bool(after))

    def with_listeners(self) -> tuple[str, ...]:
        """Ids of the documents with listeners at this service."""
        with self._accept_lock:
            return tuple(self._listeners)

    def peer_message(self, kind: str, id: str, service: str) -> None:
        """A document was `accepted`, `changed`, `deleted`, `taken`, `heard` or `unheard` at another service."""
        match kind:
            case "accepted":
                self._dispatcher.accepted()
                self._on_change(id)
            case "changed":
                self._on_change(id)
            case "deleted":
                self._dispatcher.deleted(id)
                self._on_delete(id)
            case "heard" | "unheard":
                self._dispatcher.listen(id, kind == "heard", service)
            case "taken":
                self._dispatcher.taken_over(id)

    def _refuse_closing(self, refused: bool = False) -> None:
        if self._closing or refused:
            raise UnavailableError("the service is shutting down: retry in 10 s", retry_after=10.0)

    def _check(self, owner: str, size: Size, *, refused: bool) -> None:
        """Raises what refuses a document of this size."""
        self._refuse_closing(refused)
        if self.problem is not None:
            raise UnavailableError(f"no documents are dispatched: {self.problem}; restart the service")
        load = self._check_queue(owner, size.chunks)
        uploaded = self._store.upload_bytes() + size.uploaded
        self._audio_store.check_room(size.seconds, load.estimated_seconds + uploaded / SECOND)

    def _check_queue(self, owner: str, added: int) -> QueueLoad:
        """The queue's load before this document, which has room: a key below its part of the queue always has."""
        section, loads = self._section, self._store.queue_loads()
        load, own = QueueLoad.sum(loads.values()), loads.get(owner, QueueLoad())
        if added > section.max_chunks:
            raise TooLargeError(
                f"document too long: {added} chunks, the limit is {section.max_chunks}: split it, or raise --max-chunks"
            )
        most = self._limits(owner).documents
        if most is not None and own.documents >= most:
            raise BusyError(
                f"{own.documents} of {most} documents of the key {owner} pending: wait until one has ended",
                retry_after=self._dispatcher.progress.throughput.retry_after(own.estimated_seconds / own.documents),
            )
        if load.documents >= section.max_documents and own.documents + 1 > self._part(
            section.max_documents, owner, loads
        ):
            raise _full(
                f"{load.documents} of {section.max_documents} documents pending",
                "--max-documents",
                self._dispatcher.progress.throughput.retry_after(load.estimated_seconds / load.documents),
            )
        chunks = load.chunks + added
        if chunks > section.max_chunks and own.chunks + added > self._part(section.max_chunks, owner, loads):
            share = (chunks - section.max_chunks) / load.chunks
            raise _full(
                f"{load.chunks} of {section.max_chunks} chunks pending, the document has {added}",
                "--max-chunks",
                self._dispatcher.progress.throughput.retry_after(load.estimated_seconds * share),
            )
        return load

    def _part(self, whole: int, owner: str, loads: Mapping[str, QueueLoad]) -> float:
        return fair_part(whole, owner, tuple(loads), self._limits)


def _full(found: str, setting: str, retry_after: float) -> BusyError:
    message = f"queue full: {found}; retry in {math.ceil(retry_after)} s or raise {setting}"
    return BusyError(message, retry_after=retry_after)


class ChangeNotifier:
    """Version number of each document, increased by each change.

    Versions start at the clock's microseconds, and so increase across restarts.
    """

    def __init__(self) -> None:
        self._next = itertools.count(time.time_ns() // 1000)
        self._versions: dict[str, int] = {}
        self._waiting: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self._lock = threading.Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closed

    def close(self) -> None:
        """Wakes all waiters: no document changes any more. May be called from any thread."""
        with self._lock:
            self._closed = True
            waiting = tuple(itertools.chain.from_iterable(self._waiting.values()))
        _wake(waiting)

    def version(self, id: str) -> int:
        """Current version of a document; 0 where it has not changed since the start."""
        with self._lock:
            return self._versions.get(id, 0)

    def bump(self, id: str) -> None:
        """Increases a document's version and wakes its waiters. May be called from any thread."""
        with self._lock:
            self._versions[id] = next(self._next)
            waiting = tuple(self._waiting.get(id, ()))
        _wake(waiting)

    def bump_waiting(self) -> None:
        """Increases the versions of all documents that are waited for: any of them may have changed."""
        with self._lock:
            ids = tuple(self._waiting)
        for id in ids:
            self.bump(id)

    def forget(self, id: str) -> None:
        """Removes a deleted document: wakes its waiters a last time, then drops its version."""
        with self._lock:
            self._versions.pop(id, None)
            waiting = tuple(self._waiting.get(id, ()))
        _wake(waiting)

    async def wait(self, id: str, seen: int, timeout: float) -> int:
        """Current version, as soon as it differs from `seen`, after `timeout` seconds, or at `close`."""
        event = asyncio.Event()
        entry = (asyncio.get_running_loop(), event)
        with self._lock:
            if self._closed or self._versions.get(id, 0) != seen:
                return self._versions.get(id, 0)
            self._waiting.setdefault(id, set()).add(entry)
        try:
            async with asyncio.timeout(timeout):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._waiting[id].discard(entry)
                if not self._waiting[id]:
                    del self._waiting[id]
        return self.version(id)


def _wake(waiting: tuple[tuple[asyncio.AbstractEventLoop, asyncio.Event], ...]) -> None:
    for loop, event in waiting:
        try:
            loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            if not loop.is_closed():  # a closed loop has no waiters
                raise
