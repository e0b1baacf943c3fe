"""Causes of a bottleneck in a profile: those of the table, by the work of the reading threads."""

from __future__ import annotations

import pytest

from voxyard.diagnose.profile.bottleneck_cause import ReadingThreads, cause_of
from voxyard.diagnose.profile.stages import Stage

CALM = ReadingThreads(threads=8, cores=32, computing=0.9, taken=2.0, lock_held=0.1)


@pytest.mark.parametrize(
    ("reading", "name"),
    [
        (ReadingThreads(8, 32, 0.1, 0.8, lock_held=0.1), "input_storage"),
        (ReadingThreads(8, 32, 0.12, 0.95, lock_held=0.95), "input_one_core"),
        (ReadingThreads(32, 32, 0.03, 0.96, lock_held=0.15), "input_storage"),  # object storage
        (ReadingThreads(8, 1, 0.12, 0.95, lock_held=0.1), "input_one_core"),
        (ReadingThreads(8, 8, 0.9, 7.4, lock_held=0.1), "input_decode"),
        (ReadingThreads(16, 8, 0.45, 7.2, lock_held=0.1), "input_decode"),
        (ReadingThreads(1, 32, 0.95, 0.95, lock_held=0.1), "input_workers"),
        (ReadingThreads(2, 32, 0.9, 1.8, lock_held=0.1), "input_workers"),
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


def test_threads_that_wait_for_a_core_are_not_too_few() -> None:
    reading = ReadingThreads(8, 32, 0.55, 4.4, lock_held=0.1)
    alone, crowded = cause_of("load", reading), cause_of("load", reading, contended=0.45)
    assert alone is not None
    assert crowded is not None
    assert (alone.name, crowded.name) == ("input_workers", "cpu_pressure")


def test_a_thread_that_has_its_core_is_too_few_whoever_else_computes() -> None:
    cause = cause_of("load", ReadingThreads(1, 32, 0.95, 0.95, lock_held=0.1), contended=0.45)
    assert cause is not None
    assert cause.name == "input_workers"


@pytest.mark.parametrize(
    ("computing", "queued", "in_memory", "contended", "name"),
    [
        (0.1, 0.86, True, 0.86, "cpu_pressure"),  # a corpus on tmpfs, others take 86% of the cores
        (0.1, 0.86, False, 0.0, "cpu_pressure"),  # neighbours on the cores that the run is bound to
        (0.1, 0.05, False, 0.86, "input_storage"),  # others compute, and yet it is the disk that is waited for
        (0.3, 0.3, False, 0.4, None),  # a third each: nothing stands out
        (0.4, 0.02, True, 0.0, None),  # nothing is read, and no core is lacking
        (0.1, None, True, 0.86, "cpu_pressure"),  # the kernel does not tell, but no disk has a part in it
        (0.1, None, True, 0.1, None),
        (0.1, None, False, 0.86, None),  # a disk or a core
        (0.6, 0.35, False, 0.0, "cpu_pressure"),
        (0.9, 0.05, True, 0.0, "input_workers"),
    ],
)
def test_waits_for_a_core_are_told_from_waits_for_a_disk(
    computing: float, queued: float | None, in_memory: bool, contended: float, name: str | None
) -> None:
    reading = ReadingThreads(8, 32, computing, 8 * computing, 0.1, queued=queued, in_memory=in_memory)
    cause = cause_of("load", reading, contended=contended)
    assert (cause and cause.name) == name
