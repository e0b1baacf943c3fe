"""Times of the stages beside a step: of every batch on a CPU, alone between steps on GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from voxyard.trainer.input import HostBatch
from voxyard.trainer.sampler import BatchPlan, Bucket
from voxyard.trainer.steps.stage_timer import MOST_SHAPES, DataTimes, StageTimer, UpdateTimes


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    @contextmanager
    def after(self, seconds: float) -> Iterator[None]:
        """A context that is entered so many seconds later."""
        self.now += seconds
        yield


class Step:
    """A step whose data stage takes three seconds alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.made = clock, list[str]()

    def data_stage_alone(self, arrays: Any) -> dict[str, float]:
        self.made.append(arrays["name"])
        self._clock.now += 3.0
        return {"features": 2.0, "transfer": 1.0}


def batch(frames: int, name: str = "") -> HostBatch:
    arrays: Any = {"name": name}
    return HostBatch(BatchPlan(0, 0, Bucket(frames, 8), (0,)), arrays)


def timer(*, asynchronous: bool) -> tuple[StageTimer, Clock, Counter[str], list[tuple[str, float]]]:
    clock, traces, told = Clock(), Counter[str](), list[tuple[str, float]]()
    made = StageTimer(traces, asynchronous=asynchronous, clock=clock)
    made.told = lambda part, seconds: told.append((part, seconds))
    return made, clock, traces, told


def test_a_cpu_times_every_batch_but_those_that_are_traced() -> None:
    made, clock, traces, told = timer(asynchronous=False)
    with made.of_data(batch(32)):
        clock.now += 30.0
        traces["features"] += 1
    with made.of_data(batch(32)):
        clock.now += 0.5
    assert (made.data.count, made.data.mean(Counter()), told) == (1, 0.5, [("both", 0.5)])
    assert not made.due()


def test_the_wait_for_a_device_is_no_time_of_the_data_stage() -> None:
    made, clock, _, _ = timer(asynchronous=False)
    with made.of_data(batch(32)):
        with made.turn(clock.after(7.0)):
            clock.now += 0.25
        clock.now += 0.25
    assert (made.data.mean(Counter()), made.turn_seconds) == (0.5, 7.0)


def test_on_gpus_the_shape_that_was_timed_least_is_made_once_more_alone() -> None:
    made, clock, _, told = timer(asynchronous=True)
    step = Step(clock)
    made.calibrate(step.data_stage_alone, nullcontext())
    assert step.made == [], "nothing was staged yet"
    for frames, name in [(32, "older"), (64, "long"), (32, "short")]:
        with made.of_data(batch(frames, name)):
            clock.now += 1.0
    assert made.data.count == 0, "a launch is not timed"
    for _ in range(3):
        made.calibrate(step.data_stage_alone, nullcontext())
    assert step.made == ["short", "long", "short"]
    assert (made.data.count, made.data.mean(Counter())) == (3, 3.0)
    assert told == [("features", 2.0), ("transfer", 1.0)] * 3
    made.forget()
    made.calibrate(step.data_stage_alone, nullcontext())
    assert len(step.made) == 3


def test_batches_of_few_shapes_are_kept() -> None:
    made, clock, _, _ = timer(asynchronous=True)
    step = Step(clock)
    for frames in range(2 * MOST_SHAPES):
        with made.of_data(batch(frames, str(frames))):
            pass
    for _ in range(2 * MOST_SHAPES):
        made.calibrate(step.data_stage_alone, nullcontext())
    assert set(step.made) == {str(frames) for frames in range(MOST_SHAPES)}


def test_measurements_apart_take_a_hundredth_of_the_time_their_pause_included() -> None:
    made, clock, _, _ = timer(asynchronous=True)
    step = Step(clock)
    assert made.due()
    made.calibrate(step.data_stage_alone, clock.after(2.0))
    clock.now += 199.0
    assert not made.due()
    clock.now += 2.0
    assert made.due()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_updates_apart_are_timed_until_one_was_not_traced(asynchronous: bool) -> None:
    made, clock, traces, _ = timer(asynchronous=asynchronous)
    assert made.beside_next != asynchronous
    made.beside_next = True
    with made.of_beside("update beside"):
        traces["update beside"] += 1
    assert (made.beside.count, made.beside_next) == (0, True)
    with made.of_beside("update beside"):
        clock.now += 0.5
    assert (made.beside.mean, made.beside_next) == (0.5, not asynchronous), "once on GPUs, always on a CPU"


def test_a_stage_that_was_timed_on_few_batches_is_weighed_by_the_steps_of_each_shape() -> None:
    times = DataTimes()
    assert times.mean(Counter(short=1)) is None
    for shape, seconds in (("short", 0.1), ("long", 0.5), ("long", 0.7)):
        times.add(seconds, shape)
    assert times.mean(Counter()) == pytest.approx((0.1 + 0.5 + 0.7) / 3)
    assert times.mean(Counter(short=3, long=1)) == pytest.approx((3 * 0.1 + 0.6) / 4)
    assert times.count == 3


def test_the_mean_is_of_the_present_phase_and_of_the_whole_run() -> None:
    times = UpdateTimes()
    assert (times.mean, times.run_mean, times.count) == (None, None, 0)
    times.add(0.1)
    times.begin_phase()
    assert (times.mean, times.count) == (0.1, 0), "nothing else was timed yet"
    times.add(0.3)
    assert (times.mean, times.count) == (0.3, 1)
    assert times.run_mean == pytest.approx(0.2)


def test_each_update_is_told_whatever_its_phase() -> None:
    times, told = UpdateTimes(), list[float]()
    times.told = told.append
    times.add(0.1)
    times.begin_phase()
    times.add(0.3)
    assert told == [0.1, 0.3]
