"""Documents in dispatch, in memory: the active and the parked ones, and who listens."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from voxyard.service.documents.claims import Stage
from voxyard.service.documents.records import Document, StoredChunk
from voxyard.speech.pool.job import Job

HERE = ""
"""Name of this service."""


class Listeners:
    """Services at which a document has listeners; one that does not repeat so within `seconds` is gone."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._until: dict[str, dict[str, float]] = {}  # id → service → when its word ends

    def __contains__(self, id: str) -> bool:
        return id in self._until

    def set(self, id: str, listening: bool, service: str = HERE) -> bool:
        """Adds or removes a service; True where the document got its first listener or lost its last."""
        before = id in self._until
        services = self._until.setdefault(id, {})
        if listening:
            services[service] = float("inf") if service == HERE else self._clock() + self._seconds
        else:
            services.pop(service, None)
        if not services:
            del self._until[id]
        return before != (id in self._until)

    def expire(self) -> tuple[str, ...]:
        """Removes the services that are gone; returns the documents that lost their last listener."""
        now = self._clock()
        gone = [(id, each) for id, services in self._until.items() for each, until in services.items() if until < now]
        return tuple(id for id, service in gone if self.set(id, False, service))

    def forget(self, id: str) -> None:
        """Removes a document."""
        self._until.pop(id, None)


@dataclass(eq=False, slots=True)
class ActiveDocument:
    """Document whose upload is being read, or whose chunks are in the pool."""

    id: str
    remaining: dict[int, StoredChunk]  # chunks without an outcome
    job: Job | None = None
    reported_reason: str | None = None  # why it is parked, as the store has it
    cancelled: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        """Ends the reading of its upload, or its job. May be called from any thread."""
        self.cancelled.set()
        if self.job is not None:
            self.job.cancel()


class DispatchedDocuments:
    """Active and parked documents with their owners; used by the dispatcher's thread alone, but for `active.get`."""

    def __init__(self) -> None:
        self.active: dict[str, ActiveDocument] = {}
        self.parked: dict[str, str] = {}  # id → reason, in order of arrival
        self._known: dict[str, Document] = {}  # that are or were active or parked

    def __contains__(self, id: str) -> bool:
        return id in self.active or id in self.parked

    def __iter__(self) -> Iterator[str]:
        return iter((*self.active, *self.parked))

    @property
    def unspoken(self) -> int:
        """Chunks in the pool without an outcome."""
        return sum(len(active.remaining) for active in self.active.values())

    def by_owner(self, stage: Stage) -> Counter[str]:
        """Number of the documents whose uploads are being read, or that are in the pool or parked, by owner."""
        self._known = {id: document for id, document in self._known.items() if id in self}
        return Counter(each.owner for each in self._known.values() if self._stage(each) == stage)

    def know(self, document: Document) -> None:
        """Takes note of the owner of a document that is about to be active or parked, and of what it waits for."""
        self._known[document.id] = document

    def _stage(self, document: Document) -> Stage:
        if document.state == "completed":
            return "redoing"
        active = self.active.get(document.id)
        return "extracting" if active is not None and active.job is None else "speaking"
