"""Messages to the pool's thread, from its workers' readers and from its callers."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.speech.job import Job
from voxyard.speech.messages import FromWorker
from voxyard.speech.process import Gone


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
    """Nobody wants the job any more."""

    job: int


@dataclass(frozen=True)
class Listening:
    """Somebody waits for the job's sound, or does no longer."""

    job: int
    listening: bool


@dataclass(frozen=True)
class Draining:
    """No more chunks of jobs of a priority below this are to be handed out."""

    below: float


@dataclass(frozen=True)
class Closing:
    """It is time to end."""


Letter = Said | Submitted | Cancelled | Listening | Draining | Closing
