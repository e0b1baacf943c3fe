"""Worker pool: jobs in, audio out in text order, one process per device in between."""

from __future__ import annotations

import itertools
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from voxyard.speech.engine import EngineSpec, Ready
from voxyard.speech.errors import SpeechError
from voxyard.speech.placement import Refusal
from voxyard.speech.pool import ipc
from voxyard.speech.pool.commands import Cancelled, Closing, Draining, Letter, Listening, Said, Submitted
from voxyard.speech.pool.drain import Awaited, Drain
from voxyard.speech.pool.ipc import Answered, Beat, Lost, Opened, Raised, Speak, Stop, ToWorker, Want
from voxyard.speech.pool.job import ChunkFailedError, Job, JobEndedError, OnFailure, Outcome
from voxyard.speech.pool.limits import Limits
from voxyard.speech.pool.observer import PoolObserver
from voxyard.speech.pool.scheduler import Begin, GiveUp, Kill, Scheduler, Send, Start
from voxyard.speech.pool.worker_process import Device, Gone, WorkerProcess
from voxyard.speech.pool.worker_slot import Slot, State
from voxyard.speech.requests import SAMPLE_RATE, Request, Result, Unspeakable

_log = logging.getLogger(__name__)

LOOK = 1.0  # seconds after which the pool looks around, whatever the scheduler says


@dataclass(frozen=True)
class WorkerState:
    """A worker as an operator sees it."""

    device: str
    state: State
    pid: int | None
    processes: int  # started so far
    ready: Ready | None
    reason: str = ""  # why it does not run: its device has no room yet, or its last start failed


@dataclass(slots=True)
class _Worker:
    """State of a slot in the pool itself, beside the scheduler's."""

    device: Device
    process: WorkerProcess | None = None
    generation: int = 0
    ready: Ready | None = None
    refusal: Refusal | None = None  # its device's, at the latest try to start
    sent: dict[int, tuple[Send, float]] = field(default_factory=dict)  # by lease, and when
    told: float = 0.0  # up to when its work has been told to the observer


