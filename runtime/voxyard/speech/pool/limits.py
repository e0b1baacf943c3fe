"""Pool limits: timeouts, retries, and the number of workers for a document's length."""

from __future__ import annotations

from dataclasses import dataclass

FEW = 4  # chunks that one worker takes without waiting for another to start (feature B7)
MANY = 10  # more than these use every worker


@dataclass(frozen=True)
class Limits:
    """The scheduler's numbers; times in seconds."""

    batch: int | None = None  # chunks a worker has at a time; None: as many as its engine asks for
    chunk_seconds: float = 600.0  # time a worker with chunks has until it hands in the next one
    start_seconds: float = 900.0  # time it has to load its engine
    silent_seconds: float = 30.0  # without a heartbeat a worker counts as hung
    failures: int = 2  # runs of its own in which a chunk may fail, each on another worker where there is one
    deaths: int = 3  # worker processes that may end over one chunk alone: ends have other causes too
    starts: int = 3  # failed starts in a row after which a worker is given up
    back_off: float = 1.0  # before a worker is started again, doubled each time
    back_off_most: float = 60.0
    rest_seconds: float = 300.0  # of a worker whose device has no room for single chunks
    warm: int = 0  # workers that run without any work too

    def wait(self, times: int) -> float:
        """The pause before the next start after so many ends in a row."""
        return min(self.back_off * 2.0 ** min(times - 1, 30), self.back_off_most)


def workers_wanted(chunks: int, slots: int) -> int:
    """Workers that so many unfinished chunks are worth: one for four or fewer, all for more than ten."""
    if chunks > MANY:
        return slots
    return min(slots, -(-chunks // FEW))
