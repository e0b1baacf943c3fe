"""Chunk scheduler: a state machine without a clock, processes or audio.

Its owner reports what happened, with the time, and then carries out `actions(now)`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from voxyard.speech.pool.limits import FEW, PoolLimits, workers_wanted
from voxyard.speech.pool.queue import ChunkKey, ChunkQueue, QueuedChunk
from voxyard.speech.pool.worker_slot import Lease, WorkerSlot

_log = logging.getLogger(__name__)

FailureCause = Literal["raised", "refused", "out of memory", "died", "crashed", "hung", "late", "left", "no worker"]


@dataclass(frozen=True)
class StartWorker:
    """Start a process for this slot; its messages carry `generation`."""

    slot: int
    generation: int


@dataclass(frozen=True)
class BeginWork:
    """Let the slot's process ask for chunks, once it is ready or after it raised; what it had is taken back."""

    slot: int
    generation: int
    rows: int  # to decode together: out of memory makes them fewer


@dataclass(frozen=True)
class SendChunk:
    """Hand a chunk to the slot's process."""

    slot: int
    generation: int
    lease: int
    rows: int  # that the worker decodes together now
    chunk: ChunkKey
    held: int  # chunks that the worker has with it
    urgent: bool = False  # a listener waits for it


@dataclass(frozen=True)
class CancelLease:
    """Tell the slot's process that nobody wants this chunk any more: it answers, and has a row free."""

    slot: int
    generation: int
    lease: int


@dataclass(frozen=True)
class KillWorker:
    """Kill the slot's process: it hung, was late, or has to free its memory."""

    slot: int
    generation: int
    reason: str
    cause: Literal["hung", "late", "cooling down"]


@dataclass(frozen=True)
class FailChunk:
    """A chunk failed for good."""

    chunk: ChunkKey
    cause: FailureCause
    reason: str


@dataclass(frozen=True)
class StopIdleWorker:
    """Let the slot's process end, where it has one: there is nothing to speak."""

    slot: int
    generation: int


Action = StartWorker | BeginWork | SendChunk | CancelLease | KillWorker | FailChunk | StopIdleWorker


@dataclass(frozen=True)
class PoolStats:
    """Counts of workers and chunks."""

    expected: int  # workers that may run: not those that wait for their device, or have ended for want of work
    running: int
    busy: int
    waiting: int  # chunks in the queue
    leased: int  # chunks with a worker
    released: int = 0  # workers that have ended for want of work


