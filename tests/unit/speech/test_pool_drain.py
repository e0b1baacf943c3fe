"""The pool before its end: what workers have is handed in and kept, and nothing more is handed out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from eventually import PATIENCE, eventually
from simulated_pool import SimulatedPool

from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.job import JobEndedError, Outcome
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.queue import ChunkKey
from voxyard.speech.pool.scheduler import Scheduler, SendChunk, StartWorker
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request

QUICK = PoolLimits(backoff=0.01, max_backoff=0.05)
MakePool = Callable[..., Pool]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[MakePool]:
    """Makes pools of fake engines that take `seconds` for a batch; closes them."""
    made: list[Pool] = []

    def make(workers: int = 1, *, limits: PoolLimits = QUICK, **settings: Any) -> Pool:
        engine = EngineSpec("engines:tones", {"marks": str(tmp_path), "rows": 2, **settings})
        made.append(
            Pool(engine, [Device(f"gpu {number}") for number in range(workers)], limits=limits, heartbeat_seconds=0.2)
        )
        return made[-1]

    yield make
    for each in made:
        each.close(1.0)


def requests(count: int) -> list[Request]:
    return [Request(number, f"text {number}", voice="en_1", seed=7, seconds=1.0) for number in range(count)]


def busy(pool: Pool) -> int:
    return sum(worker.state == "busy" for worker in pool.workers())


def test_what_the_workers_have_is_delivered_and_nothing_more_is_handed_out(pool: MakePool, tmp_path: Path) -> None:
    speaking, heard = pool(2, held=0), list[Outcome]()
    job = speaking.submit(requests(20), deliver=heard.append)
    eventually(lambda: busy(speaking) == 2)

    drain = speaking.drain()
    eventually(lambda: drain.pending)
    assert {each.device for each in drain.pending} <= {"gpu 0", "gpu 1"}
    (tmp_path / "on").touch()
    assert drain.wait(PATIENCE)

    spoken = len(heard)
    assert all(outcome.result is not None for outcome in heard)
    assert 2 <= spoken < 20
    assert drain.pending == ()
    eventually(lambda: busy(speaking) == 0)
    time.sleep(0.3)  # in which an idle worker would have got the next ones
    assert (len(heard), job.finished) == (spoken, False)
    speaking.close()
    with pytest.raises(JobEndedError):
        next(job.outcomes())


def test_a_batch_is_awaited_to_its_last_chunk(pool: MakePool, tmp_path: Path) -> None:
    speaking, heard = pool(rows=4, held=1), list[Outcome]()
    speaking.submit(requests(4), deliver=heard.append)
    eventually(lambda: heard)

    drain = speaking.drain()

    assert not drain.finished
    (tmp_path / "on").touch()
    assert drain.wait(PATIENCE)
    assert [outcome.index for outcome in heard] == [0, 1, 2, 3]


def test_a_pool_without_work_is_drained_at_once_and_takes_up_nothing(pool: MakePool) -> None:
    speaking = pool()
    drain = speaking.drain()
    assert drain.wait(PATIENCE)
    job = speaking.submit(requests(1))
    assert not job.wait(0.3)
    assert [worker.processes for worker in speaking.workers()] == [0]
    assert speaking.drain() is drain


def test_a_closed_pool_is_drained(pool: MakePool) -> None:
    speaking = pool()
    speaking.close()
    assert speaking.drain().finished


def test_jobs_that_somebody_waits_for_are_spoken_on(pool: MakePool, tmp_path: Path) -> None:
    speaking = pool(held=0)
    document = speaking.submit(requests(12))
    speech = speaking.submit(requests(6), priority=1)
    eventually(lambda: busy(speaking))

    drain = speaking.drain(below=1)
    (tmp_path / "on").touch()

    assert speech.wait(PATIENCE)
    assert drain.wait(PATIENCE)
    assert speech.progress.done == 6
    assert document.progress.done < 12


def test_a_cancelled_job_is_not_awaited(pool: MakePool) -> None:
    speaking = pool(seconds=3600.0)
    job = speaking.submit(requests(2))
    eventually(lambda: busy(speaking))
    drain = speaking.drain()
    assert not drain.wait(0.3)

    job.cancel()

    assert drain.wait(PATIENCE)


def test_a_worker_that_dies_with_its_chunks_is_not_awaited_and_not_replaced(pool: MakePool, tmp_path: Path) -> None:
    speaking = pool(limits=PoolLimits(backoff=0.01, warm_workers=1), held=0, faults={"between": ["kill", 1]})
    job = speaking.submit(requests(2))
    eventually(lambda: busy(speaking))

    drain = speaking.drain()
    (tmp_path / "on").touch()

    assert drain.wait(PATIENCE)
    time.sleep(0.3)
    assert [worker.processes for worker in speaking.workers()] == [1]
    assert not job.finished  # its second chunk has not failed either


def test_after_a_drain_a_worker_that_still_speaks_is_ended_at_once(pool: MakePool) -> None:
    speaking = pool(seconds=3600.0)
    speaking.submit(requests(2))
    eventually(lambda: busy(speaking))
    drain = speaking.drain()
    assert not drain.wait(0.2)

    began = time.monotonic()
    speaking.close(PATIENCE)

    assert time.monotonic() - began < PATIENCE / 2  # it was not given the minute of the idle ones
    assert drain.finished


def opened(scheduler: Scheduler, slot: int, *, asks: int) -> tuple[SendChunk, ...]:
    """The slot's first process opens and asks; what it gets."""
    scheduler.engine_ready(slot, 1, 2, 1.0)
    for _ in range(asks):
        scheduler.chunk_wanted(slot, 1, 1.0)
    return tuple(action for action in scheduler.actions(1.0) if isinstance(action, SendChunk))


