"""Document queue: accept, cancel, retry; enforces the queue's limits."""

from __future__ import annotations

import threading
from collections.abc import Callable

from voxyard.service.config import ServiceSection
from voxyard.service.documents.audio_store import Shelf
from voxyard.service.documents.dispatcher import Clerk, Duties, Speaker, delete
from voxyard.service.documents.records import Document, NewDocument
from voxyard.service.documents.store import Load, Store
from voxyard.service.documents.throughput import Pace
from voxyard.service.errors import BusyError, TooLargeError, UnavailableError
from voxyard.speech.audio.joining import Pauses


def _nobody(_: str) -> None:
    pass


class Desk:
    """Queue of documents, spoken in the order they came. Its methods may be called from any thread.

    `events` is told the id of a document whenever something of it has changed, `gone` when it has been deleted.
    """

    def __init__(
        self,
        store: Store,
        shelf: Shelf,
        pool: Speaker,
        section: ServiceSection,
        pauses: Pauses,
        events: Callable[[str], None] = _nobody,
        gone: Callable[[str], None] | None = None,
        *,
        look_seconds: float = 5.0,
        sweep_seconds: float = 600.0,
    ) -> None:
        self._store, self._shelf, self._section, self._events = store, shelf, section, events
        self._gone = events if gone is None else gone
        duties = Duties(section.active_documents, section.retention_hours * 3600.0, look_seconds, sweep_seconds)
        self._clerk = Clerk(store, shelf, pool, pauses, duties, events, self._gone)
        self._entry = threading.Lock()  # two documents never take the same last place
        self._closing = False
        self._listeners: dict[str, int] = {}

    def start(self) -> None:
        """Go on with what an earlier service has left.

        Raises:
            StoreError: the data cannot be read.
        """
        self._clerk.start()

    def drain(self) -> None:
        """Accept nothing more and begin no document; what comes back of those in work is still written down.

        Returns at once.
        """
        self._closing = True
        self._clerk.drain()

    def close(self) -> None:
        """Accept nothing more, write down what has been spoken, and end; the rest is for the next start."""
        with self._entry:
            self._closing = True
        self._clerk.close()

    @property
    def problem(self) -> str | None:
        """Reason why no document is spoken any more; None while all is well."""
        return self._clerk.stopped

    @property
    def pace(self) -> Pace:
        """Throughput of document synthesis."""
        return self._clerk.pace

    def accept(self, new: NewDocument) -> tuple[Document, bool]:
        """Keep a document and have it spoken; False where the same request was accepted before.

        Raises:
            ConflictError: another request came with the same idempotency key.
            BusyError: the queue is full; `retry_after` says for how long, at the pace so far.
            TooLargeError: it would not fit into an empty queue either.
            NoRoomError: its sound would not fit on the disk.
            UnavailableError: the service ends, or no worker speaks any more.
        """
        with self._entry:
            if self._closing:
                raise UnavailableError("the service is going down: send the document again soon", retry_after=10.0)
            if self.problem is not None:
                raise UnavailableError(f"no document can be spoken: {self.problem}; start the service again")
            earlier = self._store.earlier(new)
            if earlier is not None:
                return earlier, False
            load = self._store.load()
            self._check_queue(new, load)
            self._shelf.check_room(sum(chunk.estimated_seconds for chunk in new.chunks), load.estimated_seconds)
            document, fresh = self._store.accept(new)
            if fresh:
                self._clerk.arrived(document.id)
        self._events(document.id)
        return document, fresh

    def cancel(self, id: str) -> None:
        """Speak no more of a document, and delete it with all its sound.

        Raises:
            NotFoundError: there is none.
        """
        delete(self._store, self._shelf, id)
        self._clerk.deleted(id)
        self._gone(id)

    def retry(self, id: str) -> Document:
        """Have the chunks of a failed document that could not be spoken tried again.

        Raises:
            ConflictError: it has not failed.
            NotFoundError: there is none.
        """
        document = self._store.retry(id)
        self._clerk.arrived(id)
        self._events(id)
        return document

    def listen(self, id: str, listening: bool) -> None:
        """Counts a listener of the document in or out: the beginning of a document with listeners goes first."""
        with self._entry:
            before = self._listeners.pop(id, 0)
            after = max(0, before + (1 if listening else -1))
            if after:
                self._listeners[id] = after
            if bool(before) != bool(after):
                self._clerk.listen(id, bool(after))

    def _check_queue(self, new: NewDocument, load: Load) -> None:
        section, chunks = self._section, load.chunks + len(new.chunks)
        if len(new.chunks) > section.max_chunks:
            raise TooLargeError(
                f"the document has {len(new.chunks)} chunks, this service takes {section.max_chunks} in all: "
                "send it in parts, or raise --max-chunks"
            )
        if load.documents >= section.max_documents:
            raise BusyError(
                f"{load.documents} documents wait or are spoken, which is all that this service takes: come again",
                retry_after=self.pace.retry_after(load.estimated_seconds / load.documents),
            )
        if chunks > section.max_chunks:
            share = (chunks - section.max_chunks) / load.chunks
            raise BusyError(
                f"{load.chunks} chunks wait to be spoken and this document has {len(new.chunks)}, this service takes "
                f"{section.max_chunks} together: come again",
                retry_after=self.pace.retry_after(load.estimated_seconds * share),
            )
