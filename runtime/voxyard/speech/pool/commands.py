"""Commands to the pool's thread, from the readers of its workers' pipes and from its callers."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.speech.pool.ipc import FromWorker
from voxyard.speech.pool.job import Job
from voxyard.speech.pool.transport import StartRefused
from voxyard.speech.pool.worker_process import Device, ProcessEnded


@dataclass(frozen=True)
class WorkerMessage:
    """A message of a worker process, or its end."""

    slot: int
    generation: int
    message: FromWorker | ProcessEnded | StartRefused


@dataclass(frozen=True)
class SubmitJob:
    """Speak a tenant's job."""

    job: Job
    priority: int
    listening: bool
    tenant: str
    share: float


@dataclass(frozen=True)
class CancelJob:
    """Drop a job that its caller has cancelled."""

    job: int


@dataclass(frozen=True)
class SetListening:
    """A listener of the job's audio has come or gone."""

    job: int
    listening: bool


@dataclass(frozen=True)
class DrainPool:
    """Hand out no more chunks of jobs of a priority below this."""

    below: float


@dataclass(frozen=True)
class AddDevice:
    """A device has come."""

    device: Device


@dataclass(frozen=True)
class RemoveDevice:
    """A device has gone."""

    device: Device
    reason: str


@dataclass(frozen=True)
class ClosePool:
    """End the pool."""


Command = WorkerMessage | SubmitJob | CancelJob | SetListening | DrainPool | AddDevice | RemoveDevice | ClosePool
