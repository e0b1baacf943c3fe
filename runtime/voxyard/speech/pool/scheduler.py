"""Chunk scheduler: a state machine without a clock, processes or audio.

Its owner reports what happened, with the time, and then carries out `actions(now)`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from voxyard.speech.pool.limits import FEW, Limits, workers_wanted
from voxyard.speech.pool.queue import ChunkQueue, Entry, Key
from voxyard.speech.pool.worker_slot import Lease, Slot

_log = logging.getLogger(__name__)

Cause = Literal["raised", "out of memory", "died", "hung", "late", "no worker"]


@dataclass(frozen=True)
class Start:
    """Start a process for this slot; its messages carry `generation`."""

    slot: int
    generation: int


@dataclass(frozen=True)
class Begin:
    """Let the slot's process ask for chunks, as it is open, or anew, as it raised: what it had is taken back."""

    slot: int
    generation: int
    rows: int  # to decode together: out of memory makes them fewer


@dataclass(frozen=True)
class Send:
    """Hand a chunk to the slot's process."""

    slot: int
    generation: int
    lease: int
    rows: int  # that the worker decodes together now
    chunk: Key
    held: int  # chunks that the worker has with it


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


Action = Start | Begin | Send | Kill | GiveUp


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
        self._numbers = itertools.count()
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
        """Sets whether somebody waits for the job's audio."""
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
        """The process has loaded its engine, which decodes so many chunks together."""
        place = self._current(slot, generation)
        if place is not None and place.state == "starting":
            place.opened(batch_limit, now)
            self._actions.append(Begin(slot, generation, place.rows))

    def heartbeat(self, slot: int, generation: int, now: float) -> None:
        """The process is alive."""
        place = self._current(slot, generation)
        if place is not None:
            place.seen = now

    def asked(self, slot: int, generation: int, now: float) -> None:
        """The worker has room for one more chunk."""
        place = self._current(slot, generation)
        if place is not None:
            place.ask(now)

    def spoken(self, slot: int, generation: int, lease: int, now: float) -> bool:
        """A chunk is done. False where its result must be dropped: nobody waits for it, or not from this worker."""
        place = self._current(slot, generation)
        done = None if place is None else place.hand_in(lease, now)
        if place is None or done is None:
            return False
        place.succeeded()
        return done.entry.key.job in self._jobs

    def unspeakable(self, slot: int, generation: int, lease: int, reason: str, now: float) -> None:
        """The engine cannot speak this chunk, and goes on with the others."""
        place = self._current(slot, generation)
        done = None if place is None else place.hand_in(lease, now)
        if place is not None and done is not None and done.entry.key.job in self._jobs:
            self._count(done.entry, place, "raised", reason)

    def raised(self, slot: int, generation: int, reason: str, now: float, *, memory: bool = False) -> None:
        """The engine raised; with `memory` because its device is full."""
        place = self._current(slot, generation)
        if place is None:
            return
        place.seen = now
        leases = place.release()
        if memory and place.rows > 1:
            tried = place.rows
            place.halve()
            _log.warning("worker %d: out of memory with %d rows, goes on with %d", slot, tried, place.rows)
            for lease in leases:
                self._queue.put(lease.entry)
        else:
            self._back(leases, place, "out of memory" if memory else "raised", reason)
            if memory and self._rest(place, reason, now, idle=not leases):
                return
        self._actions.append(Begin(slot, generation, place.rows))

    def died(self, slot: int, generation: int, reason: str, now: float, *, cause: Cause = "died") -> None:
        """The process has ended, whatever the reason."""
        place = self._current(slot, generation)
        if place is None:
            return
        if place.state == "starting":
            place.failed_start(reason, now, self.limits)
        else:
            place.fell(now, self.limits)
        self._back(place.release(), place, cause, reason)

    def refused(self, slot: int, generation: int, now: float) -> None:
        """The process was not started: its device has not enough free memory yet."""
        place = self._current(slot, generation)
        if place is not None:
            place.refused(now, self.limits)

    def resumed(self, now: float) -> None:
        """The owner itself was suspended: missed signs of life do not count."""
        for place in self.slots:
            place.seen = now

    # What the owner has to do.

    def actions(self, now: float) -> tuple[Action, ...]:
        """Actions that follow from all reports up to now; each is returned once."""
        self._look_for_the_late(now)
        self._start(now)
        self._grant(now)
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
        """Counts of chunks and workers by state."""
        return Census(
            expected=sum(place.phase != "waiting" for place in self.slots),
            running=sum(place.running for place in self.slots),
            busy=sum(bool(place.leases) for place in self.slots),
            waiting=len(self._queue),
            leased=self._leased(),
        )

    def awaited(self) -> tuple[tuple[Slot, tuple[Lease, ...]], ...]:
        """While it drains: who still has chunks of jobs of which no more are handed out, and his leases of them."""
        found = []
        for place in self.slots:
            jobs = ((lease, lease.entry.key.job) for lease in place.leases.values())
            leases = tuple(lease for lease, job in jobs if job in self._jobs and self._queue.holds(job))
            if leases:
                found.append((place, leases))
        return tuple(found)

    def _leased(self) -> int:
        return sum(len(place.leases) for place in self.slots)

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
        warm = 0 if self._draining else self.limits.warm
        wanted = max(warm, workers_wanted(self._queue.free + self._leased(), len(self.slots)))
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

    def _grant(self, now: float) -> None:
        """Chunks for those who ask, one after the other: the next is for the worker that has the fewest."""
        most = self._most()
        apart = self._set_apart()
        asking = [place for place in self.slots if place.phase == "open" and place.wanted]
        while asking and self._queue.free:
            place = min(asking, key=lambda each: (len(each.leases), each.number))
            entry = self._next(place, apart) if len(place.leases) < most else None
            if entry is None:
                asking.remove(place)
                continue
            lease = Lease(next(self._numbers), entry, now)
            place.give(lease, now)
            self._actions.append(
                Send(place.number, place.generation, lease.number, place.rows, entry.key, len(place.leases))
            )
            if not place.wanted:
                asking.remove(place)

    def _most(self) -> int:
        """Chunks that a worker may have now: as many as leave their share to those that still start and then ask."""
        most = self.limits.batch or len(self._queue) + self._leased()
        unfinished = self._queue.free + self._leased()
        processes = sum(place.has_process for place in self.slots)
        if unfinished <= FEW or all(place.asked for place in self.slots if place.has_process):
            return most
        return min(most, -(-unfinished // max(1, processes)))

    def _next(self, place: Slot, apart: set[int]) -> Entry | None:
        """Next chunk for the worker, or None. A chunk that has to run alone waits until a worker has nothing else."""
        if not place.leases:
            first = place.number in apart
            found = self._queue.take(lambda entry: entry.alone == first and self._may(entry, place))
            return found or self._queue.take(lambda entry: self._may(entry, place))
        if place.number in apart or place.alone:
            return None
        return self._queue.take(lambda entry: not entry.alone and self._may(entry, place))

    def _set_apart(self) -> set[int]:
        """The workers for chunks that have to run alone: those that have such a one, else those that have least."""
        apart = set()
        for entry in self._queue:
            if entry.alone and not self._queue.holds(entry.key.job):
                can = [place for place in self.slots if place.has_process and self._may(entry, place)]
                if can:
                    apart.add(min(can, key=lambda each: (not each.alone, len(each.leases), each.number)).number)
        return apart

    def _may(self, entry: Entry, place: Slot) -> bool:
        """True where the chunk may run there: not where it failed, as long as there is another worker."""
        if place.number not in entry.failed_on:
            return True
        return not any(other.usable and other.number not in entry.failed_on for other in self.slots)

    def _troubled(self) -> list[Entry]:
        return [entry for entry in self._queue if entry.failed_on and not self._queue.holds(entry.key.job)]

    def _back(self, leases: Sequence[Lease], place: Slot, cause: Cause, reason: str) -> None:
        """Requeues the leases of a failed worker: several chunks run again one by one, a single one has failed once."""
        for lease in leases:
            entry = lease.entry
            if entry.key.job not in self._jobs:
                continue
            entry.alone = True
            if len(leases) == 1:
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

    def _rest(self, place: Slot, reason: str, now: float, *, idle: bool) -> bool:
        """Stops a worker after two single chunks in a row for which its device had no memory, if others run.

        An idle worker without room for one row rests too, with or without others: it would only begin again.
        """
        place.memory_failures += 1
        others = any(other.has_process for other in self.slots if other is not place)
        resting = place.memory_failures >= 2 and (others or idle)
        if resting:
            _log.warning(
                "worker %d rests for %.0f s, its device has no room for one chunk: %s",
                place.number,
                self.limits.rest_seconds,
                reason,
            )
            self._actions.append(Kill(place.number, place.generation, "out of memory"))
            place.rest(now, self.limits)
        return resting

    def _give_up_without_workers(self) -> None:
        if any(place.state != "off" for place in self.slots):
            return
        reason = "; ".join(f"worker {place.number}: {place.reason}" for place in self.slots)
        for entry in self._queue.take_all():
            self._actions.append(GiveUp(entry.key, "no worker", f"no worker could be started: {reason}"))
