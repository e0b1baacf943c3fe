"""Worker pool: jobs in, their chunks' audio out, one worker per device in between."""

from __future__ import annotations

import itertools
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.placement import Refusal
from voxyard.speech.pool import ipc
from voxyard.speech.pool.drain import Drain, PendingWorker
from voxyard.speech.pool.job import ChunkFailedError, FirstSound, Job, JobEndedError, OnFailure, Outcome
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.scheduler import (
    BeginWork,
    CancelLease,
    FailChunk,
    KillWorker,
    Scheduler,
    SendChunk,
    StartWorker,
    StopIdleWorker,
)
from voxyard.speech.pool.transport import Launch, StartRefused
from voxyard.speech.pool.worker_process import Device, ProcessEnded, WorkerProcess
from voxyard.speech.pool.workers import Charge, PoolWorker, WorkerMessage, Workers, WorkerState
from voxyard.speech.requests import Cancelled, Request, Result, Unspeakable

_log = logging.getLogger(__name__)

POLL_SECONDS = 1.0  # longest wait for a command


@dataclass(frozen=True)
class SubmitJob:
    """Speak a job, whose tenant has this share."""

    job: Job
    priority: int
    listening: bool
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


class Pool:
    """Spreads chunks over one worker per device.

    Use it as a context manager, or call `close`. Workers start when there is work for them, by `launch`: as processes
    of this host, which alone import the engine. `admit` is called before each start; its Refusal says why a device
    cannot take a worker yet. It is called again with exponential backoff, without a limit. `recalled` is asked every
    second while a worker runs, and its Refusal ends the worker: its chunks go to others.

    With `idle_release` in its limits, workers end where there is nothing to speak; `released` gets their devices.

    With `no_device` devices come and go while it runs (`add`, `remove`), and this is the message while there is none.
    `trouble` is a message while none can come, and none that is lost be had again.
    """

    def __init__(
        self,
        engine: EngineSpec,
        devices: Sequence[Device],
        *,
        limits: PoolLimits | None = None,
        heartbeat_seconds: float = 1.0,
        observer: PoolMetrics | None = None,
        admit: Callable[[Device], Refusal | None] = lambda _: None,
        recalled: Callable[[Device], Refusal | None] = lambda _: None,
        launch: Launch = WorkerProcess,
        no_device: str | None = None,
        trouble: Callable[[], str | None] = lambda: None,
        released: Callable[[Device], None] = lambda _: None,
    ) -> None:
        if not devices and no_device is None:
            raise SpeechError("a pool needs a device: found none; name a GPU, or use the CPU")
        self._no_device, self._trouble = no_device, trouble
        self._model = engine.model
        self._observer = PoolMetrics() if observer is None else observer
        self._scheduler = scheduler = Scheduler(len(devices), limits, elastic=no_device is not None)
        self._patience = min(scheduler.limits.heartbeat_timeout, scheduler.limits.progress_timeout) / 2
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._workers = Workers(
            devices, scheduler, engine, heartbeat_seconds,
            admit=admit, recalled=recalled, launch=launch, observer=self._observer, report=self._commands.put,
            patience=self._patience, released=released,
        )  # fmt: skip
        self._jobs: dict[int, Job] = {}
        self._submitted: dict[int, float] = {}
        self._first_sounds: dict[int, FirstSound] = {}  # of jobs with a listener who has heard nothing yet
        self._numbers = itertools.count()
        self._ended: SpeechError | None = None
        self._drain: Drain | None = None
        self._draining = False  # set by the pool's thread
        self._submission = threading.Lock()  # no job is lost between submit and the end of the loop
        self._thread = threading.Thread(target=self._run, name="speech pool", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def submit(
        self,
        requests: Sequence[Request],
        *,
        priority: int = 0,
        listening: bool = False,
        on_failure: OnFailure = "fail",
        deliver: Callable[[Outcome], None] | None = None,
        tenant: str = "",
        share: float = 1.0,
    ) -> Job:
        """Speak these chunks, which stand in text order; of several jobs the one of higher priority goes first.

        The job is put into the queue of the pool's thread, which goes on with it in `_execute`.

        Jobs of several tenants go side by side, by their shares: one with twice the share gets twice the audio.

        With `listening` its chunks go in text order, the first one at once and alone on its worker: the time until it
        is there does not depend on the length of the text.

        `deliver` gets each outcome as it comes, in whatever order, and the job keeps none: it is called from the
        pool's thread and must return at once.

        Raises:
            SpeechError: the pool has ended.
        """
        number = next(self._numbers)
        job = Job(
            number,
            requests,
            on_failure,
            cancel=lambda: self._commands.put(CancelJob(number)),
            listen=lambda listening: self._commands.put(SetListening(number, listening)),
            deliver=deliver,
            tenant=tenant,
        )
        with self._submission:
            if self._ended is not None:
                raise self._ended
            self._commands.put(SubmitJob(job, priority, listening, share))
        return job

    def meter(self, charge: Charge) -> None:
        """Has `charge` get what the tenants have spoken from now on."""
        self._workers.charge = charge

    def add(self, device: Device) -> None:
        """Use one more device."""
        self._commands.put(AddDevice(device))

    def remove(self, device: Device, reason: str) -> None:
        """Use a device no more: its worker is killed, and its chunks go to the others."""
        self._commands.put(RemoveDevice(device, reason))

    @property
    def ended(self) -> SpeechError | None:
        """Reason why it takes no more jobs; None while it does."""
        return self._ended

    def workers(self) -> tuple[WorkerState, ...]:
        """The workers, as they are now."""
        return self._workers.states()

    @property
    def waiting(self) -> str | None:
        """Message on why all its workers wait for their devices, or stall as they start; None while one may speak soon.

        Where devices come and go, also why there is none, or none whose worker starts.
        """
        enabled = [worker for worker in self.workers() if worker.state != "off"]
        loaded = any(worker.state in ("ready", "busy") for worker in enabled)
        if not loaded and (trouble := self._trouble()) is not None:
            return trouble
        if not enabled:
            return self._no_device
        waits = ("waiting",) if self._no_device is None else ("waiting", "resting")
        if any(worker.state not in waits and not worker.stalled for worker in enabled):
            return None
        return "; ".join(f"{each.device}: {each.reason}" if each.stalled else each.reason for each in enabled)

    @property
    def rows(self) -> int:
        """Chunks that its workers speak at a time; one each until they know."""
        return sum(slot.rows for slot in self._scheduler.slots if slot.phase != "off")

    def drain(self, *, below: float = math.inf) -> Drain:
        """Hand out no more chunks of jobs of a priority below this: what workers have of them is still delivered.

        The rest of these jobs, and new ones, wait until the pool is closed. A chunk that goes wrong is not tried
        again. A second call changes nothing, and gives the same.
        """
        with self._submission:
            if self._drain is None:
                self._drain = Drain()
                if self._ended is None:
                    self._commands.put(DrainPool(below))
                else:
                    self._drain.update(())
            return self._drain

    def close(self, seconds: float = 5.0) -> None:
        """Stop the workers: those that are idle cleanly, within so many seconds.

        Workers that still speak, or load their model, are killed at once: nobody gets what they would make.
        """
        self._commands.put(ClosePool())
        self._thread.join()
        self._workers.close(seconds)

    def _run(self) -> None:
        reason = SpeechError("the pool was closed")
        try:
            while self._step():
                pass
        except BaseException as error:
            reason = SpeechError(f"internal error in the pool: {type(error).__name__}: {error}")
            raise
        finally:
            with self._submission:
                self._ended = reason
            while not self._commands.empty():
                command = self._commands.get()
                if isinstance(command, SubmitJob):
                    command.job.end(reason)
            if self._drain is not None:
                self._drain.update(())
            for job in self._jobs.values():
                job.end(JobEndedError(f"job {job.number} was not spoken to its end: {reason}"))

    def _step(self) -> bool:
        """Wait for commands, carry them out with the actions that follow; False when the pool is to end."""
        before = time.monotonic()
        deadline = self._scheduler.next_deadline(before)
        timeout = POLL_SECONDS if deadline is None else min(deadline, POLL_SECONDS)
        try:
            received = [self._commands.get(timeout=timeout)]
        except queue.Empty:
            received = []
        paused = time.monotonic() - before > timeout + self._patience
        while not self._commands.empty():
            received.append(self._commands.get())
        for each in received:
            if isinstance(each, ClosePool):
                return False
            self._execute(each, time.monotonic())
        if paused:
            self._scheduler.resumed(time.monotonic())
        self._workers.recall()
        acted = self._act()
        if self._draining and self._drain is not None:
            self._drain.update(self._pending_workers())
        if acted or not all(_is_heartbeat(each) for each in received):
            self._observer.stats(self._scheduler.stats())
        return True

    def _pending_workers(self) -> tuple[PendingWorker, ...]:
        return tuple(
            PendingWorker(self._workers[worker.number].device.name, len(leases), min(lease.since for lease in leases))
            for worker, leases in self._scheduler.pending()
        )

    def _execute(self, command: Command, now: float) -> None:
        match command:
            case WorkerMessage():
                self._worker_message(command, now)
            case SubmitJob(job, priority, listening, share):
                estimates = [request.seconds for request in job.requests]
                self._jobs[job.number] = job
                self._submitted[job.number] = now
                self._listen(job.number, listening, now)
                self._scheduler.submit(
                    job.number, estimates, now,
                    priority=priority, listening=listening, tenant=job.tenant, share=share,
                )  # fmt: skip
                self._forget_finished(job)
            case CancelJob(number):
                self._forget(number)
            case SetListening(number, listening):
                self._listen(number, listening, now)
                self._scheduler.listen(number, listening)
            case DrainPool(below):
                self._scheduler.drain(below)
                self._draining = True
            case AddDevice(device):
                self._workers.add(device)
            case RemoveDevice(device, reason):
                self._workers.remove(device, reason)

    def _worker_message(self, report: WorkerMessage, now: float) -> None:
        """Handle a message of a worker's process. The scheduler ignores those of a former process of the slot."""
        slot, generation, worker = report.slot, report.generation, self._workers[report.slot]
        current = worker.generation == generation
        match report.message:
            case ipc.Heartbeat(progress, pause):
                self._scheduler.heartbeat(slot, generation, now, progress, pause)
            case ipc.EngineReady(ready):
                if current:
                    worker.ready = ready
                self._scheduler.engine_ready(slot, generation, ready.batch_limit, now)
            case ipc.ChunkWanted():
                self._scheduler.chunk_wanted(slot, generation, now)
            case ipc.ChunkDone():
                self._chunk_done(slot, generation, report.message, now)
            case ipc.EngineRaised(reason, out_of_memory):
                if current:
                    self._workers.worked(worker, now)
                    worker.sent.clear()
                self._observer.failure(worker.device.name, "out of memory" if out_of_memory else "raised")
                self._scheduler.engine_raised(slot, generation, reason, now, out_of_memory=out_of_memory)
            case ProcessEnded() | StartRefused():
                self._workers.ended(slot, generation, report.message, now)
            case ipc.EngineFailed():
                pass  # ProcessEnded follows, with this reason

    def _chunk_done(self, slot: int, generation: int, message: ipc.ChunkDone, now: float) -> None:
        worker = self._workers[slot]
        if worker.generation != generation or message.lease not in worker.sent:
            return  # from a former process, or taken back
        self._workers.worked(worker, now)
        sent, since, _ = worker.sent.pop(message.lease)
        if isinstance(message.answer, Cancelled):
            self._scheduler.chunk_cancelled(slot, generation, message.lease, now)
        elif isinstance(message.answer, Unspeakable):
            reason, refused = message.answer.reason, message.answer.refused
            if not refused:
                self._observer.failure(worker.device.name, "raised")
            self._scheduler.chunk_unspeakable(slot, generation, message.lease, reason, now, refused=refused)
        elif self._scheduler.chunk_done(slot, generation, message.lease, now):
            self._deliver(worker, sent, since, message.answer, now)

    def _act(self) -> bool:
        """Carry out the scheduler's actions; True where there were any."""
        acted = False
        while actions := self._scheduler.actions(now := time.monotonic()):
            acted = True
            for action in actions:
                match action:
                    case StartWorker(slot, generation):
                        self._workers.start(slot, generation, now)
                    case SendChunk():
                        self._send(action, now)
                    case CancelLease(slot, _, lease):
                        self._workers[slot].send(ipc.CancelChunk(lease))
                    case BeginWork(slot, _, rows):
                        self._workers[slot].send(ipc.BeginDecoding(rows))
                    case KillWorker(slot, _, reason, cause):
                        self._workers.kill(self._workers[slot], cause, reason)
                    case StopIdleWorker(slot, _):
                        self._workers.stop_idle(slot)
                    case FailChunk():
                        self._fail_chunk(action)
        return acted

    def _send(self, send: SendChunk, now: float) -> None:
        worker, chunk = self._workers[send.slot], send.chunk
        self._workers.worked(worker, now)
        worker.sent[send.lease] = send, now, self._jobs[chunk.job]
        request = replace(self._jobs[chunk.job].requests[chunk.index], urgent=send.urgent)
        worker.send(ipc.SpeakChunk(send.lease, request))
        self._observer.chunk_sent(worker.device.name, send.held)
        self._observer.chunk_waited(now - self._submitted[chunk.job])

    def _deliver(self, worker: PoolWorker, sent: SendChunk, since: float, result: Result, now: float) -> None:
        chunk, job = sent.chunk, self._jobs[sent.chunk.job]
        reduced = worker.ready is not None and sent.rows < max(worker.ready.batch_limit, worker.ready.meant_rows)
        seconds = now - since
        self._hear(job, chunk.index, result, now)
        self._observer.chunk_spoken(worker.device.name, result.seconds, seconds)
        faults = result.facts.get("faults")
        if isinstance(faults, (list, tuple)):  # of an engine that checks what it speaks
            self._observer.chunk_checked(worker.device.name, self._model, [str(fault) for fault in faults])
        request = job.requests[chunk.index]
        if request.characters:
            self._workers.charge(job.tenant, request.characters, result.seconds, 0.0)
        job.add(Outcome(chunk.index, request, result, None, worker.device.name, seconds, reduced))
        self._forget_finished(job)

    def _fail_chunk(self, action: FailChunk) -> None:
        job = self._jobs.get(action.chunk.job)
        if job is None:
            return
        request = job.requests[action.chunk.index]
        refused = action.cause == "refused"
        failure = ChunkFailedError(action.chunk.index, request.text, action.reason, refused=refused)
        silence = job.on_failure == "silence"
        level = logging.WARNING if refused else logging.ERROR  # a request at fault is no fault of the pool
        _log.log(level, "job %d: %s", job.number, failure)  # what becomes of it is its caller's decision
        self._observer.chunk_failed(action.cause, silence=silence)
        result = Result.silence(request) if silence else None
        if result is not None:
            self._hear(job, action.chunk.index, result, time.monotonic())
        job.add(Outcome(action.chunk.index, request, result, failure))
        self._forget_finished(job)

    def _listen(self, number: int, listening: bool, now: float) -> None:
        """Begin to measure the time to first sound, where nothing of the job is spoken yet; or stop."""
        job = self._jobs.get(number)
        if not listening:
            self._first_sounds.pop(number, None)
        elif job is not None and not job.progress.done:
            self._first_sounds.setdefault(number, FirstSound(now))

    def _hear(self, job: Job, index: int, result: Result, now: float) -> None:
        """Report the time to first sound once it is known."""
        first = self._first_sounds.get(job.number)
        seconds = None if first is None else first.add(index, result, now)
        if seconds is not None:
            self._observer.first_audio(seconds)
            del self._first_sounds[job.number]

    def _forget_finished(self, job: Job) -> None:
        # A job that its caller has just cancelled stays until CancelJob is read: planned actions may still name it.
        if job.progress.done == len(job.requests):
            self._forget(job.number)

    def _forget(self, number: int) -> None:
        self._scheduler.cancel(number)
        for of_jobs in (self._jobs, self._submitted, self._first_sounds):
            of_jobs.pop(number, None)


def _is_heartbeat(command: Command) -> bool:
    return isinstance(command, WorkerMessage) and isinstance(command.message, ipc.Heartbeat)