def test_a_drain_starts_no_worker_and_sends_nothing_of_what_is_held() -> None:
    scheduler = Scheduler(2, PoolLimits(warm_workers=2, heartbeat_timeout=1000.0))
    scheduler.submit(0, [1.0] * 8, 0.0)
    assert [type(action) for action in scheduler.actions(0.0)] == [StartWorker, StartWorker]
    sent = opened(scheduler, 0, asks=2)
    assert len(sent) == 2

    scheduler.drain(below=1)
    assert opened(scheduler, 1, asks=2) == ()
    assert [(place.number, len(leases)) for place, leases in scheduler.pending()] == [(0, 2)]

    for each in sent:
        assert scheduler.chunk_done(0, 1, each.lease, 3.0)
    assert scheduler.pending() == ()
    scheduler.process_ended(1, 1, "it was killed", 4.0)
    assert scheduler.actions(100.0) == ()
    assert scheduler.stats().waiting == 6

    scheduler.submit(1, [1.0], 101.0, priority=1)
    scheduler.chunk_wanted(0, 1, 101.0)
    (other,) = scheduler.actions(101.0)
    assert isinstance(other, SendChunk)
    assert other.chunk == ChunkKey(1, 0)
    assert scheduler.pending() == ()


def test_a_chunk_that_comes_back_while_the_pool_drains_is_held() -> None:
    simulated = SimulatedPool(1, rows=2)
    simulated.scheduler.submit(0, [1.0] * 4, 0.0)
    simulated.run(until=0.5)
    sent = len(simulated.sent)
    simulated.scheduler.drain(below=1)
    simulated.scheduler.engine_raised(0, 1, "it cannot say so", 1.0)
    assert simulated.scheduler.pending() == ()
    simulated.run(until=500.0)
    assert sent == 2
    assert (len(simulated.sent), simulated.spoken, simulated.given_up) == (sent, [], {})


def test_no_second_worker_is_started_for_a_chunk_that_is_held() -> None:
    scheduler = Scheduler(2, PoolLimits())
    scheduler.submit(0, [1.0], 0.0)
    scheduler.actions(0.0)
    (sent,) = opened(scheduler, 0, asks=1)
    scheduler.drain(below=1)

    scheduler.chunk_unspeakable(0, 1, sent.lease, "it cannot say so", 2.0)

    assert scheduler.actions(2.0) == ()
    assert scheduler.stats().waiting == 1


@pytest.mark.parametrize(
    ("settings", "state"), [({"seconds": 3600.0}, "busy"), ({"opening": 3600.0}, "starting")], ids=["speaks", "loads"]
)
def test_a_pool_that_is_closed_does_not_wait_for_a_worker_that(
    pool: MakePool, settings: dict[str, float], state: str
) -> None:
    speaking = pool(**settings)
    speaking.submit(requests(2))
    eventually(lambda: speaking.workers()[0].state == state)

    began = time.monotonic()
    speaking.close(PATIENCE)

    assert time.monotonic() - began < PATIENCE / 2
