"""A GPU that goes out of work ends its worker, not its documents; its operator or its self-test lets it back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from eventually import PATIENCE, eventually
from prometheus_client import CollectorRegistry

from voxyard.host import out_of_work
from voxyard.host.nvml import Gpu
from voxyard.host.out_of_work import Mark, OutOfWork
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.open_pool import open_pool
from voxyard.speech.pool.pool import Pool
from voxyard.speech.requests import Request

SICK = Mark("GPU-0", 0, "Xid 79: the GPU fell off the bus", "restart the host")
MakePool = Callable[..., Pool]


def gpu(index: int) -> Gpu:
    return Gpu(index, f"GPU-{index}", "H200", f"00000000:0{index}:00.0", 140_000, 80_000, (9, 0))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OutOfWork:
    """That of the host, as another process sees it."""
    path = tmp_path / "out_of_work.json"
    monkeypatch.setenv(out_of_work.VARIABLE, str(path))
    return OutOfWork(path)


@contextmanager
def pool_on(gpus: int, seconds: float = 0.0, registry: CollectorRegistry | None = None) -> Iterator[Pool]:
    """A pool of that many GPUs, whose workers start at once and speak a chunk in so many seconds."""
    engine, section = EngineSpec("engines:tones", {"seconds": seconds}), SpeechSection()
    cards = [gpu(index) for index in range(gpus)]
    with open_pool(engine, section, "auto", workload="bark", registry=registry, warm="all", gpus=lambda: cards) as pool:
        yield pool


def states(pool: Pool) -> list[str]:
    return [worker.state for worker in pool.workers()]


@pytest.mark.slow
def test_its_worker_ends_and_all_chunks_are_spoken_by_the_others(file: OutOfWork) -> None:
    registry = CollectorRegistry()
    value = registry.get_sample_value
    with pool_on(2, seconds=0.2, registry=registry) as pool:
        job = pool.submit([Request(number, "text") for number in range(24)])
        eventually(lambda: states(pool) == ["busy", "busy"])

        file.put(SICK)
        eventually(lambda: states(pool)[0] == "waiting")
        assert str(SICK) == pool.workers()[0].reason
        assert job.wait(PATIENCE)
        outcomes = list(job.outcomes())
        assert ([each.failure for each in outcomes], len(outcomes)) == ([None] * 24, 24)
        assert value("voxyard_bark_worker_waiting", {"gpu": "0", "reason": "sick"}) == 1
        labels = {"workload": "bark", "role": "bark", "gpu": "0", "uuid": "GPU-0"}
        assert value("voxyard_workload_gpu_assigned", labels) == 0
        assert value("voxyard_bark_workers_expected") == 1

        file.give_back("GPU-0")
        eventually(lambda: states(pool) == ["ready", "ready"])
        assert value("voxyard_bark_worker_waiting", {"gpu": "0", "reason": "sick"}) == 0


def test_where_every_gpu_is_out_the_chunks_wait_and_it_is_said_why(file: OutOfWork) -> None:
    file.put(SICK)
    with pool_on(1) as pool:
        job = pool.submit([Request(0, "text")])
        eventually(lambda: pool.waiting == str(SICK))
        assert not job.finished
        file.give_back("GPU-0")
        assert job.wait(PATIENCE)


def test_one_that_is_kept_at_work_works(file: OutOfWork) -> None:
    file.put(replace(SICK, state="kept"))
    with pool_on(1) as pool:
        assert pool.submit([Request(0, "text")]).wait(60)


@pytest.mark.parametrize(("code", "said"), [(0, ""), (1, "its sums are wrong")])
def test_after_a_reset_the_self_test_decides(
    file: OutOfWork, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    program = f"import sys; print('GPU', sys.argv[1], {said!r}); sys.exit({code})"
    monkeypatch.setattr(out_of_work, "SELF_TEST", (sys.executable, "-c", program))
    file.put(replace(SICK, state="reset"))
    with pool_on(1) as pool:
        if code == 0:
            eventually(lambda: states(pool) == ["ready"])
            assert not file.marks()
        else:
            eventually(lambda: said in pool.workers()[0].reason)
            assert (states(pool), file.marks()["GPU-0"].state) == (["waiting"], "out")
