"""Who speaks which chunk when: a state machine without a clock, processes or sound.

Whoever owns it reports what happened, with the time, and then carries out `actions(now)`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from voxyard.speech.lease import Lease
from voxyard.speech.limits import FEW, Limits, workers_wanted
from voxyard.speech.queue import ChunkQueue, Entry, Key
from voxyard.speech.slots import Slot

_log = logging.getLogger(__name__)

Cause = Literal["raised", "out of memory", "died", "hung", "late", "no worker"]


@dataclass(frozen=True)
class Start:
    """Start a process for this slot; its messages carry `generation`."""

    slot: int
    generation: int


@dataclass(frozen=True)
class Send:
    """Hand a batch to the slot's process."""

    slot: int
    generation: int
    lease: int
    rows: int
    chunks: tuple[Key, ...]


@dataclass(frozen=True)
class Kill:
    """End the slot's process at once: it hung, was late, or is to give its memory back."""

    slot: int
    generation: int
    reason: str


@dataclass(frozen=True)
class GiveUp:
    """A chunk failed for good."""

    chunk: Key
    cause: Cause
    reason: str


Action = Start | Send | Kill | GiveUp


@dataclass(frozen=True)
class Census:
    """Workers and chunks at a moment."""

    expected: int  # workers that may run: not those that wait for their device
    running: int
    busy: int
    waiting: int
    leased: int


