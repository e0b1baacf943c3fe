"""Workers of a pool: one process for each device, started and ended as the scheduler says."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from voxyard.speech.engine import EngineSpec, Ready
from voxyard.speech.placement import Refusal
from voxyard.speech.pool import ipc
from voxyard.speech.pool.ipc import FromWorker
from voxyard.speech.pool.job import Job
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.scheduler import Scheduler, SendChunk
from voxyard.speech.pool.transport import Launch, StartRefused, Worker
from voxyard.speech.pool.worker_process import Device, ProcessEnded
from voxyard.speech.pool.worker_slot import State, WorkerSlot


@dataclass(frozen=True)
class WorkerMessage:
    """A message of a worker process, or its end."""

    slot: int
    generation: int
    message: FromWorker | ProcessEnded | StartRefused


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerState:
    """A worker as an operator sees it."""

    device: str
    state: State
    pid: int | None
    processes: int  # started so far
    ready: Ready | None
    reason: str = ""  # why it does not run: its device has no memory yet, or its last start failed
    woken: bool = False  # it starts because there is work again
    stalled: bool = False  # its start takes too long


@dataclass(slots=True)
class PoolWorker:
    """State of a slot in the pool itself, beside the scheduler's."""

    device: Device
    process: Worker | None = None
    generation: int = 0
    ready: Ready | None = None
    refusal: Refusal | None = None  # of its device, at the latest attempt to start
    sent: dict[int, tuple[SendChunk, float, Job]] = field(default_factory=dict)  # by lease, and when
    reported: float = 0.0  # until when its work has been reported to the observer

    def send(self, message: ipc.ToWorker) -> None:
        """Sends a message to its process, where it has one."""
        if self.process is not None:
            self.process.send(message)

    def forget_process(self) -> None:
        """Its process has ended, or does not count any more."""
        self.process, self.ready, self.sent = None, None, {}


Charge = Callable[[str, int, float, float], None]
"""Gets what a tenant has had spoken: characters of its text, seconds of audio, seconds of workers. Returns at once."""


