"""A pool that has nothing to speak: its workers end, their GPUs are free, and the next chunk starts one again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from eventually import PATIENCE, eventually
from prometheus_client import CollectorRegistry
from simulated_pool import SimulatedPool

from voxyard.cli.serve import serve
from voxyard.host.nvml import Gpu
from voxyard.service.documents.queue import DocumentQueue
from voxyard.service.routes.operations import readiness
from voxyard.service.shutdown import GracefulShutdown
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.open_pool import open_pool
from voxyard.speech.placement import Refusal
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.scheduler import KillWorker, Scheduler, StartWorker, StopIdleWorker
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request

QUIET = 1e9  # seconds: simulated workers without chunks send no heartbeats
IDLE = PoolLimits(warm_workers=2, idle_release=60.0, heartbeat_timeout=QUIET)
ONE = PoolLimits(warm_workers=1, idle_release=60.0, heartbeat_timeout=QUIET)


def states(pool: SimulatedPool) -> list[str]:
    return [worker.state for worker in pool.scheduler.slots]


def test_workers_end_after_so_long_without_work_and_start_for_the_next_chunk() -> None:
    pool = SimulatedPool(2, limits=IDLE, start=lambda _: 10.0)
    pool.run(until=69.0)
    assert states(pool) == ["ready", "ready"]
    pool.run(until=71.0)
    assert [(round(when), slot) for when, slot in pool.stops] == [(70, 0), (70, 1)]
    assert states(pool) == ["released", "released"]
    assert (pool.scheduler.stats().expected, pool.scheduler.stats().released) == (0, 2)
    pool.at(500.0, lambda: pool.scheduler.submit(0, [1.0] * 3, pool.now))
    pool.run(until=505.0)
    assert states(pool) == ["starting", "released"]  # as many as the chunks need, not all
    assert pool.scheduler.slots[0].woken
    pool.run(until=700.0)
    assert len(pool.spoken) == 3
    assert states(pool) == ["released", "released"]
    assert not pool.scheduler.slots[0].woken


def test_some_workers_stay_where_so_many_are_to() -> None:
    pool = SimulatedPool(3, limits=PoolLimits(warm_workers=3, idle_release=60.0, keep_warm=1, heartbeat_timeout=QUIET))
    pool.run(until=100.0)
    assert states(pool) == ["ready", "released", "released"]


def test_without_the_limit_all_stay() -> None:
    pool = SimulatedPool(2, limits=PoolLimits(warm_workers=2, heartbeat_timeout=QUIET))
    pool.run(until=100_000.0)
    assert (states(pool), pool.stops) == (["ready", "ready"], [])


def test_work_keeps_every_worker() -> None:
    pool = SimulatedPool(2, limits=replace(IDLE, progress_timeout=QUIET), duration=lambda _: 100.0)
    pool.scheduler.submit(0, [1.0], 0.0)
    pool.run(until=99.0)
    assert pool.stops == []
    pool.run(until=161.0)
    assert [slot for _, slot in pool.stops] == [0, 1]


def test_a_chunk_that_comes_while_workers_end_is_spoken_by_one_that_starts_again() -> None:
    scheduler = Scheduler(1, ONE)
    scheduler.actions(0.0)
    scheduler.engine_ready(0, 1, 1, 0.0)
    scheduler.chunk_wanted(0, 1, 0.0)
    scheduler.actions(0.0)
    assert scheduler.actions(60.0) == (StopIdleWorker(0, 1),)
    scheduler.submit(0, [1.0], 61.0)
    scheduler.chunk_wanted(0, 1, 61.0)  # of the process that is about to end
    assert scheduler.actions(61.0) == ()
    scheduler.process_ended(0, 1, "status 0", 62.0)
    assert scheduler.actions(62.0) == (StartWorker(0, 2),)


def test_a_worker_that_does_not_end_is_killed_and_its_slot_starts_again() -> None:
    scheduler = Scheduler(1, ONE)
    scheduler.actions(0.0)
    scheduler.engine_ready(0, 1, 1, 0.0)
    scheduler.actions(0.0)
    scheduler.actions(60.0)
    assert scheduler.next_deadline(60.0) == 10.0
    assert scheduler.actions(70.0) == (KillWorker(0, 1, "did not end within 10 s", "late"),)
    assert scheduler.slots[0].state == "released"
    scheduler.submit(0, [1.0], 71.0)
    assert scheduler.actions(71.0) == (StartWorker(0, 2),)


def test_a_worker_that_waits_for_its_gpu_waits_no_more_once_there_is_no_work() -> None:
    pool = SimulatedPool(1, limits=ONE, refuse=lambda *_: True)
    pool.run(until=61.0)
    assert states(pool) == ["released"]
    tries = len(pool.refusals)
    pool.run(until=1000.0)
    assert len(pool.refusals) == tries


@pytest.mark.parametrize(("ready", "state"), [(True, "released"), (False, "down")])
def test_a_worker_that_died_is_released_too_unless_it_cannot_start(ready: bool, state: str) -> None:
    scheduler = Scheduler(1, replace(ONE, backoff=100.0, max_backoff=100.0))
    scheduler.actions(0.0)
    if ready:
        scheduler.engine_ready(0, 1, 1, 0.0)
    scheduler.process_ended(0, 1, "killed by signal 9", 1.0)
    scheduler.actions(1.0)
    scheduler.actions(62.0)
    assert scheduler.slots[0].state == state
    scheduler.submit(0, [1.0], 63.0)
    assert (StartWorker(0, 2) in scheduler.actions(63.0)) == ready


@pytest.mark.slow
def test_a_process_ends_its_gpu_is_free_and_the_next_chunk_is_spoken() -> None:
    registry, freed = CollectorRegistry(), list[str]()
    limits = PoolLimits(warm_workers=2, idle_release=0.05, backoff=0.01)
    pool = Pool(
        EngineSpec("engines:tones"), [Device("0"), Device("1")],
        limits=limits, observer=PoolMetrics(registry), released=lambda device: freed.append(device.name),
    )  # fmt: skip
    with pool:
        eventually(lambda: [each.state for each in pool.workers()] == ["released"] * 2, "both are released")
        assert sorted(freed) == ["0", "1"]
        assert [(each.pid, each.reason) for each in pool.workers()] == [(None, "")] * 2
        assert registry.get_sample_value("voxyard_bark_workers_released") == 2
        assert registry.get_sample_value("voxyard_bark_workers_expected") == 0
        failures = [each for each in registry.collect() if each.name == "voxyard_bark_chunk_failures"]
        assert not any(each.samples for each in failures)  # it is no death
        assert pool.waiting is None
        job = pool.submit([Request(0, "text")])
        assert job.wait(PATIENCE)
        assert [outcome.failure for outcome in job.outcomes()] == [None]
        assert sum(each.processes for each in pool.workers()) == 3


def test_a_gpu_that_is_given_back_is_assigned_to_nobody() -> None:
    card, registry = Gpu(0, "GPU-0", "H100", "00000000:01:00.0", 80_000, 80_000, (9, 0)), CollectorRegistry()
    labels = {"workload": "bark", "role": "bark", "gpu": "0", "uuid": "GPU-0"}

    def assigned() -> float | None:
        return registry.get_sample_value("voxyard_workload_gpu_assigned", labels)

    with open_pool(
        EngineSpec("engines:tones"), SpeechSection(), "cuda",
        workload="bark", registry=registry, warm="all", idle_release=0.3, gpus=lambda: [card],
    ) as pool:  # fmt: skip
        eventually(lambda: assigned() == 1, "its worker has it")
        eventually(lambda: assigned() == 0, "it is given back")
        job = pool.submit([Request(0, "text")])
        assert job.wait(PATIENCE)
        assert pool.workers()[0].processes == 2


class _Queue:
    problem: str | None = None


class _Shutdown:
    announced = draining = False


def test_a_service_whose_workers_are_released_is_ready_also_while_one_starts_again() -> None:
    queue: DocumentQueue = _Queue()  # type: ignore[assignment]
    shutdown: GracefulShutdown = _Shutdown()  # type: ignore[assignment]
    refused = [False]

    def admit(_: Device) -> Refusal | None:
        return Refusal("memory", "GPU 0 is held by a trainer") if refused[0] else None

    limits = PoolLimits(warm_workers=1, idle_release=0.05, backoff=0.01, max_backoff=0.01)
    with Pool(EngineSpec("engines:tones"), [Device("0")], limits=limits, admit=admit) as pool:
        eventually(lambda: pool.workers()[0].state == "released", "it is released")
        expected = "no worker has its model loaded, as there was nothing to speak: the next request starts one"
        assert readiness(pool, queue, shutdown) == (True, expected)
        refused[0] = True
        job = pool.submit([Request(0, "text")])
        eventually(lambda: pool.workers()[0].state == "waiting", "its GPU is not free any more")
        assert readiness(pool, queue, shutdown)[0] is False
        refused[0] = False
        assert job.wait(PATIENCE)


def test_to_keep_workers_warm_needs_the_release_of_others(tmp_path: Path) -> None:
    flags = ["--keep-warm", "1", "--port", "0", "--data-dir", str(tmp_path)]
    done = CliRunner().invoke(serve, flags)
    assert done.exit_code == 2
    assert "--keep-warm 1 has no effect: add --idle-release SECONDS" in done.output