class Scheduler:
    """Decides which worker gets which chunk, which workers run, and which chunks are spoken again or fail.

    With `elastic` slots come and go, and chunks wait for one; a slot whose starts failed is tried again after a while.
    """

    def __init__(self, slots: int, limits: PoolLimits | None = None, *, elastic: bool = False) -> None:
        self.limits = PoolLimits() if limits is None else limits
        self._elastic = elastic
        self._without_workers: float | None = None  # since when no slot is usable
        self.slots = [WorkerSlot(number) for number in range(slots)]
        self._queue = ChunkQueue()
        self._numbers = itertools.count()
        self._actions: list[Action] = []
        self._jobs: set[int] = set()
        self._draining = False
        self._idle_since: float | None = None  # where there is nothing to speak
        self._warm = self.limits.warm_workers  # workers that run without any work; fewer once some were released
        self._acquitted_deaths = 0  # of workers with one chunk alone that was spoken later: something else ended them

    # Reports of the owner.

    def submit(
        self,
        job: int,
        seconds: Sequence[float],
        now: float,
        *,
        priority: int = 0,
        listening: bool = False,
        tenant: str = "",
        share: float = 1.0,
    ) -> None:
        """Add a tenant's job: estimated seconds of its chunks in text order. Jobs are numbered in the order they come.

        Tenants get workers by their shares, each for its jobs by priority.
        """
        self._jobs.add(job)
        self._queue.add_job(job, priority=priority, listening=listening, tenant=tenant, share=share)
        for index, estimate in enumerate(seconds):
            self._queue.put(QueuedChunk(ChunkKey(job, index), estimate, since=now))

    def listen(self, job: int, listening: bool) -> None:
        """Set whether the job's audio has a listener."""
        self._queue.listen(job, listening)

    def cancel(self, job: int) -> None:
        """Drop the job's chunks: those that wait now, those that are being spoken when their worker answers."""
        self._jobs.discard(job)
        self._queue.remove_job(job)
        for worker in self.slots:
            leases = [each.number for each in worker.leases.values() if each.chunk.key.job == job]
            self._actions += [CancelLease(worker.number, worker.generation, lease) for lease in leases]

    def add_slot(self) -> int:
        """Add a slot for a device that has come; its number. The place of one that has gone is taken again."""
        number = next((each.number for each in self.slots if not each.present), len(self.slots))
        if number == len(self.slots):
            self.slots.append(WorkerSlot(number))
            return number
        self.slots[number] = WorkerSlot(number, generation=self.slots[number].generation)
        leased = (lease.chunk for worker in self.slots for lease in worker.leases.values())
        for chunk in (*self._queue, *leased):
            chunk.failed_on.discard(number)
        return number

    def remove_slot(self, slot: int, reason: str) -> None:
        """Remove the slot of a device that has gone: its chunks wait again as they were."""
        worker = self.slots[slot]
        self._put_back(worker.release())
        worker.remove(reason)

    def drain(self, below: float) -> None:
        """Hand out no more chunks of jobs of a priority below this, and start no worker for them."""
        self._draining = True
        self._queue.hold(below)

    def engine_ready(self, slot: int, generation: int, batch_limit: int, now: float) -> None:
        """The process has loaded its engine, which decodes so many chunks together."""
        worker = self._current(slot, generation)
        if worker is not None and worker.state == "starting":
            worker.engine_ready(batch_limit, now)
            self._idle_since = None
            self._actions.append(BeginWork(slot, generation, worker.rows))

    def heartbeat(self, slot: int, generation: int, now: float, progress: int = 0, pause: float = 0.0) -> None:
        """The process is alive, and its engine has reported progress so often, the last time with this pause."""
        worker = self._current(slot, generation)
        if worker is not None:
            worker.heartbeat(now, progress, pause)

    def chunk_wanted(self, slot: int, generation: int, now: float) -> None:
        """The worker has room for one more chunk."""
        worker = self._current(slot, generation)
        if worker is not None:
            worker.request_chunk(now)

    def chunk_done(self, slot: int, generation: int, lease: int, now: float) -> bool:
        """A chunk is done. False where its result must be dropped: its job or its lease has ended."""
        worker = self._current(slot, generation)
        done = None if worker is None else worker.return_lease(lease, now)
        if worker is None or done is None:
            return False
        worker.chunk_spoken()
        self._acquitted_deaths += done.chunk.deaths
        return done.chunk.key.job in self._jobs

    def chunk_cancelled(self, slot: int, generation: int, lease: int, now: float) -> None:
        """The engine has ceased to speak a chunk of a job that was cancelled."""
        worker = self._current(slot, generation)
        if worker is not None:
            worker.return_lease(lease, now)

    def chunk_unspeakable(
        self, slot: int, generation: int, lease: int, reason: str, now: float, *, refused: bool = False
    ) -> None:
        """The engine cannot speak this chunk, and continues with the others; `refused`: no other engine could."""
        worker = self._current(slot, generation)
        done = None if worker is None else worker.return_lease(lease, now)
        if worker is None or done is None or done.chunk.key.job not in self._jobs:
            return
        if refused:
            self._actions.append(FailChunk(done.chunk.key, "refused", reason))
        else:
            self._record_failure(done.chunk, worker, "raised", reason)

    def engine_raised(
        self, slot: int, generation: int, reason: str, now: float, *, out_of_memory: bool = False
    ) -> None:
        """The engine raised; with `out_of_memory` because its device is full."""
        worker = self._current(slot, generation)
        if worker is None:
            return
        worker.last_seen = now
        leases = worker.release()
        if out_of_memory and worker.rows > 1:
            self._halve_batch(worker, "out of memory")
            self._put_back(leases)
        else:
            self._requeue(leases, worker, "out of memory" if out_of_memory else "raised", reason)
            if out_of_memory and self._cool_down(worker, reason, now, idle=not leases):
                return
        self._actions.append(BeginWork(slot, generation, worker.rows))

    def process_ended(
        self, slot: int, generation: int, reason: str, now: float, *, cause: FailureCause = "died"
    ) -> None:
        """The process has ended, for any reason.

        Killed for want of memory, it begins with fewer rows. One that crashed with several chunks does too, until one
        of these is found to crash it alone. One that is lost with its host says nothing of its chunks.
        """
        worker = self._current(slot, generation)
        if worker is None:
            return
        if worker.phase == "stopping":
            worker.stopped()
            return
        if cause == "left":
            worker.host_lost(reason, now, self.limits)
            self._put_back(worker.release())
            return
        if worker.state == "starting":
            worker.start_failed(reason, now, self.limits)
            if self._elastic and worker.phase == "off":
                worker.cool_down(now, self.limits)
            return
        worker.process_ended(now, self.limits)
        leases = worker.release()
        if cause == "out of memory" and leases and worker.rows > 1:
            self._halve_batch(worker, "its process was killed for want of memory")
            self._put_back(leases)
            return
        if cause == "crashed" and len(leases) > 1:
            self._halve_batch(worker, "its process crashed")
            worker.crashed_batches.append(frozenset(lease.chunk.key for lease in leases))
        self._requeue(leases, worker, cause, reason)

    def start_refused(self, slot: int, generation: int, now: float, wait: float = 0.0) -> None:
        """The process was not started, or had to end: its device cannot have one yet, nor for `wait` seconds.

        Its chunks wait as they were.
        """
        worker = self._current(slot, generation)
        if worker is not None:
            self._put_back(worker.release())
            worker.start_refused(now, self.limits, wait)

    def resumed(self, now: float) -> None:
        """The owner itself was suspended: missed heartbeats and progress do not count."""
        for worker in self.slots:
            worker.resumed(now)

    # Actions of the owner.

    def actions(self, now: float) -> tuple[Action, ...]:
        """Actions that follow from all reports up to now; each is returned once."""
        self._kill_overdue(now)
        self._start_workers(now)
        self._hand_out(now)
        self._release_idle(now)
        self._fail_without_workers(now)
        actions, self._actions = tuple(self._actions), []
        return actions

    def next_deadline(self, now: float) -> float | None:
        """Seconds until the next timeout or start; None where only a report can change anything."""
        waiting = self._queue.free > 0
        found = (worker.next_deadline(now, self.limits, waiting=waiting) for worker in self.slots)
        deadlines = [deadline for deadline in found if deadline is not None]
        if waiting and self._without_workers is not None and self.limits.worker_wait is not None:
            deadlines.append(self._without_workers + self.limits.worker_wait)
        if self._idle_since is not None and self.limits.idle_release is not None and self._surplus():
            deadlines.append(self._idle_since + self.limits.idle_release)
        return max(0.0, min(deadlines) - now) if deadlines else None

    def stats(self) -> PoolStats:
        """Counts of chunks and workers by state."""
        return PoolStats(
            expected=sum(worker.phase not in ("waiting", "gone") and not worker.idle for worker in self.slots),
            running=sum(worker.running for worker in self.slots),
            busy=sum(bool(worker.leases) for worker in self.slots),
            waiting=len(self._queue),
            leased=self._leased(),
            released=sum(worker.idle for worker in self.slots),
        )

    def pending(self) -> tuple[tuple[WorkerSlot, tuple[Lease, ...]], ...]:
        """While it drains: workers that still have chunks of the drained jobs, with their leases of these."""
        found = []
        for worker in self.slots:
            jobs = ((lease, lease.chunk.key.job) for lease in worker.leases.values())
            leases = tuple(lease for lease, job in jobs if job in self._jobs and self._queue.holds(job))
            if leases:
                found.append((worker, leases))
        return tuple(found)

    def _leased(self) -> int:
        return sum(len(worker.leases) for worker in self.slots)

    def _current(self, slot: int, generation: int) -> WorkerSlot | None:
        """The slot, if the report is about the process that it has now."""
        worker = self.slots[slot]
        there = worker.has_process or worker.phase == "stopping"
        return worker if worker.generation == generation and there else None

    def _kill_overdue(self, now: float) -> None:
        for worker in self.slots:
            found = worker.overdue(now, self.limits)
            if found is not None:
                cause, reason = found
                self._actions.append(KillWorker(worker.number, worker.generation, reason, cause))
                self.process_ended(worker.number, worker.generation, reason, now, cause=cause)

    def _start_workers(self, now: float) -> None:
        warm = 0 if self._draining else self._warm
        present = sum(worker.present for worker in self.slots)
        wanted = max(warm, workers_wanted(self._queue.free + self._leased(), present))
        running = [worker for worker in self.slots if worker.has_process]
        if any(not any(self._may_run(chunk, worker) for worker in running) for chunk in self._queue.failed()):
            wanted = max(wanted, len(running) + 1)
        for worker in self.slots:
            if len(running) >= wanted:
                break
            if worker.may_start(now):
                worker.start(now, self.limits)
                running.append(worker)
                self._actions.append(StartWorker(worker.number, worker.generation))

    def _hand_out(self, now: float) -> None:
        """Give chunks to the workers that asked, one at a time, each to the worker that has the fewest."""
        most = self._max_chunks()
        reserved = self._reserved_workers()
        asking = [worker for worker in self.slots if worker.phase == "open" and worker.requested]
        while asking and self._queue.free:
            worker = min(asking, key=lambda each: (len(each.leases), each.number))
            chunk = self._next_chunk(worker, reserved) if len(worker.leases) < most else None
            if chunk is None:
                asking.remove(worker)
                continue
            lease = Lease(next(self._numbers), chunk, now, self._queue.urgent(chunk.key))
            worker.lease_chunk(lease, now)
            held, rows = len(worker.leases), worker.rows
            self._actions.append(
                SendChunk(worker.number, worker.generation, lease.number, rows, chunk.key, held, lease.urgent)
            )
            if not worker.requested:
                asking.remove(worker)

    def _release_idle(self, now: float) -> None:
        """Let workers end that have had nothing to speak for so long; from then on, few run without any work."""
        if self.limits.idle_release is None or self._queue.free or self._leased() or self._draining:
            self._idle_since = None
            return
        if self._idle_since is None:
            self._idle_since = now
        if now < self._idle_since + self.limits.idle_release:
            return
        self._warm = min(self._warm, self.limits.keep_warm)
        for worker in self._surplus():
            worker.stop_idle(now, self.limits)
            self._actions.append(StopIdleWorker(worker.number, worker.generation))

    def _surplus(self) -> list[WorkerSlot]:
        """Workers that may end while there is nothing to speak; one that loads its model is waited for."""
        kept = [worker for worker in self.slots if worker.running][: self.limits.keep_warm]
        found = [worker for worker in self.slots if worker.may_be_released and worker not in kept]
        return [] if any(worker.phase == "starting" for worker in self.slots) else found

    def _max_chunks(self) -> int:
        """Most chunks of a worker now: workers that are starting, or have not asked yet, keep their share."""
        most = self.limits.max_chunks or len(self._queue) + self._leased()
        unfinished = self._queue.free + self._leased()
        processes = sum(worker.has_process for worker in self.slots)
        if unfinished <= FEW or all(worker.has_requested for worker in self.slots if worker.has_process):
            return most
        return min(most, -(-unfinished // max(1, processes)))

    def _next_chunk(self, worker: WorkerSlot, reserved: set[int]) -> QueuedChunk | None:
        """Next chunk for the worker, or None. A chunk that has to run alone waits until a worker has nothing else.

        A worker with an urgent chunk gets no more until that is done: their prefills would delay it.
        """
        if not worker.leases:
            if worker.number in reserved:
                found = self._queue.take(lambda chunk: chunk.alone and self._may_run(chunk, worker), failed=True)
            else:
                found = self._queue.take(lambda chunk: not chunk.alone and self._may_run(chunk, worker))
            return found or self._queue.take(lambda chunk: self._may_run(chunk, worker))
        if worker.number in reserved or worker.alone or worker.urgent:
            return None
        return self._queue.take(lambda chunk: not chunk.alone and self._may_run(chunk, worker))

    def _reserved_workers(self) -> set[int]:
        """Workers for chunks that have to run alone: those that have one already, else those with the fewest chunks."""
        reserved = set()
        for chunk in self._queue.failed():
            if chunk.alone:
                can = [worker for worker in self.slots if worker.has_process and self._may_run(chunk, worker)]
                if can:
                    reserved.add(min(can, key=lambda each: (not each.alone, len(each.leases), each.number)).number)
        return reserved

    def _may_run(self, chunk: QueuedChunk, worker: WorkerSlot) -> bool:
        """True where the chunk may run there: not where it failed, as long as there is another worker."""
        if worker.number not in chunk.failed_on:
            return True
        return not any(other.usable and other.number not in chunk.failed_on for other in self.slots)

    def _halve_batch(self, worker: WorkerSlot, why: str) -> None:
        tried = worker.rows
        worker.halve_batch()
        _log.warning("worker %d: %s with %d rows, continuing with %d", worker.number, why, tried, worker.rows)

    def _put_back(self, leases: Sequence[Lease]) -> None:
        """Let chunks wait again as they were; those of jobs that have ended are dropped."""
        for lease in leases:
            self._queue.put(lease.chunk)

    def _requeue(self, leases: Sequence[Lease], worker: WorkerSlot, cause: FailureCause, reason: str) -> None:
        """Requeue the leases of a failed worker: several chunks run again one by one, a single one has failed once."""
        for lease in leases:
            chunk = lease.chunk
            if chunk.key.job not in self._jobs:
                continue
            chunk.alone = True
            if len(leases) == 1:
                self._record_failure(chunk, worker, cause, reason)
            else:
                self._queue.put(chunk)

    def _record_failure(self, chunk: QueuedChunk, worker: WorkerSlot, cause: FailureCause, reason: str) -> None:
        chunk.failed_on.add(worker.number)
        chunk.failures.append(f"worker {worker.number}: {reason}")
        if cause in ("died", "crashed", "hung"):
            chunk.deaths += 1
        failed = len(chunk.failures) - chunk.deaths
        deadly = chunk.deaths >= self.limits.max_deaths + (self._acquitted_deaths > 0)
        if failed >= self.limits.max_failures or deadly:
            if deadly:
                for each in self.slots:
                    each.acquit_batches(chunk.key)
            self._actions.append(FailChunk(chunk.key, cause, "; ".join(chunk.failures)))
        else:
            _log.warning("chunk %d of job %d is retried: %s", chunk.key.index, chunk.key.job, reason)
            self._queue.put(chunk)

    def _cool_down(self, worker: WorkerSlot, reason: str, now: float, *, idle: bool) -> bool:
        """Stop a worker after two single chunks in a row for which its device had no memory, if others run.

        An idle worker without memory for one row cools down even if it is the only one: it would only fail again.
        """
        worker.memory_failures += 1
        others = any(other.has_process for other in self.slots if other is not worker)
        cools_down = worker.memory_failures >= 2 and (others or idle)
        if cools_down:
            _log.warning(
                "worker %d cools down for %.0f s, its device has no memory for one chunk: %s",
                worker.number,
                self.limits.cool_down_seconds,
                reason,
            )
            self._actions.append(KillWorker(worker.number, worker.generation, "out of memory", "cooling down"))
            worker.cool_down(now, self.limits)
        return cools_down

    def _fail_without_workers(self, now: float) -> None:
        """Fail what waits, where no worker will come: all are off, or none has come in time."""
        present = [worker for worker in self.slots if worker.present]
        if any(worker.running for worker in present):
            self._without_workers = None
        elif self._elastic:
            self._wait_for_workers(present, now)
        elif all(worker.phase == "off" for worker in present):
            self._fail_waiting(present)

    def _wait_for_workers(self, present: Sequence[WorkerSlot], now: float) -> None:
        """Fail what waits after `worker_wait` without a worker, or as soon as each has failed to start."""
        if self._without_workers is None:
            self._without_workers = now
        wait = self.limits.worker_wait
        if wait is None or any(worker.phase in ("starting", "waiting") for worker in present):
            return
        broken = all(worker.failed_starts >= self.limits.max_failed_starts for worker in present)
        if (present and broken) or now >= self._without_workers + wait:
            self._fail_waiting(present)

    def _fail_waiting(self, present: Sequence[WorkerSlot]) -> None:
        reason = "; ".join(f"worker {worker.number}: {worker.failure}" for worker in present) or "there is no device"
        for chunk in self._queue.take_all():
            self._actions.append(FailChunk(chunk.key, "no worker", f"no worker could be started: {reason}"))
