"""Figures of the stages, the arithmetic of the pipeline, and where the devices stood still."""

from __future__ import annotations

import pytest
from profiles import recorded, stage_times

from voxyard.diagnose.profile.cost_model import Costs, threads_needed
from voxyard.diagnose.profile.stages import figures
from voxyard.diagnose.profile.timeline import gaps, measured_part


def test_figures_are_those_of_the_textbook() -> None:
    found = figures([4.0, 1.0, 2.0, 3.0, 10.0])
    assert (found.count, found.mean, found.min, found.max, found.p50) == (5, 4.0, 1.0, 10.0, 3.0)
    assert found.std == pytest.approx(10**0.5)
    assert found.p95 == pytest.approx(8.8)
    assert found.variation == pytest.approx(10**0.5 / 4)
    assert figures([]).count == 0


def test_shares_are_of_the_sum_of_the_means() -> None:
    assert [each.share for each in stage_times(1, 2, 1, 4)] == [0.125, 0.25, 0.125, 0.5]


@pytest.mark.parametrize(
    ("costs", "step"),
    [
        (Costs(5, 2, 1, 4), 5),
        (Costs(1, 3, 2, 4), 5),
        (Costs(1, 2, 1, 4), 4),
        (Costs(1, 2, 1, 4, layout="single"), 7),
        (Costs(1, 2, 1, 4, slots=1), 7),
        (Costs(1, 0, 5, 4, layout="mirrored"), 5),
    ],
)
def test_the_ideal_step_is_that_of_whatever_works_longest(costs: Costs, step: float) -> None:
    assert costs.step == step


def test_the_gain_counts_clips_not_steps() -> None:
    before = Costs(0, 1, 0, 3, samples=4)
    after = Costs(0, 0, 0, 4, layout="mirrored", samples=8)
    assert after.gain_over(before) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("in_thread", "goal", "now", "most", "needed"),
    [(0.4, 0.1, 1, 32, 5), (0.4, 0.1, 8, 32, 8), (40, 0.1, 1, 32, 32), (0.4, 0, 2, 16, 16)],
)
def test_threads_follow_from_what_one_takes(in_thread: float, goal: float, now: int, most: int, needed: int) -> None:
    assert threads_needed(in_thread, goal, now=now, most=most) == needed


def test_a_slow_reader_starves_the_data_device_and_the_model() -> None:
    record = recorded(0.4, 0.1, 0.1, steps=30)
    found = gaps(record, measured_part(record, 5))
    assert found.model_share == pytest.approx(0.75)
    assert found.data_starved_share == pytest.approx(0.75)
    assert found.data_blocked_share == pytest.approx(0.0, abs=1e-6)
    assert found.data_busy_share == pytest.approx(0.25)
    assert found.readers_busy == pytest.approx(1.0)
    assert found.model_waits.count == 25


def test_a_slow_model_blocks_the_data_device_and_waits_for_nothing() -> None:
    record = recorded(0.05, 0.1, 0.4, steps=30)
    found = gaps(record, measured_part(record, 5))
    assert found.model_share == 0.0
    assert (found.model_waits.count, found.longest_at_step) == (0, None)
    assert found.data_starved_share == pytest.approx(0.0, abs=1e-6)
    assert found.data_blocked_share == pytest.approx(0.75)


def test_slow_features_keep_the_data_device_busy() -> None:
    record = recorded(0.05, 0.4, 0.1, steps=30)
    found = gaps(record, measured_part(record, 5))
    assert found.data_busy_share == pytest.approx(1.0)
    assert found.model_share == pytest.approx(0.75)
    assert found.data_starved_share + found.data_blocked_share == pytest.approx(0.0, abs=1e-6)


def test_a_timeline_begins_with_the_first_step_that_counts() -> None:
    timeline = measured_part(recorded(0.4, 0.1, 0.1, steps=10), 4)
    assert len(timeline.steps) == 6
    document = timeline.document()
    assert document["steps"][0][0] == 0.0
    assert len(document["steps"]) == 6
    assert all(end > 0 for _, end in document["reads"])
