"""The queue of chunks: shares between tenants, priorities between jobs, longest or earliest first inside one."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

FIRST = 0  # index of a job's first chunk


@dataclass(frozen=True, order=True, slots=True)
class ChunkKey:
    """A chunk of a job: `index` counts from 0 in text order."""

    job: int
    index: int


@dataclass(slots=True, eq=False)
class QueuedChunk:
    """A chunk of a job with its estimated length and its failures so far."""

    key: ChunkKey
    seconds: float  # of audio, estimated
    since: float = 0.0  # when it was first put into the queue
    alone: bool = False  # was in a batch that failed: runs alone next, which shows if it was the cause
    failed_on: set[int] = field(default_factory=set)  # slots
    failures: list[str] = field(default_factory=list)  # reasons, of runs alone only
    deaths: int = 0  # worker processes that ended while they had only this chunk

    @property
    def failed(self) -> bool:
        """True where it was in a run that failed."""
        return self.alone or bool(self.failures)


@dataclass(slots=True)
class _Waiting:
    """Waiting chunks of one job. Two heaps over the same chunks; one that was taken stays in the other, ignored."""

    number: int
    priority: int
    listening: bool
    tenant: str = ""
    chunks: dict[int, QueuedChunk] = field(default_factory=dict)
    failed: dict[int, QueuedChunk] = field(default_factory=dict)  # of them
    longest: list[tuple[float, int]] = field(default_factory=list)
    earliest: list[int] = field(default_factory=list)

    @property
    def urgent(self) -> bool:
        """True where a listener waits for the first chunk, and it is still here."""
        return self.listening and FIRST in self.chunks

    def rank(self) -> tuple[int, bool, bool, int]:
        return -self.priority, not self.listening, not self.urgent, self.number

    def put(self, chunk: QueuedChunk) -> None:
        index = chunk.key.index
        self.chunks[index] = chunk
        if chunk.failed:
            self.failed[index] = chunk
        heapq.heappush(self.longest, (-chunk.seconds, index))
        heapq.heappush(self.earliest, index)

    def take(self, may_run: Callable[[QueuedChunk], bool]) -> QueuedChunk | None:
        """The first chunk, in the order in force, that may run."""
        skipped: list[QueuedChunk] = []
        taken = None
        while taken is None and self.chunks:
            index = heapq.heappop(self.earliest) if self.listening else heapq.heappop(self.longest)[1]
            chunk = self.chunks.pop(index, None)
            if chunk is None:
                continue
            if may_run(chunk):
                taken = chunk
            else:
                skipped.append(chunk)
        for chunk in skipped:  # back into the heap it was taken from; in the other one it still is
            self.chunks[chunk.key.index] = chunk
            if self.listening:
                heapq.heappush(self.earliest, chunk.key.index)
            else:
                heapq.heappush(self.longest, (-chunk.seconds, chunk.key.index))
        if taken is not None:
            self.failed.pop(taken.key.index, None)
        return taken

    def take_failed(self, may_run: Callable[[QueuedChunk], bool]) -> QueuedChunk | None:
        """The first of the chunks that failed, in the order in force, that may run."""
        fit = [chunk for chunk in self.failed.values() if may_run(chunk)]
        if not fit:
            return None
        taken = min(fit, key=lambda each: (0.0 if self.listening else -each.seconds, each.key.index))
        del self.chunks[taken.key.index], self.failed[taken.key.index]
        return taken


class ChunkQueue:
    """Chunks that wait for a worker.

    Tenants get workers by their shares: start-time fair queueing (Goyal, Vin, Cheng, 1996) of estimated seconds of
    audio. A tenant that comes while others wait neither makes up for the time before nor waits for their jobs.
    Order of a tenant's jobs: priority, then those with a listener (first those whose listener has heard nothing yet),
    then age. Order inside a job: the longest chunk first, or text order where there is a listener.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, _Waiting] = {}
        self._below = -math.inf  # jobs of a priority below this are held
        self._shares: dict[str, float] = {}  # of the tenants with jobs
        self._starts: dict[str, float] = {}  # tenant → virtual time at which its next chunk starts, in s of audio
        self._now = 0.0  # virtual time: the start of the chunk that left last

    def __len__(self) -> int:
        return sum(len(job.chunks) for job in self._jobs.values())

    def __iter__(self) -> Iterator[QueuedChunk]:
        for job in self._jobs.values():
            yield from job.chunks.values()

    def add_job(
        self, job: int, *, priority: int = 0, listening: bool = False, tenant: str = "", share: float = 1.0
    ) -> None:
        """A job whose chunks will be put; jobs are numbered in the order they come.

        `share`, above 0, is the tenant's from now on: one with twice the share gets twice the audio.
        """
        if not any(each.chunks for each in self._jobs.values()):
            self._starts.clear()  # nobody waited: what each had before does not count
        self._jobs[job] = _Waiting(job, priority, listening, tenant)
        self._shares[tenant] = share

    def remove_job(self, job: int) -> None:
        """Remove a job and its waiting chunks."""
        removed = self._jobs.pop(job, None)
        if removed is not None and all(other.tenant != removed.tenant for other in self._jobs.values()):
            del self._shares[removed.tenant]

    def hold(self, below: float) -> None:
        """Hand out no more of jobs of a priority below this."""
        self._below = below

    def holds(self, job: int) -> bool:
        """True where nothing of the job is handed out, as it is held or has been removed."""
        return job not in self._jobs or self._jobs[job].priority < self._below

    @property
    def free(self) -> int:
        """Number of chunks that wait and are not held."""
        return sum(len(job.chunks) for job in self._jobs.values() if job.priority >= self._below)

    def listen(self, job: int, listening: bool) -> None:
        """Set whether the job's audio has a listener: its chunks then leave in text order."""
        if job in self._jobs:
            self._jobs[job].listening = listening

    def urgent(self, chunk: ChunkKey) -> bool:
        """True where a listener waits for this chunk to hear anything at all."""
        job = self._jobs.get(chunk.job)
        return job is not None and job.listening and chunk.index == FIRST

    def put(self, chunk: QueuedChunk) -> None:
        """A chunk waits (again); a chunk of a job that was removed is dropped."""
        job = self._jobs.get(chunk.key.job)
        if job is not None:
            job.put(chunk)

    def take_all(self) -> tuple[QueuedChunk, ...]:
        """Remove and return every waiting chunk."""
        everything = tuple(self)
        for job in self._jobs.values():
            job.chunks.clear()
            job.failed.clear()
        return everything

    def failed(self) -> Iterator[QueuedChunk]:
        """Chunks that failed before and are not held; that takes no longer where more others wait."""
        for job in self._jobs.values():
            if job.priority >= self._below:
                yield from job.failed.values()

    def take(self, may_run: Callable[[QueuedChunk], bool], *, failed: bool = False) -> QueuedChunk | None:
        """The next chunk for which `may_run` holds, of all or of those that `failed`; None where there is none."""
        for job in sorted(self._jobs.values(), key=lambda each: (self._start(each.tenant), *each.rank())):
            if job.priority < self._below:
                continue
            chunk = job.take_failed(may_run) if failed else job.take(may_run)
            if chunk is not None:
                self._charge(job.tenant, chunk.seconds)
                return chunk
        return None

    def _start(self, tenant: str) -> float:
        """Virtual time at which the tenant's next chunk starts: not before now, where it had nothing to speak."""
        return max(self._now, self._starts.get(tenant, self._now))

    def _charge(self, tenant: str, seconds: float) -> None:
        """Count a chunk that leaves against its tenant's share; one that fails and leaves again counts again."""
        self._now = self._start(tenant)
        self._starts[tenant] = self._now + seconds / self._shares[tenant]
        if len(self._starts) > 2 * len(self._shares) + 1:  # a tenant whose time has passed needs no memory
            self._starts = {name: start for name, start in self._starts.items() if start > self._now}
