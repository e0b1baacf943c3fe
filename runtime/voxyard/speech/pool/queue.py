"""The queue of chunks: priorities between jobs, longest or earliest first inside one."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class Key:
    """A chunk of a job: `index` counts from 0 in text order."""

    job: int
    index: int


@dataclass(slots=True, eq=False)
class Entry:
    """A chunk on its way: how long it is thought to be, and what has happened to it."""

    key: Key
    seconds: float  # of audio, estimated
    since: float = 0.0  # when it was put into the queue for the first time
    alone: bool = False  # was in a batch that failed: its next run shows whether it was the cause
    failed_on: set[int] = field(default_factory=set)  # slots
    failures: list[str] = field(default_factory=list)  # reasons, runs of its own only
    deaths: int = 0  # worker processes that ended while they had only this chunk


@dataclass(slots=True)
class _Waiting:
    """Waiting chunks of one job. Two heaps over the same entries; one that was taken stays in the other, unseen."""

    number: int
    priority: int
    listening: bool
    entries: dict[int, Entry] = field(default_factory=dict)
    longest: list[tuple[float, int]] = field(default_factory=list)
    earliest: list[int] = field(default_factory=list)

    def rank(self) -> tuple[int, bool, int]:
        return -self.priority, not self.listening, self.number

    def put(self, entry: Entry) -> None:
        index = entry.key.index
        self.entries[index] = entry
        heapq.heappush(self.longest, (-entry.seconds, index))
        heapq.heappush(self.earliest, index)

    def take(self, wants: Callable[[Entry], bool]) -> Entry | None:
        """The first entry in the order in force that is wanted."""
        passed: list[Entry] = []
        taken = None
        while taken is None and self.entries:
            index = heapq.heappop(self.earliest) if self.listening else heapq.heappop(self.longest)[1]
            entry = self.entries.pop(index, None)
            if entry is None:
                continue
            if wants(entry):
                taken = entry
            else:
                passed.append(entry)
        for entry in passed:  # back into the heap it was taken from; in the other one it still is
            self.entries[entry.key.index] = entry
            if self.listening:
                heapq.heappush(self.earliest, entry.key.index)
            else:
                heapq.heappush(self.longest, (-entry.seconds, entry.key.index))
        return taken


class ChunkQueue:
    """Chunks that wait for a worker.

    Jobs of higher priority come first, of equal priority those that somebody listens to, then the older ones. Inside
    a job the longest chunk comes first, or the earliest where somebody listens.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, _Waiting] = {}
        self._below = -math.inf  # jobs of a priority below this are held

    def __len__(self) -> int:
        return sum(len(job.entries) for job in self._jobs.values())

    def __iter__(self) -> Iterator[Entry]:
        for job in self._jobs.values():
            yield from job.entries.values()

    def add_job(self, job: int, *, priority: int = 0, listening: bool = False) -> None:
        """A job whose chunks will be put; jobs are numbered in the order they come."""
        self._jobs[job] = _Waiting(job, priority, listening)

    def remove_job(self, job: int) -> None:
        """Forget a job and what waits of it."""
        self._jobs.pop(job, None)

    def hold(self, below: float) -> None:
        """Hand out no more of jobs of a priority below this."""
        self._below = below

    def holds(self, job: int) -> bool:
        """True where nothing of the job is handed out, as it is held or has been removed."""
        return job not in self._jobs or self._jobs[job].priority < self._below

    @property
    def free(self) -> int:
        """Number of chunks that wait and are not held."""
        return sum(len(job.entries) for job in self._jobs.values() if job.priority >= self._below)

    def listen(self, job: int, listening: bool) -> None:
        """Sets whether somebody waits for the job's chunks in text order."""
        if job in self._jobs:
            self._jobs[job].listening = listening

    def put(self, entry: Entry) -> None:
        """A chunk waits (again); a chunk of a job that was removed is dropped."""
        job = self._jobs.get(entry.key.job)
        if job is not None:
            job.put(entry)

    def take_all(self) -> tuple[Entry, ...]:
        """Everything that waits; nothing does afterwards."""
        everything = tuple(self)
        for job in self._jobs.values():
            job.entries.clear()
        return everything

    def take(self, may: Callable[[Entry], bool]) -> Entry | None:
        """The next chunk for a worker that `may` run it."""
        for job in sorted(self._jobs.values(), key=_Waiting.rank):
            if job.priority < self._below:
                break
            entry = job.take(may)
            if entry is not None:
                return entry
        return None
