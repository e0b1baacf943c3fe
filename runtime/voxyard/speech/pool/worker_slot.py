"""Worker slot: one device, in which one worker process follows the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from voxyard.speech.pool.limits import Limits
from voxyard.speech.pool.queue import Entry

State = Literal["down", "waiting", "starting", "ready", "busy", "resting", "off"]


@dataclass(frozen=True, slots=True, eq=False)
class Lease:
    """One chunk in the hands of one worker, which may have several."""

    number: int
    entry: Entry
    since: float  # seconds of the scheduler's clock


@dataclass(slots=True, eq=False)
class Slot:
    """State of a worker in the scheduler. Times are seconds of its clock."""

    number: int
    phase: Literal["down", "waiting", "starting", "open", "resting", "off"] = "down"
    generation: int = 0  # counts its processes
    leases: dict[int, Lease] = field(default_factory=dict)  # by number
    wanted: int = 0  # further chunks that it has asked for
    asked: bool = False  # whether it has, since it began
    limit: int = 1  # rows, as its engine said
    cap: int | None = None  # what out of memory left of it; holds for later processes too
    seen: float = 0.0
    progress: float = 0.0  # when it last handed in a chunk, or got one after having none
    not_before: float = 0.0
    start_deadline: float = 0.0
    failed_starts: int = 0  # in a row
    refusals: int = 0  # of its device, in a row: it had no room for a process
    ends: int = 0  # of processes since the last chunk that was spoken
    memory_failures: int = 0  # single chunks without room since then
    reason: str = ""  # of the last failed start

    @property
    def state(self) -> State:
        """The phase; an open worker is ready or busy."""
        if self.phase == "open":
            return "busy" if self.leases else "ready"
        return self.phase

    @property
    def has_process(self) -> bool:
        """True where there is a process, loading or not."""
        return self.phase in ("starting", "open")

    @property
    def running(self) -> bool:
        """True where its process can speak or does."""
        return self.phase == "open"

    @property
    def usable(self) -> bool:
        """True where a chunk may wait for it."""
        return self.phase in ("down", "starting", "open")

    @property
    def alone(self) -> bool:
        """True where it has a chunk that no other may run beside."""
        return any(lease.entry.alone for lease in self.leases.values())

    @property
    def rows(self) -> int:
        """Chunks that its engine decodes together."""
        return self.limit if self.cap is None else min(self.limit, self.cap)

    def may_start(self, now: float) -> bool:
        """True where it has no process and has waited long enough for one."""
        return self.phase in ("down", "waiting", "resting") and now >= self.not_before

    def start(self, now: float, limits: Limits) -> None:
        """A new process is started."""
        if self.phase == "resting":
            self.cap, self.memory_failures = None, 0
        self.phase = "starting"
        self.generation += 1
        self.seen, self.start_deadline = now, now + limits.start_seconds

    def opened(self, batch_limit: int, now: float) -> None:
        """Its process can speak."""
        self.phase, self.limit, self.seen = "open", max(1, batch_limit), now
        self.failed_starts = self.refusals = 0

    def succeeded(self) -> None:
        """It has spoken a chunk."""
        self.ends = self.memory_failures = 0

    def ask(self, now: float) -> None:
        """It has room for one more chunk."""
        self.seen, self.asked = now, True
        self.wanted += 1

    def give(self, lease: Lease, now: float) -> None:
        """It gets a chunk that it has asked for."""
        if not self.leases:
            self.progress = now
        self.leases[lease.number] = lease
        self.wanted -= 1

    def hand_in(self, lease: int, now: float) -> Lease | None:
        """It has answered a chunk; None where it has no such lease (any more)."""
        found = self.leases.pop(lease, None)
        if found is not None:
            self.seen = self.progress = now
        return found

    def release(self) -> tuple[Lease, ...]:
        """Take back all it has, and all it has asked for."""
        left = tuple(self.leases.values())
        self.leases, self.wanted, self.asked = {}, 0, False
        return left

    def halve(self) -> None:
        """Halves the batch: the device had no memory for so many rows."""
        self.cap = max(1, self.rows // 2)

    def refused(self, now: float, limits: Limits) -> None:
        """The device has no memory for a process yet, which is no failed start: it is retried without a limit."""
        self.refusals += 1
        self.phase, self.not_before = "waiting", now + limits.wait(self.refusals)

    def failed_start(self, reason: str, now: float, limits: Limits) -> None:
        """Its process could not load the engine."""
        self.failed_starts += 1
        self.reason = reason
        self.phase = "off" if self.failed_starts >= limits.starts else "down"
        self.not_before = now + limits.wait(self.failed_starts)

    def fell(self, now: float, limits: Limits) -> None:
        """Its open process has ended."""
        self.ends += 1
        self.phase, self.not_before = "down", now + limits.wait(self.ends)

    def rest(self, now: float, limits: Limits) -> None:
        """Its process is ended for the sake of the device's memory."""
        self.phase, self.not_before = "resting", now + limits.rest_seconds

    def overdue(self, now: float, limits: Limits) -> tuple[Literal["hung", "late"], str] | None:
        """Reason why its process has to be ended; None where it does not."""
        if not self.has_process:
            return None
        if now - self.seen >= limits.silent_seconds:
            return "hung", f"gave no sign of life for {now - self.seen:.0f} s"
        if self.phase == "starting" and now >= self.start_deadline:
            return "late", f"did not load its engine within {limits.start_seconds:.0f} s"
        if self.leases and now >= self.progress + limits.chunk_seconds:
            return "late", f"took longer than {limits.chunk_seconds:.0f} s for a chunk"
        return None

    def due(self, now: float, limits: Limits, *, waiting: bool) -> float | None:
        """Next time at which time alone changes something here; None where there is none."""
        if self.phase in ("down", "waiting", "resting"):
            return self.not_before if self.not_before > now and (waiting or limits.warm) else None
        if not self.has_process:
            return None
        moments = [self.seen + limits.silent_seconds]
        if self.phase == "starting":
            moments.append(self.start_deadline)
        if self.leases:
            moments.append(self.progress + limits.chunk_seconds)
        return min(moments)