class Pool:
    """Spreads chunks over one process per device.

    Use it as a context manager, or call `close`. Processes start when there is work for them; the parent never
    imports the engine. `admit` is asked before each start and says why a device cannot take a worker yet: it is asked
    again, less and less often, for as long as that lasts.
    """

    def __init__(
        self,
        engine: EngineSpec,
        devices: Sequence[Device],
        *,
        limits: Limits | None = None,
        beat: float = 1.0,
        observer: PoolObserver | None = None,
        admit: Callable[[Device], Refusal | None] = lambda _: None,
    ) -> None:
        if not devices:
            raise SpeechError("a pool needs a device: found none; name a GPU, or use the CPU")
        self._engine, self._beat, self._admit = engine, beat, admit
        self._observer = PoolObserver() if observer is None else observer
        self._scheduler = Scheduler(len(devices), limits)
        self._workers = [_Worker(device) for device in devices]
        self._jobs: dict[int, Job] = {}
        self._submitted: dict[int, float] = {}
        self._numbers = itertools.count()
        self._mail: queue.SimpleQueue[Letter] = queue.SimpleQueue()
        self._ended: SpeechError | None = None
        self._drain: Drain | None = None
        self._draining = False  # the pool's thread has read it
        self._entry = threading.Lock()  # between submit and the end of the loop: no job falls between
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
    ) -> Job:
        """Speak these chunks, which stand in text order; of several jobs the one of higher priority goes first.

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
            cancel=lambda: self._mail.put(Cancelled(number)),
            listen=lambda listening: self._mail.put(Listening(number, listening)),
            deliver=deliver,
        )
        with self._entry:
            if self._ended is not None:
                raise self._ended
            self._mail.put(Submitted(job, priority, listening))
        return job

    @property
    def ended(self) -> SpeechError | None:
        """Reason why it takes no more jobs; None while it does."""
        return self._ended

    def workers(self) -> tuple[WorkerState, ...]:
        """The workers, as they are now."""
        pairs = zip(self._workers, self._scheduler.slots, strict=True)
        return tuple(_seen(worker, slot) for worker, slot in pairs)

    @property
    def waiting(self) -> str | None:
        """Reason why all its workers wait, in words; None while one of them runs, or may start."""
        able = [worker for worker in self.workers() if worker.state != "off"]
        if not able or any(worker.state != "waiting" for worker in able):
            return None
        return "; ".join(worker.reason for worker in able)

    def drain(self, *, below: float = math.inf) -> Drain:
        """Hand out no more chunks of jobs of a priority below this: what workers have of them is still delivered.

        The rest of these jobs, and new ones, wait until the pool is closed. A chunk that goes wrong is not tried
        again. A second call changes nothing, and gives the same.
        """
        with self._entry:
            if self._drain is None:
                self._drain = Drain()
                if self._ended is None:
                    self._mail.put(Draining(below))
                else:
                    self._drain.tell(())
            return self._drain

    def close(self, seconds: float = 5.0) -> None:
        """Stop the workers: in order where they are idle within so many seconds, else by force.

        After a drain, workers that still speak have had their time, and are ended at once.
        """
        self._mail.put(Closing())
        self._thread.join()
        deadline = time.monotonic() + seconds
        processes = []
        for worker, slot in zip(self._workers, self._scheduler.slots, strict=True):
            if worker.process is None:
                continue
            processes.append(worker.process)
            if self._drain is not None and slot.leases:
                worker.process.kill()
            else:
                worker.process.send(Stop())
        for process in processes:
            if not process.join(max(0.0, deadline - time.monotonic())):
                process.kill()
                process.join(seconds)
        for worker in self._workers:
            worker.process = None

    def _run(self) -> None:
        reason = SpeechError("the pool was closed")
        try:
            while self._step():
                pass
        except BaseException as error:
            reason = SpeechError(f"the pool broke down, which is a fault of its own: {type(error).__name__}: {error}")
            raise
        finally:
            with self._entry:
                self._ended = reason
            while not self._mail.empty():
                mail = self._mail.get()
                if isinstance(mail, Submitted):
                    mail.job.end(reason)
            if self._drain is not None:
                self._drain.tell(())
            for job in self._jobs.values():
                job.end(JobEndedError(f"job {job.number} has not been spoken to its end: {reason}"))

    def _step(self) -> bool:
        """Wait for mail, deal with it and what follows from it; False when it is time to end."""
        before = time.monotonic()
        look = self._scheduler.next_look(before)
        timeout = LOOK if look is None else min(look, LOOK)
        try:
            mail = [self._mail.get(timeout=timeout)]
        except queue.Empty:
            mail = []
        paused = time.monotonic() - before > timeout + self._scheduler.limits.silent_seconds / 2
        while not self._mail.empty():
            mail.append(self._mail.get())
        for each in mail:
            if isinstance(each, Closing):
                return False
            self._read(each, time.monotonic())
        if paused:
            self._scheduler.resumed(time.monotonic())
        acted = self._act()
        if self._draining and self._drain is not None:
            self._drain.tell(self._awaited())
        if acted or any(not (isinstance(each, Said) and isinstance(each.message, Beat)) for each in mail):
            self._observer.census(self._scheduler.census())
        return True

    def _awaited(self) -> tuple[Awaited, ...]:
        return tuple(
            Awaited(self._workers[place.number].device.name, len(leases), min(lease.since for lease in leases))
            for place, leases in self._scheduler.awaited()
        )

    def _read(self, mail: Letter, now: float) -> None:
        match mail:
            case Said():
                self._hear(mail, now)
            case Submitted(job, priority, listening):
                estimates = [request.seconds for request in job.requests]
                self._jobs[job.number] = job
                self._submitted[job.number] = now
                self._scheduler.submit(job.number, estimates, now, priority=priority, listening=listening)
                self._forget_finished(job)
            case Cancelled(number):
                self._scheduler.cancel(number)
                self._jobs.pop(number, None)
                self._submitted.pop(number, None)
            case Listening(number, listening):
                self._scheduler.listen(number, listening)
            case Draining(below):
                self._scheduler.drain(below)
                self._draining = True

    def _hear(self, said: Said, now: float) -> None:
        """Handles a message of a worker's process. The scheduler ignores those of a former process of the slot."""
        slot, generation, worker = said.slot, said.generation, self._workers[said.slot]
        current = worker.generation == generation
        match said.message:
            case Beat():
                self._scheduler.heartbeat(slot, generation, now)
            case Opened(ready):
                if current:
                    worker.ready = ready
                self._scheduler.opened(slot, generation, ready.batch_limit, now)
            case Want():
                self._scheduler.asked(slot, generation, now)
            case Answered():
                self._answered(slot, generation, said.message, now)
            case Raised(reason, memory):
                if current:
                    self._worked(worker, now)
                    worker.sent.clear()
                self._observer.trouble(worker.device.name, "out of memory" if memory else "raised")
                self._scheduler.raised(slot, generation, reason, now, memory=memory)
            case Gone(reason):
                if current and worker.process is not None:
                    _log.warning("worker %s: %s", worker.device.name, reason)
                    self._observer.trouble(worker.device.name, "died")
                    self._without_process(worker)
                self._scheduler.died(slot, generation, reason, now)
            case Lost():
                pass  # its end follows, with this reason

    def _answered(self, slot: int, generation: int, said: Answered, now: float) -> None:
        worker = self._workers[slot]
        if worker.generation != generation or said.lease not in worker.sent:
            return  # from a former process, or taken back
        self._worked(worker, now)
        sent, since = worker.sent.pop(said.lease)
        if isinstance(said.answer, Unspeakable):
            self._observer.trouble(worker.device.name, "raised")
            self._scheduler.unspeakable(slot, generation, said.lease, said.answer.reason, now)
        elif self._scheduler.spoken(slot, generation, said.lease, now):
            self._hand_over(worker, sent, since, said.answer, now)

    def _act(self) -> bool:
        """Do what follows; whether that was anything."""
        acted = False
        while actions := self._scheduler.actions(now := time.monotonic()):
            acted = True
            for action in actions:
                match action:
                    case Start(slot, generation):
                        self._start(slot, generation, now)
                    case Send():
                        self._send(action, now)
                    case Begin(slot, _, rows):
                        self._say(self._workers[slot], ipc.Begin(rows))
                    case Kill(slot, _, reason):
                        self._kill(self._workers[slot], reason)
                    case GiveUp():
                        self._give_up(action)
        return acted

    def _start(self, slot: int, generation: int, now: float) -> None:
        worker = self._workers[slot]
        worker.generation, worker.ready = generation, None
        worker.refusal = refusal = self._admit(worker.device)
        self._observer.waits(worker.device.name, None if refusal is None else refusal.cause)
        if refusal is not None:
            _log.warning("worker %s waits: %s", worker.device.name, refusal.sentence)
            self._scheduler.refused(slot, generation, time.monotonic())  # a driver may take its time to answer
            return
        try:
            worker.process = WorkerProcess(
                worker.device,
                self._engine,
                self._beat,
                lambda message: self._mail.put(Said(slot, generation, message)),
            )
        except OSError as error:
            reason = f"its process does not start: {error}"
            _log.warning("worker %s: %s", worker.device.name, reason)
            self._scheduler.died(slot, generation, reason, now)

    def _send(self, send: Send, now: float) -> None:
        worker, chunk = self._workers[send.slot], send.chunk
        self._worked(worker, now)
        worker.sent[send.lease] = send, now
        self._say(worker, Speak(send.lease, self._jobs[chunk.job].requests[chunk.index]))
        self._observer.batch(worker.device.name, send.held)
        self._observer.waited(now - self._submitted[chunk.job])

    def _say(self, worker: _Worker, message: ToWorker) -> None:
        if worker.process is not None:
            worker.process.send(message)

    def _kill(self, worker: _Worker, reason: str) -> None:
        _log.warning("worker %s is ended: %s", worker.device.name, reason)
        self._observer.trouble(worker.device.name, "killed")
        if worker.process is not None:
            worker.process.kill()
        self._without_process(worker)

    def _without_process(self, worker: _Worker) -> None:
        worker.process, worker.ready, worker.sent = None, None, {}

    def _worked(self, worker: _Worker, now: float) -> None:
        """Tell the time since the last telling, in which the worker had chunks or had none."""
        if worker.sent:
            self._observer.worked(worker.device.name, now - worker.told)
        worker.told = now

    def _hand_over(self, worker: _Worker, sent: Send, since: float, result: Result, now: float) -> None:
        chunk, job = sent.chunk, self._jobs[sent.chunk.job]
        reduced = worker.ready is not None and sent.rows < worker.ready.batch_limit
        seconds = now - since
        if chunk.index == 0:
            self._observer.first_audio(now - self._submitted[chunk.job])
        self._observer.spoken(worker.device.name, result.seconds, seconds)
        request = job.requests[chunk.index]
        job.put(Outcome(chunk.index, request, result, None, worker.device.name, seconds, reduced))
        self._forget_finished(job)

    def _give_up(self, action: GiveUp) -> None:
        job = self._jobs.get(action.chunk.job)
        if job is None:
            return
        request = job.requests[action.chunk.index]
        failure = ChunkFailedError(action.chunk.index, request.text, action.reason)
        silence = job.on_failure == "silence"
        _log.error("job %d: %s%s", job.number, failure, "; it becomes silence" if silence else "")
        self._observer.gave_up(action.cause, silence=silence)
        job.put(Outcome(action.chunk.index, request, _silence(request) if silence else None, failure))
        self._forget_finished(job)

    def _forget_finished(self, job: Job) -> None:
        # A job that its caller has just cancelled stays until that is read here: what is planned may still name it.
        if job.progress.done == len(job.requests):
            self._scheduler.cancel(job.number)
            self._jobs.pop(job.number, None)
            self._submitted.pop(job.number, None)


def _seen(worker: _Worker, slot: Slot) -> WorkerState:
    refusal = worker.refusal  # read once: the pool's thread goes on
    pid = worker.process.pid if worker.process else None
    if refusal is not None:
        return WorkerState(worker.device.name, "waiting", pid, slot.generation, None, refusal.sentence)
    reason = "" if slot.running else slot.reason
    return WorkerState(worker.device.name, slot.state, pid, slot.generation, worker.ready, reason)


def _silence(request: Request) -> Result:
    """As much silence as the text would have taken."""
    import numpy as np

    samples = round(max(0.0, request.seconds) * SAMPLE_RATE)
    return Result(request.chunk, np.zeros(samples, np.float32), SAMPLE_RATE, {"silence": True})
