"""Metrics of a pool after a run, and the lines that an operator reads before one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from eventually import PATIENCE, eventually
from prometheus_client import CollectorRegistry

from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def run(registry: CollectorRegistry, count: int, **settings: object) -> None:
    engine = EngineSpec("engines:tones", settings)
    with Pool(engine, [Device("3", "3")], limits=PoolLimits(backoff=0.01), observer=PoolMetrics(registry)) as pool:
        job = pool.submit([Request(number, "text") for number in range(count)], listening=True)
        assert job.wait(PATIENCE)
        list(job.outcomes())


def test_chunks_and_their_sound_are_counted(registry: CollectorRegistry) -> None:
    run(registry, 10, rows=4)

    value = registry.get_sample_value
    assert value("voxyard_bark_chunks_total", {"outcome": "spoken", "gpu": "3"}) == 10
    assert value("voxyard_bark_audio_seconds_total", {"gpu": "3"}) == pytest.approx(10 * 4 * 240 / 24_000)
    assert value("voxyard_bark_batch_size_count") == value("voxyard_bark_queue_wait_seconds_count") == 10
    assert value("voxyard_bark_time_to_first_audio_seconds_count") == 1
    assert value("voxyard_bark_workers_expected") == 1
    assert value("voxyard_bark_queue_depth") == 0


def test_a_worker_is_told_to_have_worked_while_it_had_chunks_and_no_longer(registry: CollectorRegistry) -> None:
    observer = PoolMetrics(registry)

    def worked() -> float:
        return registry.get_sample_value("voxyard_bark_synthesis_seconds_total", {"gpu": "3"}) or 0.0

    with Pool(EngineSpec("engines:tones", {"seconds": 0.2, "rows": 1}), [Device("3")], observer=observer) as pool:
        for chunks in (1, 2):
            assert pool.submit([Request(0, "text")]).wait(PATIENCE)
            eventually(lambda: pool.workers()[0].state == "ready", "the worker has nothing to do")
            until_then = worked()
            assert until_then >= chunks * 0.2
            time.sleep(0.5)  # more than a heartbeat
            assert worked() == until_then


def test_a_text_that_is_refused_is_tried_once_and_counts_apart_from_failures(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    engine = EngineSpec("engines:tones", {"refused": "Привет"})
    devices = [Device("3", "3"), Device("4", "4")]
    asked = [Request(0, "Hello."), Request(1, "Привет."), Request(2, "Привет, 2.")]
    with Pool(engine, devices, observer=PoolMetrics(registry)) as pool:
        fails, silent = pool.submit(asked[:2]), pool.submit(asked[2:], on_failure="silence")
        assert fails.wait(PATIENCE)
        assert silent.wait(PATIENCE)
        spoken, refused, silenced = *fails.outcomes(), *silent.outcomes()

    assert spoken.failure is None
    for outcome in (refused, silenced):
        assert outcome.failure is not None
        assert outcome.failure.refused
        assert outcome.failure.reason == "found 'Привет', expected a word of mine", "once, by one worker"
    assert (refused.result is None, silenced.result is None) == (True, False)
    value = registry.get_sample_value
    assert value("voxyard_bark_chunks_total", {"outcome": "refused", "gpu": ""}) == 2
    names = {sample.name for family in registry.collect() for sample in family.samples if sample.value}
    assert "voxyard_bark_chunk_failures_total" not in names
    assert value("voxyard_bark_queue_wait_seconds_count") == 3
    assert [each.levelname for each in caplog.records if "could not be spoken" in each.message] == ["WARNING"] * 2


def test_what_went_wrong_is_counted_by_its_reason(registry: CollectorRegistry, tmp_path: Path) -> None:
    run(registry, 4, poison=[2], fits=2, marks=str(tmp_path), faults={"prepare": ["kill", 1]})

    value = registry.get_sample_value
    assert value("voxyard_bark_chunk_failures_total", {"reason": "out_of_memory", "gpu": "3"}) == 1
    assert value("voxyard_bark_chunk_failures_total", {"reason": "died", "gpu": "3"}) == 1
    assert value("voxyard_bark_chunks_total", {"outcome": "failed", "gpu": ""}) == 1


def test_what_an_engine_hears_in_its_own_speech_is_counted_by_worker_and_model(registry: CollectorRegistry) -> None:
    run(registry, 6, heard=["no end", "silent"])

    value = registry.get_sample_value
    whose = {"gpu": "3", "model": "tones"}
    assert value("voxyard_bark_checked_chunks_total", whose) == 6
    assert value("voxyard_bark_faulty_chunks_total", {**whose, "fault": "no_end"}) == 3
    assert value("voxyard_bark_faulty_chunks_total", {**whose, "fault": "silent"}) is None  # a chunk counts once


def test_an_engine_that_checks_nothing_has_no_such_series(registry: CollectorRegistry) -> None:
    run(registry, 2)

    assert registry.get_sample_value("voxyard_bark_checked_chunks_total", {"gpu": "3", "model": "tones"}) is None
