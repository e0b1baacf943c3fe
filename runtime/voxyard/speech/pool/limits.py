"""Pool limits: timeouts, retries, and the number of workers for a document's length."""

from __future__ import annotations

from dataclasses import dataclass

FEW = 4  # chunks that one worker takes without waiting for another to start
MANY = 10  # more than these use every worker


@dataclass(frozen=True)
class PoolLimits:
    """Timeouts, retries and backoff of the scheduler; times in seconds."""

    max_chunks: int | None = None  # of a worker at a time; None: as many as its engine asks for
    progress_timeout: float = 20.0  # without progress on its chunks a worker counts as hung
    start_timeout: float = 900.0  # until a worker has loaded its engine; alone counts while it loads
    stall_timeout: float = 120.0  # of a start, after which nothing counts on it any more while it goes on
    heartbeat_timeout: float = 25.0  # without a heartbeat a worker that has loaded its engine counts as hung
    max_failures: int = 2  # of a chunk that ran alone, each on another worker where there is one
    max_deaths: int = 2  # of workers with this chunk alone; one more where workers have died of something else
    max_failed_starts: int = 3  # in a row, after which a worker is off
    backoff: float = 1.0  # before a worker is started again, doubled each time
    max_backoff: float = 60.0
    cool_down_seconds: float = 300.0  # of a worker whose device has no memory for single chunks
    warm_workers: int = 0  # that run without any work too
    idle_release: float | None = None  # without any work, after which workers end; the next chunk starts one again
    keep_warm: int = 0  # workers that do not
    stop_timeout: float = 10.0  # until a worker that is to end has ended; then it is killed
    worker_wait: float | None = None  # where devices come and go: without any worker so long, chunks fail; None: never

    def backoff_after(self, times: int) -> float:
        """Seconds until the next start after so many failures in a row."""
        return min(self.backoff * 2.0 ** min(times - 1, 30), self.max_backoff)


def workers_wanted(chunks: int, slots: int) -> int:
    """Workers for so many unfinished chunks: one for four or fewer, all for more than ten."""
    if chunks > MANY:
        return slots
    return min(slots, -(-chunks // FEW))
