"""Progress of a run on the terminal: lines, a bar, and no rate before it is measured."""

from __future__ import annotations

import logging
import sys

import pytest
import tensorflow as tf

from voxyard.trainer import observer
from voxyard.trainer.config import TelemetryConfig
from voxyard.trainer.observer import Observer


class Metrics:
    """Takes a step's times and losses."""

    def step(self, *_: object) -> None:
        pass

    losses = learning_rate = start = step

    def finish(self, **_: object) -> None:
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


def test_a_run_on_a_full_disk_goes_on_without_tensorboard(
    tmp_path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its error is the one of a device without memory, and is not told as that."""
    told = Observer(TelemetryConfig(), Metrics(), tmp_path, first=0, end=100)  # type: ignore[arg-type]
    full = tf.errors.ResourceExhaustedError(
        None, None, "{{node f}} events.v2; No space left on device [Op:Flush] name: "
    )

    def scalar(*_: object, **__: object) -> None:
        raise full

    with told:
        monkeypatch.setattr(tf.summary, "scalar", scalar)
        for step in (1, 2):
            told.losses(step, {"total": 1.0}, 0.1)
    assert caplog.messages == [
        f"TensorBoard has nothing from here on: {tmp_path / 'tensorboard'} cannot be written "
        "(events.v2; No space left on device)"
    ]


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
