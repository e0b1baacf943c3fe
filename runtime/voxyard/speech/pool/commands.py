"""Messages to the pool's thread, from its workers' readers and from its callers."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.speech.pool.ipc import FromWorker
from voxyard.speech.pool.job import Job
from voxyard.speech.pool.worker_process import Gone


@dataclass(frozen=True)
class Said:
    """A worker's process has said something, or has ended."""

    slot: int
    generation: int
    message: FromWorker | Gone


@dataclass(frozen=True)
class Submitted:
    """A job is to be spoken."""

    job: Job
    priority: int
    listening: bool


@dataclass(frozen=True)
class Cancelled:
    """The job was cancelled."""

    job: int


@dataclass(frozen=True)
class Listening:
    """A listener of the job's audio has come or gone."""

    job: int
    listening: bool


@dataclass(frozen=True)
class Draining:
    """No more chunks of jobs of a priority below this are to be handed out."""

    below: float


@dataclass(frozen=True)
class Closing:
    """The pool is to end."""


Letter = Said | Submitted | Cancelled | Listening | Draining | Closing
