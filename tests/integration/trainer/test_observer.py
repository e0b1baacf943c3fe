"""Progress of a run on the terminal: lines, a bar, and no rate before it is measured."""

from __future__ import annotations

import logging
import sys

import pytest

from voxyard.trainer import observer
from voxyard.trainer.config import TelemetryConfig
from voxyard.trainer.observer import Observer


class Metrics:
    """Takes a step's times."""

    def step(self, *_: object) -> None:
        pass


def steps(tmp_path, *, traced: int, timed: int) -> Observer:
    told = Observer(TelemetryConfig(), Metrics(), tmp_path, first=0, end=100)  # type: ignore[arg-type]
    for number in range(1, traced + timed + 1):
        told.step(number, 0.5, 0.25, samples=8, ring_depth=2, buffer=(4, 4), traced=number <= traced)
    return told


def test_no_rate_is_told_before_enough_steps_were_timed(
    tmp_path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first ones are traced, in minutes."""
    monkeypatch.setattr(observer, "PLAIN_LINE_SECONDS", 0.0)
    with caplog.at_level(logging.INFO):
        steps(tmp_path, traced=2, timed=10)
    assert caplog.messages[1] == "step 2/100: rate: too few steps to measure (0 of 10), loss –, ring 2, buffer 4/4"
    assert "rate: too few steps to measure (9 of 10)" in caplog.messages[10]
    assert not any("steps/s" in line or "data wait" in line for line in caplog.messages[:11])
    assert " steps/s, loss –, data wait" in caplog.messages[11]


def test_the_bar_has_no_time_remaining_before_that(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("voxyard.trainer.observer.time.perf_counter", iter(range(1000)).__next__)
    for timed, shown in ((9, True), (11, False)):
        bar = steps(tmp_path, traced=0, timed=timed)._progress._bar
        assert bar is not None
        (task,) = bar.tasks
        remaining = next(column for column in bar.columns if isinstance(column, observer._MeasuredTimeRemaining))
        assert (str(remaining.render(task)) == "-:--:--") == shown
        assert ("too few steps" in task.fields["figures"]) == shown
