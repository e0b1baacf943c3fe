"""Causes of a bottleneck in a profile: those of the table, by the work of the reading threads."""

from __future__ import annotations

import pytest

from voxyard.diagnose.profile.bottleneck_cause import ReadingThreads, cause_of
from voxyard.diagnose.profile.stages import Stage

CALM = ReadingThreads(threads=8, cores=32, computing=0.9, taken=2.0, from_memory=False)


@pytest.mark.parametrize(
    ("reading", "name"),
    [
        (ReadingThreads(8, 32, 0.1, 0.8, from_memory=False), "input_storage"),
        (ReadingThreads(8, 32, 0.12, 0.95, from_memory=True), "input_one_core"),
        (ReadingThreads(8, 1, 0.12, 0.95, from_memory=False), "input_one_core"),
        (ReadingThreads(8, 8, 0.9, 7.4, from_memory=False), "input_decode"),
        (ReadingThreads(16, 8, 0.45, 7.2, from_memory=False), "input_decode"),
        (ReadingThreads(1, 32, 0.95, 0.95, from_memory=False), "input_workers"),
        (ReadingThreads(2, 32, 0.9, 1.8, from_memory=False), "input_workers"),
    ],
)
def test_what_reading_threads_do_tells_why_loading_is_late(reading: ReadingThreads, name: str) -> None:
    cause = cause_of("load", reading)
    assert cause is not None
    assert cause.name == name


@pytest.mark.parametrize("stage", ["features", "transfer"])
def test_a_slow_data_stage_is_its_own_cause(stage: Stage) -> None:
    cause = cause_of(stage, CALM)
    assert cause is not None
    assert cause.name == stage


@pytest.mark.parametrize("stage", ["train", None])
def test_a_run_that_its_training_bounds_has_no_cause(stage: Stage | None) -> None:
    assert cause_of(stage, CALM) is None
