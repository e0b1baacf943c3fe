"""Messages from the other threads to the dispatcher."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.speech.pool.job import Job, Outcome


@dataclass(eq=False, slots=True)
class InPool:
    """A document whose chunks are in the pool."""

    id: str
    left: set[int]  # chunks without an outcome
    job: Job | None = None
    told: str | None = None  # what the store says that it waits for


@dataclass(frozen=True, eq=False)
class Heard:
    """A chunk has come to an end."""

    document: InPool
    outcome: Outcome


@dataclass(frozen=True)
class Arrived:
    """A document is in the store, to be spoken."""

    id: str


@dataclass(frozen=True)
class Gone:
    """A document was deleted from the store."""

    id: str


@dataclass(frozen=True)
class Listening:
    """A listener of the document has come or gone."""

    id: str
    listening: bool


@dataclass(frozen=True)
class Closing:
    """The dispatcher is to end."""


Letter = Heard | Arrived | Gone | Listening | Closing
