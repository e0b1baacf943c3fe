"""Steps in flight: one ahead of the device, times as the device sees them, and a bound on what is measured apart."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest
from eventually import PATIENCE, eventually

from voxyard.trainer.sampler import BatchPlan, Bucket
from voxyard.trainer.steps.in_flight import EndedStep, StepsInFlight


@dataclass
class Computing:
    """Losses of a step that the test ends."""

    ended: threading.Event = field(default_factory=threading.Event)

    def read(self) -> dict[str, float]:
        assert self.ended.wait(PATIENCE)
        return {"total": 1.0}


def plan(step: int) -> BatchPlan:
    return BatchPlan(step, 0, Bucket(10, 5), (0,))


def launch(steps: StepsInFlight, number: int, losses: Computing) -> None:
    now = time.perf_counter()
    steps.launched(plan(number), losses, asked=now, got=now, traced=False)


def test_one_step_is_handed_over_beside_the_one_that_is_computed():
    first, second = Computing(), Computing()
    with StepsInFlight(asynchronous=True) as steps:
        launch(steps, 0, first)
        assert list(steps.ended()) == []  # the first is being computed
        launch(steps, 1, second)
        first.ended.set()
        assert [one.step for one in steps.ended()] == [1]  # the second is being computed
        second.ended.set()
        assert [one.step for one in steps.drain()] == [2]


def test_a_thread_that_learns_late_of_the_end_of_a_step_makes_the_next_one_no_shorter_than_nothing():
    """Its time was then after that of the next step, whose seconds were negative: that ended a training."""
    first, second = Computing(), Computing()
    with StepsInFlight(asynchronous=True) as steps:
        launch(steps, 0, first)
        launch(steps, 1, second)
        second.ended.set()
        known = steps._launched[1].end
        assert known is not None
        eventually(known.done, "the end of the second is known")
        first.ended.set()
        ended = list(steps.drain())
    assert [one.step for one in ended] == [1, 2]
    assert [one.duration >= one.wait >= 0 for one in ended] == [True, True]
    assert ended[1].free == ended[0].done == ended[1].done


def test_the_loop_waits_while_two_steps_are_in_flight():
    first, second = Computing(), Computing()
    with StepsInFlight(asynchronous=True) as steps:
        launch(steps, 0, first)
        launch(steps, 1, second)
        threading.Timer(0.1, first.ended.set).start()
        assert [one.losses.read() for one in steps.ended()] == [{"total": 1.0}]
        assert first.ended.is_set()
        second.ended.set()


def test_a_device_that_is_synchronous_has_computed_every_step():
    losses = Computing()
    with StepsInFlight(asynchronous=False) as steps:
        launch(steps, 0, losses)
        assert [one.step for one in steps.ended()] == [1]  # nothing was read
        assert list(steps.drain()) == []


@pytest.mark.parametrize(
    ("free", "asked", "got", "wait"),
    [
        (0.0, 0.1, 0.4, 0.3),  # the loop asked when the device was free
        (0.5, 0.1, 0.4, 0.0),  # the batch came while the device computed the step before
        (0.3, 0.1, 0.4, 0.1),  # the device was free before the batch came
        (0.5, 0.1, 2.0, 0.5),  # never more than the step
    ],
)
def test_a_wait_for_data_counts_only_while_the_device_has_nothing_to_compute(free, asked, got, wait):
    step = EndedStep(plan(0), free, asked, got, 1.0, False, Computing())
    assert step.wait == pytest.approx(wait)
    assert step.duration == pytest.approx(1.0 - free)
