"""Transport of a pool: how it starts a worker on a device, sends it messages, ends it, and hears of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from voxyard.speech.engine import EngineSpec
from voxyard.speech.placement import Refusal
from voxyard.speech.pool.ipc import FromWorker, ToWorker
from voxyard.speech.pool.worker_process import Device, ProcessEnded


@dataclass(frozen=True)
class StartRefused:
    """The device cannot take a worker yet, as its own host finds: no process was started."""

    refusal: Refusal


OnWorkerMessage = Callable[[FromWorker | ProcessEnded | StartRefused], None]


class Worker(Protocol):
    """A worker that was started. `WorkerProcess` is one on this host."""

    @property
    def pid(self) -> int | None:
        """Process id on its host; None as long as it is not known."""

    def send(self, message: ToWorker) -> None:
        """Send a message as soon as the worker reads."""

    def kill(self) -> None:
        """Kill it at once, a stopped process too."""

    def join(self, seconds: float) -> bool:
        """Wait until it has ended and all its messages are reported; False after a timeout."""


class Launch(Protocol):
    """Starts a worker. The report gets each of its messages, from a thread of its own, and at last how it ended."""

    def __call__(
        self, device: Device, engine: EngineSpec, heartbeat_seconds: float, report: OnWorkerMessage, /
    ) -> Worker:
        """The worker, which may still be on its way.

        Raises:
            OSError: it cannot be started.
        """