class Workers:
    """Processes of the slots, by slot; used by the pool's thread, but for `states`, and for `close` after its end."""

    def __init__(
        self,
        devices: Sequence[Device],
        scheduler: Scheduler,
        engine: EngineSpec,
        heartbeat_seconds: float,
        *,
        admit: Callable[[Device], Refusal | None],
        recalled: Callable[[Device], Refusal | None],
        launch: Launch,
        observer: PoolMetrics,
        report: Callable[[WorkerMessage], None],
        patience: float,
        released: Callable[[Device], None],
    ) -> None:
        """`report` gets what the processes say; a start that takes longer than `patience` seconds held up the rest.

        `released` gets the devices whose workers have ended for want of work.
        """
        self._list = [PoolWorker(device) for device in devices]
        self._scheduler, self._engine, self._heartbeat_seconds = scheduler, engine, heartbeat_seconds
        self._admit, self._recalled, self._launch, self._observer = admit, recalled, launch, observer
        self._report, self._patience, self._released = report, patience, released
        self.charge: Charge = lambda *_: None

    def __getitem__(self, slot: int) -> PoolWorker:
        return self._list[slot]

    def states(self) -> tuple[WorkerState, ...]:
        """The workers, as they are now."""
        pairs = zip(self._list, self._scheduler.slots)  # noqa: B905 — the pool's thread may add one now
        return tuple(_worker_state(worker, slot) for worker, slot in pairs if slot.present)

    def start(self, slot: int, generation: int, now: float) -> None:
        """Starts the process of a slot, where its device is free."""
        worker = self._list[slot]
        worker.generation, worker.ready = generation, None
        worker.refusal, refusal = None, self._admit(worker.device)
        if time.monotonic() - now > self._patience:  # a driver may take its time to answer
            self._scheduler.resumed(time.monotonic())
        if refusal is not None:
            self._refused(worker, slot, generation, refusal)
            return
        self._observer.device_waits(worker.device.name, None)
        try:
            worker.process = self._launch(
                worker.device,
                self._engine,
                self._heartbeat_seconds,
                lambda message: self._report(WorkerMessage(slot, generation, message)),
            )
        except OSError as error:
            reason = f"its process cannot be started: {error}"
            _log.warning("worker %s: %s", worker.device.name, reason)
            self._scheduler.process_ended(slot, generation, reason, now)

    def ended(self, slot: int, generation: int, end: ProcessEnded | StartRefused, now: float) -> None:
        """A process has ended, or could not be started on its host."""
        worker = self._list[slot]
        current = worker.generation == generation
        if isinstance(end, StartRefused):
            if current:
                worker.forget_process()
                self._refused(worker, slot, generation, end.refusal)
            return
        if current and self._scheduler.slots[slot].phase == "stopping":
            worker.forget_process()
            _log.info("worker %s has ended: there is nothing to speak", worker.device.name)
            self._released(worker.device)
        elif current and worker.process is not None:
            _log.warning("worker %s: %s", worker.device.name, end.reason)
            self._observer.failure(worker.device.name, "died" if end.cause == "crashed" else end.cause)
            worker.forget_process()
        self._scheduler.process_ended(slot, generation, end.reason, now, cause=end.cause)

    def _refused(self, worker: PoolWorker, slot: int, generation: int, refusal: Refusal) -> None:
        worker.refusal = refusal
        _log.warning("worker %s waits for its device: %s", worker.device.name, refusal.message)
        self._observer.device_waits(worker.device.name, refusal.cause)
        self._scheduler.start_refused(slot, generation, time.monotonic(), refusal.wait)

    def add(self, device: Device) -> None:
        """Uses one more device."""
        slot, worker = self._scheduler.add_slot(), PoolWorker(device)
        if slot < len(self._list):
            self._list[slot] = worker
        else:
            self._list.append(worker)

    def remove(self, device: Device, reason: str) -> None:
        """Uses a device no more."""
        for slot, worker in enumerate(self._list):
            if worker.device == device and self._scheduler.slots[slot].present:
                if worker.process is not None:
                    self.kill(worker, "left", reason)
                self._observer.device_waits(device.name, None)
                self._scheduler.remove_slot(slot, reason)

    def kill(self, worker: PoolWorker, cause: str, reason: str) -> None:
        """Kills a process."""
        _log.warning("worker %s is killed (%s): %s", worker.device.name, cause, reason)
        self._observer.failure(worker.device.name, cause)
        if worker.process is not None:
            worker.process.kill()
        worker.forget_process()
        if self._scheduler.slots[self._list.index(worker)].idle:
            self._released(worker.device)

    def recall(self) -> None:
        """Kills the processes whose devices are to have none any more; their chunks go elsewhere."""
        for slot, worker in enumerate(self._list):
            if worker.process is None or self._scheduler.slots[slot].idle:
                continue
            if (refusal := self._recalled(worker.device)) is not None:
                self.kill(worker, refusal.cause, refusal.message)
                self._released(worker.device)
                self._refused(worker, slot, worker.generation, refusal)

    def stop_idle(self, slot: int) -> None:
        """Lets the process of a slot end, where it has one."""
        worker = self._list[slot]
        worker.refusal = None
        self._observer.device_waits(worker.device.name, None)
        worker.send(ipc.StopWorker())

    def worked(self, worker: PoolWorker, now: float) -> None:
        """Report the time in which the worker had chunks since the last report; they share it."""
        if worker.sent:
            seconds = now - worker.reported
            self._observer.worked(worker.device.name, seconds)
            for _, _, job in worker.sent.values():
                self.charge(job.tenant, 0, 0.0, seconds / len(worker.sent))
        worker.reported = now

    def close(self, seconds: float) -> None:
        """Stops idle workers within so many seconds, and kills the others."""
        deadline = time.monotonic() + seconds
        processes = []
        for worker, slot in zip(self._list, self._scheduler.slots, strict=True):
            if worker.process is None:
                continue
            processes.append(worker.process)
            if slot.leases or not slot.running:
                worker.process.kill()
            else:
                worker.process.send(ipc.StopWorker())
        for process in processes:
            if not process.join(max(0.0, deadline - time.monotonic())):
                process.kill()
                process.join(seconds)
        for worker in self._list:
            worker.process = None


def _worker_state(worker: PoolWorker, slot: WorkerSlot) -> WorkerState:
    refusal = worker.refusal  # read once: the pool's thread may change it
    pid = worker.process.pid if worker.process else None
    if refusal is not None:
        return WorkerState(worker.device.name, "waiting", pid, slot.generation, None, refusal.message)
    stalled = slot.stalls(time.monotonic())
    reason = "its model takes long to load" if stalled else "" if slot.running or slot.idle else slot.failure
    return WorkerState(worker.device.name, slot.state, pid, slot.generation, worker.ready, reason, slot.woken, stalled)
