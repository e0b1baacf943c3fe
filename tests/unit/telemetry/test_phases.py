"""Phases of a run: what a scrape tells of them while they go on and after they have ended."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from voxyard.telemetry.workloads import PHASES, Phases


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Scraped:
    """A run's phases in a registry, read as a scrape reads them."""

    def __init__(self) -> None:
        self.clock, self._registry = Clock(), CollectorRegistry()
        self.phases = Phases(self._registry, "r1", self.clock)

    def state(self) -> list[str]:
        return [phase for phase in PHASES if self._value("voxyard_train_phase", phase=phase)]

    def seconds(self, phase: str) -> float:
        return self._value("voxyard_train_phase_seconds_total", phase=phase)

    def progress(self) -> float:
        return self._value("voxyard_train_progress_total")

    def ages(self) -> dict[str, float]:
        return self._by_phase("voxyard_train_phase_age_seconds")

    def latest(self) -> dict[str, float]:
        return self._by_phase("voxyard_train_phase_last_seconds")

    def _by_phase(self, name: str) -> dict[str, float]:
        found = {phase: self._registry.get_sample_value(name, {"run": "r1", "phase": phase}) for phase in PHASES}
        return {phase: value for phase, value in found.items() if value is not None}

    def _value(self, name: str, **labels: str) -> float:
        found = self._registry.get_sample_value(name, {"run": "r1", **labels})
        assert found is not None, name
        return found


def test_the_first_step_ends_the_warm_up() -> None:
    run = Scraped()
    run.phases.enter("warm_up")
    run.clock.now += 30
    assert run.state() == ["warm_up"]
    run.phases.step()
    run.clock.now += 5
    assert run.state() == ["train"]
    assert (run.seconds("warm_up"), run.seconds("train")) == (30, 5)


def test_a_phase_counts_its_seconds_while_it_goes_on() -> None:
    run = Scraped()
    run.phases.enter("train")
    with run.phases.during("validate"):
        run.clock.now += 40
        assert run.state() == ["validate"]
        assert run.seconds("validate") == 40
        run.clock.now += 2
    assert run.state() == ["train"]
    assert (run.seconds("validate"), run.seconds("train")) == (42, 0)


def test_steps_parts_of_phases_and_their_ends_are_progress() -> None:
    run = Scraped()
    run.phases.enter("train")
    run.phases.step()
    with run.phases.during("validate"):
        run.phases.progress()
        run.phases.progress()
    assert run.progress() == 4


def test_a_phase_that_fails_ends_as_well() -> None:
    run = Scraped()
    run.phases.enter("train")
    with pytest.raises(OSError, match="disk full"), run.phases.during("checkpoint"):
        raise OSError("disk full")
    assert run.state() == ["train"]


def test_before_its_start_and_after_its_end_a_run_is_in_no_phase() -> None:
    run = Scraped()
    assert run.state() == []
    run.phases.enter("train")
    run.clock.now += 3
    run.phases.enter(None)
    run.clock.now += 60
    assert run.state() == []
    assert run.seconds("train") == 3


def _fails_after(run: Scraped, seconds: float) -> None:
    with run.phases.during("checkpoint"):
        run.clock.now += seconds
        raise OSError("the disk is gone")


def test_a_phase_tells_how_long_it_goes_on_and_how_long_the_latest_took() -> None:
    run = Scraped()
    run.phases.enter("train")
    with run.phases.during("validate"):
        run.clock.now += 480
        assert run.ages() == {"validate": 480}
        assert run.latest() == {}  # none has ended
    run.clock.now += 60
    assert run.latest() == {"validate": 480}
    assert run.ages() == {"train": 60}
    with pytest.raises(OSError, match="gone"):
        _fails_after(run, 7)
    assert run.latest() == {"validate": 480, "checkpoint": 7}
