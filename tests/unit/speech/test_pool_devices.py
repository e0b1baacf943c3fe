"""A pool whose devices come and go: chunks wait for one, move to others, and fail only where none comes in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines import sound
from eventually import PATIENCE, eventually

from voxyard.speech.engine import EngineSpec
from voxyard.speech.placement import Refusal
from voxyard.speech.pool.ipc import StopWorker, ToWorker
from voxyard.speech.pool.job import Job
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.queue import ChunkKey
from voxyard.speech.pool.scheduler import Action, FailChunk, KillWorker, Scheduler, SendChunk, StartWorker
from voxyard.speech.pool.transport import OnWorkerMessage, StartRefused
from voxyard.speech.pool.worker_process import Device, WorkerProcess
from voxyard.speech.requests import Request

NOBODY = "no host has joined yet"
QUICK = PoolLimits(backoff=0.01, max_backoff=0.05)
ONE, TWO = Device("one/0"), Device("two/0")
MakePool = Callable[..., Pool]


@pytest.fixture
def elastic(tmp_path: Path) -> Iterator[MakePool]:
    """Makes pools without a device; closes them."""
    made: list[Pool] = []

    def make(limits: PoolLimits = QUICK, factory: str = "tones", launch: Any = WorkerProcess, **settings: Any) -> Pool:
        engine = EngineSpec(f"engines:{factory}", {"marks": str(tmp_path), **settings})
        made.append(Pool(engine, (), limits=limits, heartbeat_seconds=0.2, launch=launch, no_device=NOBODY))
        return made[-1]

    yield make
    for each in made:
        each.close(3.0)


def requests(count: int) -> list[Request]:
    return [Request(index, f"Chunk {index} of the text.", seed=7) for index in range(count)]


def assert_whole(job: Job, count: int) -> None:
    assert job.wait(PATIENCE), f"not finished: {job.progress}"
    outcomes = list(job.outcomes())
    assert [each.index for each in outcomes] == list(range(count))
    for each, request in zip(outcomes, requests(count), strict=True):
        assert each.result is not None
        np.testing.assert_array_equal(each.result.audio, sound(request))


def test_chunks_wait_for_a_device_that_comes(elastic: MakePool) -> None:
    pool = elastic()
    job = pool.submit(requests(6))
    assert pool.waiting == NOBODY
    assert not pool.workers()

    pool.add(ONE)

    assert_whole(job, 6)
    eventually(lambda: pool.waiting is None)
    assert [worker.device for worker in pool.workers()] == ["one/0"]


def test_chunks_of_a_device_that_goes_are_spoken_elsewhere(elastic: MakePool, tmp_path: Path) -> None:
    pool = elastic(held=0)
    pool.add(ONE)
    pool.add(TWO)
    job = pool.submit(requests(24))
    eventually(lambda: any(worker.device == "one/0" and worker.state == "busy" for worker in pool.workers()))

    pool.remove(ONE, "its host has left the cluster")
    (tmp_path / "on").touch()

    assert_whole(job, 24)
    assert [worker.device for worker in pool.workers()] == ["two/0"]


def test_the_last_device_that_goes_leaves_the_chunks_waiting_for_the_next(elastic: MakePool, tmp_path: Path) -> None:
    pool = elastic(held=0)
    pool.add(ONE)
    job = pool.submit(requests(8))
    eventually(lambda: any(worker.state == "busy" for worker in pool.workers()))

    pool.remove(ONE, "its host has left the cluster")
    eventually(lambda: pool.waiting == NOBODY)
    (tmp_path / "on").touch()
    pool.add(TWO)

    assert_whole(job, 8)


def test_a_host_may_refuse_a_worker_for_now(elastic: MakePool) -> None:
    left = [True]  # refusals

    class Refused:
        pid = None

        def send(self, message: ToWorker) -> None:
            assert isinstance(message, StopWorker)

        def kill(self) -> None:
            pass

        def join(self, seconds: float) -> bool:
            return True

    def launch(device: Device, engine: EngineSpec, heartbeat_seconds: float, report: OnWorkerMessage) -> Any:
        if not left:
            return WorkerProcess(device, engine, heartbeat_seconds, report)
        left.clear()
        report(StartRefused(Refusal("memory", "GPU 0: 10 MiB are free, a worker needs 6144 MiB")))
        return Refused()

    pool = elastic(launch=launch, limits=PoolLimits(backoff=0.3))
    pool.add(ONE)
    job = pool.submit(requests(2))
    eventually(lambda: pool.waiting is not None and "10 MiB are free" in pool.waiting)

    assert_whole(job, 2)
    assert pool.waiting is None


@pytest.mark.slow
def test_a_worker_that_fails_to_start_is_tried_again_after_a_rest(elastic: MakePool) -> None:
    pool = elastic(
        limits=PoolLimits(backoff=0.01, max_backoff=0.05, cool_down_seconds=1.0), faults={"prepare": ["raise", 3]}
    )
    pool.add(ONE)
    job = pool.submit(requests(2))
    eventually(lambda: pool.waiting is not None and "fault 'raise' in prepare" in pool.waiting)

    assert_whole(job, 2)


# The scheduler alone, on a clock of the test.


def started(scheduler: Scheduler, slot: int) -> list[Action]:
    """Actions after the engine of this slot is ready and asks for four chunks."""
    scheduler.actions(0.0)
    worker = scheduler.slots[slot]
    assert worker.state == "starting"
    scheduler.engine_ready(slot, worker.generation, 4, 0.0)
    scheduler.actions(0.0)
    for _ in range(4):
        scheduler.chunk_wanted(slot, worker.generation, 0.0)
    return list(scheduler.actions(0.0))


def sent(actions: list[Action]) -> list[ChunkKey]:
    return [action.chunk for action in actions if isinstance(action, SendChunk)]


@pytest.mark.parametrize("how", ["removed", "lost"])
def test_a_host_that_goes_is_no_fault_of_its_chunks(how: str) -> None:
    scheduler = Scheduler(0, PoolLimits(warm_workers=2), elastic=True)
    first, second = scheduler.add_slot(), scheduler.add_slot()
    scheduler.submit(0, [1.0] * 4, 0.0)
    assert len(sent(started(scheduler, first))) == 4

    for _ in range(5):  # more often than a chunk may end its worker
        if how == "removed":
            scheduler.remove_slot(first, "it left")
            assert scheduler.add_slot() == first
        else:
            scheduler.process_ended(first, scheduler.slots[first].generation, "cut off", 0.0, cause="left")
            scheduler.slots[first].not_before = 0.0
        assert len(sent(started(scheduler, first))) == 4, "they wait as they were, in a batch"

    scheduler.remove_slot(first, "it left")
    assert len(sent(started(scheduler, second))) == 4
    assert not [each for each in scheduler.actions(10_000.0) if isinstance(each, FailChunk)]


def test_the_place_of_a_device_that_has_gone_ignores_what_its_former_worker_says() -> None:
    scheduler = Scheduler(0, PoolLimits(warm_workers=1), elastic=True)
    slot = scheduler.add_slot()
    scheduler.submit(0, [1.0], 0.0)
    (send,) = (each for each in started(scheduler, slot) if isinstance(each, SendChunk))
    scheduler.remove_slot(slot, "it left")
    assert scheduler.add_slot() == slot
    started(scheduler, slot)

    assert not scheduler.chunk_done(slot, send.generation, send.lease, 1.0)


def test_a_chunk_that_failed_on_a_device_that_has_gone_may_run_on_the_next_in_its_place() -> None:
    scheduler = Scheduler(0, PoolLimits(warm_workers=2), elastic=True)
    first = scheduler.add_slot()
    scheduler.add_slot()
    scheduler.submit(0, [1.0], 0.0)
    (send,) = (each for each in started(scheduler, first) if isinstance(each, SendChunk))
    scheduler.chunk_unspeakable(first, send.generation, send.lease, "it raised", 0.0)
    scheduler.remove_slot(first, "it left")
    assert scheduler.add_slot() == first

    assert len(sent(started(scheduler, first))) == 1


def test_without_a_worker_chunks_fail_after_the_wait_and_say_why() -> None:
    scheduler = Scheduler(0, PoolLimits(worker_wait=900.0), elastic=True)
    scheduler.submit(0, [1.0], 0.0)
    assert scheduler.actions(0.0) == ()
    assert scheduler.next_deadline(0.0) == 900.0
    assert scheduler.actions(899.0) == ()

    (failed,) = scheduler.actions(900.0)

    assert isinstance(failed, FailChunk)
    assert "there is no device" in failed.reason


def test_a_device_that_comes_in_time_ends_the_wait() -> None:
    scheduler = Scheduler(0, PoolLimits(worker_wait=900.0), elastic=True)
    scheduler.submit(0, [1.0], 0.0)
    scheduler.actions(0.0)
    slot = scheduler.add_slot()
    assert [each for each in scheduler.actions(800.0) if isinstance(each, StartWorker)]
    scheduler.engine_ready(slot, scheduler.slots[slot].generation, 4, 950.0)
    scheduler.actions(950.0)
    scheduler.remove_slot(slot, "it left")
    assert scheduler.actions(1000.0) == ()
    assert scheduler.actions(1899.0) == ()

    assert [each for each in scheduler.actions(1900.0) if isinstance(each, FailChunk)]


def test_chunks_fail_at_once_where_each_worker_has_failed_to_start() -> None:
    scheduler = Scheduler(0, PoolLimits(worker_wait=900.0, backoff=0.0), elastic=True)
    slot = scheduler.add_slot()
    scheduler.submit(0, [1.0], 0.0)
    for _ in range(scheduler.limits.max_failed_starts):
        assert [each for each in scheduler.actions(0.0) if isinstance(each, StartWorker)]
        scheduler.process_ended(slot, scheduler.slots[slot].generation, "no weights", 0.0, cause="crashed")

    (failed,) = (each for each in scheduler.actions(0.0) if isinstance(each, FailChunk))

    assert "no weights" in failed.reason


def test_without_a_limit_chunks_wait_for_ever() -> None:
    scheduler = Scheduler(0, PoolLimits(), elastic=True)
    scheduler.submit(0, [1.0], 0.0)

    assert scheduler.actions(0.0) == ()
    assert scheduler.next_deadline(0.0) is None
    assert scheduler.actions(1e9) == ()


def test_a_worker_that_hangs_is_killed_in_an_elastic_pool_too() -> None:
    scheduler = Scheduler(0, PoolLimits(warm_workers=1), elastic=True)
    slot = scheduler.add_slot()
    scheduler.submit(0, [1.0], 0.0)
    started(scheduler, slot)

    found = scheduler.actions(scheduler.limits.heartbeat_timeout + 1)

    assert [each.cause for each in found if isinstance(each, KillWorker)] == ["hung"]