class Scheduler:
    """Chunks, leases and slots (a slot is the place of one worker, with one process after the other)."""

    def __init__(self, slots: int, limits: Limits | None = None) -> None:
        self.limits = Limits() if limits is None else limits
        self.slots = [Slot(number) for number in range(slots)]
        self._queue = ChunkQueue()
        self._leases = itertools.count()
        self._actions: list[Action] = []
        self._jobs: set[int] = set()
        self._draining = False
        self._last = 0.0

    # What the owner reports.

    def submit(
        self, job: int, seconds: Sequence[float], now: float, *, priority: int = 0, listening: bool = False
    ) -> None:
        """A job: the estimated seconds of its chunks in text order. Jobs are numbered in the order they come."""
        self._jobs.add(job)
        self._queue.add_job(job, priority=priority, listening=listening)
        for index, estimate in enumerate(seconds):
            self._queue.put(Entry(Key(job, index), estimate, since=now))

    def listen(self, job: int, listening: bool) -> None:
        """Whether somebody waits for the job's sound."""
        self._queue.listen(job, listening)

    def cancel(self, job: int) -> None:
        """Drop the job's chunks: those that wait now, those that are being spoken when they are done."""
        self._jobs.discard(job)
        self._queue.remove_job(job)

    def drain(self, below: float) -> None:
        """Hand out no more chunks of jobs of a priority below this, and start no worker for them."""
        self._draining = True
        self._queue.hold(below)

    def opened(self, slot: int, generation: int, batch_limit: int, now: float) -> None:
        """The process has loaded its engine, which takes so many chunks at a time."""
        place = self._current(slot, generation)
        if place is not None and place.state == "starting":
            place.opened(batch_limit, now)

    def heartbeat(self, slot: int, generation: int, now: float) -> None:
        """The process is alive."""
        place = self._current(slot, generation)
        if place is not None:
            place.seen = now

    def spoken(self, slot: int, generation: int, lease: int, chunk: Key, now: float) -> bool:
        """A chunk is done. False where its result must be dropped: nobody waits for it, or not from this worker."""
        place = self._current(slot, generation)
        if place is None or place.lease is None or place.lease.number != lease:
            return False
        place.seen = now
        place.succeeded()
        return place.lease.left.pop(chunk, None) is not None and chunk.job in self._jobs

    def ended(self, slot: int, generation: int, lease: int, now: float) -> None:
        """The worker is through its batch; what it did not hand in goes back."""
        place = self._current(slot, generation)
        if place is not None and place.lease is not None and place.lease.number == lease:
            place.seen = now
            left = place.release()
            if left.left:
                self._back(left, place, "raised", f"worker {slot} left out {len(left.left)} of {left.size} chunks")

    def raised(self, slot: int, generation: int, lease: int, reason: str, now: float, *, memory: bool = False) -> None:
        """The engine raised; with `memory` because its device is full."""
        place = self._current(slot, generation)
        if place is None or place.lease is None or place.lease.number != lease:
            return
        place.seen = now
        left = place.release()
        if not memory:
            self._back(left, place, "raised", reason)
        elif left.size > 1:
            place.halve(left.size)
            _log.warning("worker %d: out of memory with %d chunks, goes on with %d", slot, left.size, place.rows)
            for entry in left.left.values():
                self._queue.put(entry)
        else:
            self._back(left, place, "out of memory", reason)
            self._rest(place, reason, now)

    def died(self, slot: int, generation: int, reason: str, now: float, *, cause: Cause = "died") -> None:
        """The process has ended, whatever the reason."""
        place = self._current(slot, generation)
        if place is None:
            return
        if place.state == "starting":
            place.failed_start(reason, now, self.limits)
        else:
            place.fell(now, self.limits)
        lease = place.lease
        if lease is not None:
            place.lease = None
            self._back(lease, place, cause, reason)

    def refused(self, slot: int, generation: int, now: float) -> None:
        """The process was not started: its device has no room for it yet."""
        place = self._current(slot, generation)
        if place is not None:
            place.refused(now, self.limits)

    def resumed(self, now: float) -> None:
        """The owner itself stood still: nobody's silence counts."""
        for place in self.slots:
            place.seen = now

    # What the owner has to do.

    def actions(self, now: float) -> tuple[Action, ...]:
        """What follows from all reports up to now; each action is told once."""
        self._look_for_the_late(now)
        self._start(now)
        self._send(now)
        self._give_up_without_workers()
        told, self._actions = tuple(self._actions), []
        return told

    def next_look(self, now: float) -> float | None:
        """Seconds until time alone makes something happen; None where only a report can."""
        waiting = self._queue.free > 0
        due = (place.due(now, self.limits, waiting=waiting) for place in self.slots)
        moments = [moment for moment in due if moment is not None]
        return max(0.0, min(moments) - now) if moments else None

    def census(self) -> Census:
        """How things stand."""
        leases = [place.lease for place in self.slots if place.lease is not None]
        return Census(
            expected=sum(place.phase != "waiting" for place in self.slots),
            running=sum(place.running for place in self.slots),
            busy=len(leases),
            waiting=len(self._queue),
            leased=sum(len(lease.left) for lease in leases),
        )

    def awaited(self) -> tuple[tuple[Slot, Lease, int], ...]:
        """While it drains: who still has chunks of which no more are handed out, his lease, and how many they are."""
        found = []
        for place in self.slots:
            if (lease := place.lease) is None:
                continue
            chunks = sum(key.job in self._jobs and self._queue.holds(key.job) for key in lease.left)
            if chunks:
                found.append((place, lease, chunks))
        return tuple(found)

    def _current(self, slot: int, generation: int) -> Slot | None:
        """The slot, if the message is from the process that it has now."""
        place = self.slots[slot]
        return place if place.generation == generation and place.has_process else None

    def _look_for_the_late(self, now: float) -> None:
        for place in self.slots:
            found = place.overdue(now, self.limits)
            if found is not None:
                cause, reason = found
                self._actions.append(Kill(place.number, place.generation, reason))
                self.died(place.number, place.generation, reason, now, cause=cause)

    def _start(self, now: float) -> None:
        census = self.census()
        warm = 0 if self._draining else self.limits.warm
        wanted = max(warm, workers_wanted(self._queue.free + census.leased, len(self.slots)))
        running = [place for place in self.slots if place.has_process]
        if any(not any(self._may(entry, place) for place in running) for entry in self._troubled()):
            wanted = max(wanted, len(running) + 1)
        for place in self.slots:
            if len(running) >= wanted:
                break
            if place.may_start(now):
                place.start(now, self.limits)
                running.append(place)
                self._actions.append(Start(place.number, place.generation))

    def _send(self, now: float) -> None:
        for place in self.slots:
            if place.state != "ready" or not self._queue.free:
                continue
            entries = self._queue.take(self._share(place), lambda entry, place=place: self._may(entry, place))  # type: ignore[misc]
            if entries:
                keys = tuple(sorted(entry.key for entry in entries))
                left = {entry.key: entry for entry in sorted(entries, key=lambda entry: entry.key)}
                deadline = now + self.limits.chunk_seconds * len(keys)
                place.lease = Lease(next(self._leases), len(keys), place.rows, now, deadline, left)
                self._actions.append(Send(place.number, place.generation, place.lease.number, place.rows, keys))

    def _share(self, place: Slot) -> int:
        """Chunks for this worker now: as many as it takes, but no more than leave the others something to do."""
        waiting = self._queue.free
        few = waiting + self.census().leased <= FEW
        sharing = sum(other.state == "ready" if few else other.has_process for other in self.slots)
        most = place.rows if self.limits.batch is None else min(place.rows, self.limits.batch)
        return max(1, min(most, -(-waiting // max(1, sharing))))

    def _may(self, entry: Entry, place: Slot) -> bool:
        """Whether the chunk may run there: not where it failed, as long as there is another worker."""
        if place.number not in entry.failed_on:
            return True
        return not any(other.usable and other.number not in entry.failed_on for other in self.slots)

    def _troubled(self) -> list[Entry]:
        return [entry for entry in self._queue if entry.failed_on and not self._queue.holds(entry.key.job)]

    def _back(self, lease: Lease, place: Slot, cause: Cause, reason: str) -> None:
        """What is left of a lease that went wrong: a batch runs again one by one, a single chunk has failed once."""
        for entry in lease.left.values():
            if entry.key.job not in self._jobs:
                continue
            entry.alone = True
            if lease.alone:
                self._count(entry, place, cause, reason)
            else:
                self._queue.put(entry)

    def _count(self, entry: Entry, place: Slot, cause: Cause, reason: str) -> None:
        entry.failed_on.add(place.number)
        entry.failures.append(f"worker {place.number}: {reason}")
        if cause in ("died", "hung"):
            entry.deaths += 1
        failed = len(entry.failures) - entry.deaths
        if failed >= self.limits.failures or entry.deaths >= self.limits.deaths:
            self._actions.append(GiveUp(entry.key, cause, "; ".join(entry.failures)))
        else:
            _log.warning("chunk %d of job %d will be tried again: %s", entry.key.index, entry.key.job, reason)
            self._queue.put(entry)

    def _rest(self, place: Slot, reason: str, now: float) -> None:
        """After two single chunks in a row for which the device had no room, the pool goes on with fewer workers."""
        place.memory_failures += 1
        others = any(other.has_process for other in self.slots if other is not place)
        if place.memory_failures >= 2 and others:
            _log.warning(
                "worker %d rests for %.0f s, its device has no room for one chunk: %s",
                place.number,
                self.limits.rest_seconds,
                reason,
            )
            self._actions.append(Kill(place.number, place.generation, "out of memory"))
            place.rest(now, self.limits)

    def _give_up_without_workers(self) -> None:
        if any(place.state != "off" for place in self.slots):
            return
        reason = "; ".join(f"worker {place.number}: {place.reason}" for place in self.slots)
        for entry in self._queue.take_all():
            self._actions.append(GiveUp(entry.key, "no worker", f"no worker could be started: {reason}"))
