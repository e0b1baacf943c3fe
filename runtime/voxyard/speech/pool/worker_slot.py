"""Worker slot: the scheduler's state of one device and its worker process; a slot has one process after another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.queue import ChunkKey, QueuedChunk

# Values of /v1/workers; "resting": stopped for a while, as its device had no memory; "released": there was no work
State = Literal["down", "waiting", "starting", "ready", "busy", "resting", "stopping", "released", "off", "gone"]


@dataclass(frozen=True, slots=True, eq=False)
class Lease:
    """A chunk that a worker holds until it answers, dies or times out; it may have several."""

    number: int
    chunk: QueuedChunk
    since: float  # seconds of the scheduler's clock
    urgent: bool = False  # a listener waited for it when the worker got it


@dataclass(slots=True, eq=False)
class WorkerSlot:
    """State of a worker in the scheduler. Times are seconds of its clock."""

    number: int
    phase: Literal["down", "waiting", "starting", "open", "resting", "stopping", "released", "off", "gone"] = "down"
    generation: int = 0  # counts its processes
    leases: dict[int, Lease] = field(default_factory=dict)  # by number
    requested: int = 0  # further chunks that it has asked for
    has_requested: bool = False  # since its engine last began
    batch_limit: int = 1  # rows, of its engine
    batch_cap: int | None = None  # rows after out-of-memory errors and crashes; holds for later processes too
    halvings_to_undo: int = 0  # at the next start
    crashed_batches: list[frozenset[ChunkKey]] = field(default_factory=list)  # each has halved the rows
    last_seen: float = 0.0
    last_progress: float = 0.0  # when its engine last reported progress, or it answered a chunk or got its first
    progress: int = 0  # reports of its engine
    pause: float = 0.0  # seconds beyond the timeout that the engine has asked for
    not_before: float = 0.0  # earliest next start
    start_deadline: float = 0.0
    stalled_from: float = 0.0
    stop_deadline: float = 0.0
    woken: bool = False  # it starts because there is work again
    failed_starts: int = 0  # in a row
    refusals: int = 0  # in a row: its device had no memory for a process
    process_ends: int = 0  # since the last chunk that was spoken
    memory_failures: int = 0  # single chunks out of memory since then
    failure: str = ""  # of the last failed start, or why its device has gone

    @property
    def state(self) -> State:
        """The phase; an open worker is ready or busy."""
        if self.phase == "open":
            return "busy" if self.leases else "ready"
        return self.phase

    @property
    def has_process(self) -> bool:
        """True where there is a process, ready or still loading."""
        return self.phase in ("starting", "open")

    @property
    def running(self) -> bool:
        """True where its process has loaded its engine."""
        return self.phase == "open"

    @property
    def present(self) -> bool:
        """True where it has a device."""
        return self.phase != "gone"

    @property
    def usable(self) -> bool:
        """True where a chunk may wait for it."""
        return self.phase in ("down", "starting", "open", "stopping", "released")

    @property
    def idle(self) -> bool:
        """True where it has ended, or is about to, because there was no work."""
        return self.phase in ("stopping", "released")

    @property
    def may_be_released(self) -> bool:
        """True where nothing is lost if it has no process until there is work; one that cannot start is a fault."""
        return self.phase in ("open", "waiting") or (self.phase == "down" and not self.failed_starts)

    @property
    def alone(self) -> bool:
        """True where it has a chunk that has to run alone."""
        return any(lease.chunk.alone for lease in self.leases.values())

    @property
    def urgent(self) -> bool:
        """True where it has a chunk that a listener waits for."""
        return any(lease.urgent for lease in self.leases.values())

    @property
    def rows(self) -> int:
        """Chunks that its engine decodes together."""
        return self.batch_limit if self.batch_cap is None else min(self.batch_limit, self.batch_cap)

    def stalls(self, now: float) -> bool:
        """True where its start takes so long that it may never end."""
        return self.phase == "starting" and now >= self.stalled_from

    def may_start(self, now: float) -> bool:
        """True where it has no process and its backoff is over."""
        return self.phase in ("down", "waiting", "resting", "released") and now >= self.not_before

    def start(self, now: float, limits: PoolLimits) -> None:
        """Record that a new process is started."""
        if self.phase == "resting":
            self.batch_cap, self.memory_failures, self.crashed_batches = None, 0, []
        if self.batch_cap is not None:
            restored = self.batch_cap << self.halvings_to_undo
            self.batch_cap = restored if restored < self.batch_limit else None
        self.halvings_to_undo = 0
        self.woken = self.phase == "released" or (self.woken and self.phase == "waiting")
        self.phase = "starting"
        self.generation += 1
        self.last_seen, self.start_deadline = now, now + limits.start_timeout
        self.stalled_from = now + limits.stall_timeout
        self.progress, self.pause = 0, 0.0

    def heartbeat(self, now: float, progress: int, pause: float) -> None:
        """Record a heartbeat; another number of reports than before is progress."""
        self.last_seen = now
        if progress != self.progress:
            self.progress, self.pause, self.last_progress = progress, pause, now

    def resumed(self, now: float) -> None:
        """Record that the pool itself was suspended: it has missed what the worker reported."""
        self.last_seen = self.last_progress = now

    def engine_ready(self, batch_limit: int, now: float) -> None:
        """Record that the process has loaded its engine."""
        self.phase, self.batch_limit, self.last_seen = "open", max(1, batch_limit), now
        self.failed_starts = self.refusals = 0
        self.woken = False

    def chunk_spoken(self) -> None:
        """Record a chunk that was spoken."""
        self.process_ends = self.memory_failures = 0

    def request_chunk(self, now: float) -> None:
        """Record that it has room for one more chunk."""
        self.last_seen, self.has_requested = now, True
        self.requested += 1

    def lease_chunk(self, lease: Lease, now: float) -> None:
        """Record a chunk that it gets, as it has asked for one."""
        if not self.leases:
            self.last_progress, self.pause = now, 0.0
        self.leases[lease.number] = lease
        self.requested -= 1

    def return_lease(self, lease: int, now: float) -> Lease | None:
        """Lease of a chunk that it has answered; None where it has no such lease (any more)."""
        found = self.leases.pop(lease, None)
        if found is not None:
            self.last_seen = self.last_progress = now
        return found

    def release(self) -> tuple[Lease, ...]:
        """Take back all its leases and requests."""
        leases = tuple(self.leases.values())
        self.leases, self.requested, self.has_requested = {}, 0, False
        return leases

    def halve_batch(self) -> None:
        """Halve the batch: there was no memory for so many rows, or its process crashed with them."""
        self.batch_cap = max(1, self.rows // 2)

    def acquit_batches(self, culprit: ChunkKey) -> None:
        """Take back the halving after each crash with a chunk that crashes alone too, from the next process on."""
        left = [batch for batch in self.crashed_batches if culprit not in batch]
        self.halvings_to_undo += len(self.crashed_batches) - len(left)
        self.crashed_batches = left

    def start_refused(self, now: float, limits: PoolLimits, wait: float = 0.0) -> None:
        """Record that its device cannot have a process yet: no failed start, retried after `wait` without a limit."""
        self.refusals += 1
        self.phase, self.not_before = "waiting", now + max(wait, limits.backoff_after(self.refusals))

    def start_failed(self, reason: str, now: float, limits: PoolLimits) -> None:
        """Record that the process could not load its engine."""
        self.failed_starts += 1
        self.failure = reason
        self.phase = "off" if self.failed_starts >= limits.max_failed_starts else "down"
        self.not_before = now + limits.backoff_after(self.failed_starts)

    def process_ended(self, now: float, limits: PoolLimits) -> None:
        """Record that the process has ended after its engine was ready."""
        self.process_ends += 1
        self.phase, self.not_before = "down", now + limits.backoff_after(self.process_ends)

    def host_lost(self, reason: str, now: float, limits: PoolLimits) -> None:
        """Record that its process is lost with its host, or the way there: no fault of the process."""
        self.process_ends += 1
        self.phase, self.failure, self.not_before = "down", reason, now + limits.backoff_after(self.process_ends)

    def remove(self, reason: str) -> None:
        """Record that its device has gone."""
        self.phase, self.failure = "gone", reason

    def cool_down(self, now: float, limits: PoolLimits) -> None:
        """Stop the worker for a while to free device memory."""
        self.phase, self.not_before = "resting", now + limits.cool_down_seconds

    def stop_idle(self, now: float, limits: PoolLimits) -> None:
        """Record that its process is to end for want of work, or that it waits for its device no more."""
        self.phase = "stopping" if self.has_process else "released"
        self.stop_deadline, self.not_before = now + limits.stop_timeout, 0.0

    def stopped(self) -> None:
        """Record that its process has ended for want of work."""
        self.release()
        self.phase = "released"

    def overdue(self, now: float, limits: PoolLimits) -> tuple[Literal["hung", "late"], str] | None:
        """Cause and reason why its process has to be killed; None where it need not be."""
        if self.phase == "stopping":
            late = now >= self.stop_deadline
            return ("late", f"did not end within {limits.stop_timeout:.0f} s") if late else None
        if not self.has_process:
            return None
        if self.phase == "starting":  # its host may be too busy for heartbeats
            late = now >= self.start_deadline
            return ("late", f"did not load its engine within {limits.start_timeout:.0f} s") if late else None
        hangs = bool(self.leases) and now >= self._progress_deadline(limits)
        silent = now - self.last_seen
        if silent >= limits.heartbeat_timeout or (hangs and silent >= limits.progress_timeout / 2):
            return "hung", f"sent no heartbeat for {silent:.0f} s"
        if hangs:
            return "hung", f"made no progress on its chunks for {now - self.last_progress:.0f} s: its device hangs"
        return None

    def next_deadline(self, now: float, limits: PoolLimits, *, waiting: bool) -> float | None:
        """Time of its next timeout or start; None where there is none."""
        if self.phase in ("down", "waiting", "resting"):
            return self.not_before if self.not_before > now and (waiting or limits.warm_workers) else None
        if self.phase == "stopping":
            return self.stop_deadline
        if not self.has_process:
            return None
        if self.phase == "starting":
            return self.start_deadline
        deadlines = [self.last_seen + limits.heartbeat_timeout]
        if self.leases:
            deadlines.append(self._progress_deadline(limits))
        return min(deadlines)

    def _progress_deadline(self, limits: PoolLimits) -> float:
        return self.last_progress + limits.progress_timeout + self.pause
