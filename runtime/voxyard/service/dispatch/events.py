"""Messages from the other threads to the dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from voxyard.service.dispatch.progress import ActiveDocument
from voxyard.speech.pool.job import Outcome


@dataclass(frozen=True, eq=False)
class ChunkFinished:
    """A chunk has an outcome."""

    document: ActiveDocument
    outcome: Outcome


@dataclass(frozen=True, eq=False)
class ThreadEnded:
    """A thread that works for a document has ended, also where it was cancelled; `then` stores what it has made."""

    document: ActiveDocument
    then: Callable[[], None]


@dataclass(frozen=True)
class DocumentAccepted:
    """A document was stored, is retried or was given back."""


@dataclass(frozen=True)
class DocumentDeleted:
    """A document was deleted from the store."""

    id: str


@dataclass(frozen=True)
class ListenersChanged:
    """The document got its first listener or lost its last, here or at another service; or has one there still."""

    id: str
    listening: bool
    service: str


@dataclass(frozen=True)
class DocumentTakenOver:
    """Another service has taken the document over."""

    id: str


@dataclass(frozen=True)
class DispatcherClosing:
    """The dispatcher is to end."""


DispatcherEvent = (
    ThreadEnded
    | ChunkFinished
    | DocumentAccepted
    | DocumentDeleted
    | DocumentTakenOver
    | ListenersChanged
    | DispatcherClosing
)
