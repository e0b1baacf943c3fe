"""One seed, one sound: the pool's workers with the real engine, on CPUs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest
from eventually import PATIENCE, eventually

from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.job import ChunkFailedError
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request, Result

CHUNKS = [Request(n, "Is it number " + str(n) + "? " * (1 + n % 4), seed=7) for n in range(9)]


@pytest.fixture(scope="module")
def engine(tiny_model: Path) -> EngineSpec:
    """The tiny model, two rows a batch."""
    return EngineSpec("voxyard.bark.engine:create", {"model": str(tiny_model), "device": "cpu", "batch_size": 2})


def pool(engine: EngineSpec, workers: int) -> Pool:
    return Pool(engine, [Device(f"cpu{number}") for number in range(workers)], limits=PoolLimits(backoff=0.01))


def sounds(results: Iterable[Result]) -> list[bytes]:
    heard = list(results)
    assert [each.chunk for each in heard] == [each.chunk for each in CHUNKS]
    return [each.audio.tobytes() for each in heard]


@pytest.fixture(scope="module")
def expected(engine: EngineSpec) -> list[bytes]:
    """Audio of one worker."""
    with pool(engine, 1) as speaking:
        return sounds(speaking.submit(CHUNKS).results())


def test_any_number_of_workers_speaks_the_same_bytes(engine: EngineSpec, expected: list[bytes]) -> None:
    with pool(engine, 3) as speaking:
        heard = sounds(speaking.submit(CHUNKS).results())

    assert len(set(expected)) == len(CHUNKS)
    assert heard == expected


def test_a_worker_killed_in_mid_batch_changes_no_byte(engine: EngineSpec, expected: list[bytes]) -> None:
    with pool(engine, 2) as speaking:
        results = speaking.submit(CHUNKS).results()
        first = next(results)  # the workers are at work on others now
        os.kill(next(state.pid for state in speaking.workers() if state.pid), signal.SIGKILL)
        heard = sounds([first, *results])
        eventually(lambda: sum(state.processes for state in speaking.workers()) > 2, "the killed one is started again")

    assert heard == expected


def test_a_worker_with_a_gpu_that_torch_does_not_see_speaks_nothing_and_says_why(tiny_model: Path) -> None:
    as_shipped = EngineSpec("voxyard.bark.engine:create", {"model": str(tiny_model)})

    with Pool(
        as_shipped, [Device("0", "GPU-that-torch-does-not-see")], limits=PoolLimits(max_failed_starts=1)
    ) as speaking:
        job = speaking.submit([Request(0, "Good morning.")])
        assert job.wait(PATIENCE)
        with pytest.raises(ChunkFailedError) as failed:
            list(job.results())

    assert "torch sees no GPU, but one was given or asked for: torch 2" in failed.value.reason
    assert "--device cpu" in failed.value.reason
