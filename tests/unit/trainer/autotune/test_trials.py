"""Trials of `--strategy auto`: which are made, what is told meanwhile, what is kept where they are cut off."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from voxyard.trainer.autotune import cache, timing
from voxyard.trainer.autotune.candidates import Candidate, Candidates
from voxyard.trainer.autotune.trial_process import FailedTrialError
from voxyard.trainer.autotune.trials import Timed, Trials
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.out_of_memory import DOES_NOT_FIT, OutOfMemoryError
from voxyard.trainer.reporting.bounds import FEATURES, MIRRORED, ON_DATA, ON_MODEL, SINGLE, SPLIT, StepStages

BOTH = StepStages(0.01, 0.2, 0.18, two_networks=True, beside_on="data")
FOUR = (SINGLE, ON_DATA, ON_MODEL, MIRRORED)
KEY = "key"


class Clock:
    """Time that passes in trials only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("voxyard.trainer.autotune.timing.time.monotonic", lambda: self.now)


class Host:
    """A host on which each way has this rate, in trials of 60 s; those of a split with a vocoder tell the stages."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **rates: float) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(timing, "time_one", self._time)
        self.rates = {name.replace("_on_", ", vocoder on "): rate for name, rate in rates.items()}
        self.clock, self.timed = Clock(monkeypatch), list[str]()
        self.before: Callable[[str], None] = lambda _: None
        self.without_memory: tuple[str, ...] = ()
        self.more: dict[str, int] = {}  # seconds that a trial takes beside 60

    def _time(self, each: Candidate, *, count: int, seconds: float, **_: Any) -> Timed:
        self.before(each.name)
        takes = 60 + self.more.get(each.name, 0)
        self.clock.now += min(takes, seconds)
        if each.name in self.without_memory:
            raise FailedTrialError(f"{DOES_NOT_FIT}: out of memory in step 1 on the data device")
        if seconds < takes:
            raise FailedTrialError("it was ended")
        self.timed.append(each.name)
        stages = BOTH if each.name.startswith("split, vocoder") else None
        return Timed(self.rates[each.name], "", of_disk=True, stages=stages, rows=1, seconds=takes)

    def choose(self, **training: Any) -> tuple[str, bool]:
        """The fastest, and True where it is remembered."""
        config = TrainConfig.model_validate({"training": {"strategy": "auto", **training}})
        found = Candidates(tuple(Candidate(name, config) for name in self.rates), {}, 2)
        self.trials = timing.time_all(config, found, "gpu", discriminators=True, key=KEY)
        kept = cache.load(KEY, config.training.strategy_steps)
        return self.trials.close()[0], kept is not None and kept.decided


FAST = {"single": 2.5, "split_on_data": 4.8, "split_on_model": 2.6, "mirrored": 3.0}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Host:
    caplog.set_level(logging.INFO)
    return Host(monkeypatch, tmp_path, **FAST)


def test_a_way_that_cannot_win_is_not_timed_and_the_log_has_the_reason(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    assert host.choose() == (ON_DATA, True)
    assert host.timed == [ON_DATA, SINGLE, MIRRORED] * 2 + [ON_DATA]
    assert host.trials.skipped() == {ON_MODEL: pytest.approx(1 / 0.38)}
    why = (
        f"{ON_MODEL} is skipped: by the times of a step's stages it makes at most 2.63 clips/s, {ON_DATA} was timed at"
    )
    assert caplog.text.count(why) == 1
    assert any(line.startswith(f"  {ON_MODEL}") and "skipped: by the times" in line for line in caplog.messages)


def test_a_way_that_does_not_fit_is_left_out_and_the_others_are_timed(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.without_memory = (ON_DATA,)
    assert host.choose()[0] == MIRRORED
    assert {ON_MODEL, SINGLE} <= {*host.timed}
    assert any(line.startswith(f"  {ON_DATA}") and "failed: it does not fit: out" in line for line in caplog.messages)


def test_where_nothing_fits_it_is_an_error_of_memory(host: Host) -> None:
    host.without_memory = (ON_DATA, ON_MODEL, SINGLE, MIRRORED)
    with pytest.raises(OutOfMemoryError, match=r"none fits: .*it does not fit: out of memory in step 1") as caught:
        host.choose()
    assert "--batch-size" in str(caught.value)


def test_a_way_that_was_skipped_after_one_busy_trial_is_timed_when_the_next_shows_it_can_win() -> None:
    """One unrepeated trial does not decide."""
    trials = Trials(FOUR, 2, "gpu")
    busy = StepStages(0.02, 0.4, 0.36, two_networks=True)
    trials.add(ON_DATA, Timed(2.4, "", of_disk=True, stages=busy))
    trials.add(SINGLE, Timed(2.55, "", of_disk=True))
    assert set(trials.skipped()) == {ON_MODEL, MIRRORED}
    assert trials.next() == ON_DATA
    trials.add(ON_DATA, Timed(4.8, "", of_disk=True, stages=BOTH))
    assert trials.skipped() == {ON_MODEL: pytest.approx(1 / 0.38)}
    assert trials.next() == MIRRORED


def test_of_the_ceilings_by_the_trials_of_several_ways_the_lowest_holds() -> None:
    trials = Trials((SINGLE, SPLIT, MIRRORED), 2, "cpu")
    trials.add(SPLIT, Timed(2.4, "", of_disk=True, stages=StepStages(0.1, 0.4)))
    assert trials.ceiling(SINGLE) == pytest.approx(5.0), "with the cores of both"
    trials.add(SINGLE, Timed(2.6, "", of_disk=True, stages=StepStages(0.08, 0.35)))
    assert trials.ceiling(SINGLE) == pytest.approx(1 / 0.35)
    assert trials.ceiling(MIRRORED) == pytest.approx(4.0)


def test_without_times_of_stages_every_way_is_timed() -> None:
    trials = Trials(("single", "split", "mirrored"), 2, "cpu")
    order = []
    while (name := trials.next()) is not None:
        order.append(name)
        trials.add(name, Timed({"single": 1.0, "split": 2.0, "mirrored": 3.0}[name], "", of_disk=True))
    assert order == ["split", "single", "mirrored"] * 2 + ["mirrored"]


def test_a_host_with_one_way_has_one_trial() -> None:
    trials = Trials((SINGLE, FEATURES), 1, "cpu")
    trials.fail(FEATURES, "no room")
    assert trials.next() == SINGLE
    trials.add(SINGLE, Timed(1.0, "", of_disk=True))
    assert trials.next() is None


@pytest.mark.parametrize(
    ("stages", "timed_by", "kind", "expected"),
    [
        (BOTH, ON_DATA, "gpu", {SINGLE: 1 / 0.38, ON_DATA: 1 / 0.2, ON_MODEL: 1 / 0.38, MIRRORED: 2 / 0.39}),
        (BOTH, ON_DATA, "cpu", {SINGLE: 2 / 0.38, ON_DATA: 1 / 0.2, ON_MODEL: 1 / 0.38, MIRRORED: 2 / 0.39}),
        (BOTH, SINGLE, "cpu", {SINGLE: 1 / 0.38, ON_DATA: 1 / 0.2, ON_MODEL: 1 / 0.38, MIRRORED: 2 / 0.39}),
        (StepStages(0.01, 0.38, two_networks=True), SINGLE, "cpu", {ON_DATA: 2 / 0.39, ON_MODEL: 1 / 0.38}),
        (StepStages(0.1, 0.4), SPLIT, "cpu", {SPLIT: 2.5, SINGLE: 5.0, FEATURES: 5.0, MIRRORED: 4.0}),
        (StepStages(0.5, 0.4), SPLIT, "gpu", {SPLIT: 2.0, SINGLE: 2.0, FEATURES: 2.5, MIRRORED: 2 / 0.9}),
    ],
)
def test_a_ceiling_follows_from_the_times_of_the_stages(
    stages: StepStages, timed_by: str, kind: Any, expected: dict[str, float]
) -> None:
    """A logical CPU device that is alone has the cores of all; V that is unknown may lie as well as can be."""
    found = stages.ceilings(3, timed_by=timed_by, devices=2, kind=kind)
    assert {name: found[name] for name in expected} == pytest.approx(
        {name: 3 * most for name, most in expected.items()}
    )


def test_the_start_tells_what_will_be_timed_and_each_trial_its_figure_and_the_time_left(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.choose()
    lines = [line.removeprefix("--strategy auto: ") for line in caplog.messages]
    assert lines[0] == (
        "timing 30 steps of each of 4 strategies, in turn: single; split, vocoder on data; split, vocoder on model; "
        "mirrored; 2 trials of each that can win, 3 to 5 of the fastest, at most 20 minutes (--strategy-minutes). The "
        "first trial tells how long it takes"
    )
    assert lines[1:3] == [
        "  timing split, vocoder on data (trial 1 of it)",
        "    4.8 clips/s, in 60 s; about 6 minutes left",
    ]
    figures = [line for line in lines if " clips/s, in 60 s" in line]
    assert len(figures) == 7
    assert figures[1] == "    2.5 clips/s, in 60 s; about 5 minutes left"
    assert figures[-1] == "    4.8 clips/s, in 60 s"


@pytest.mark.parametrize("minutes", [3, 2.5])
def test_the_minutes_end_the_trials_and_what_was_timed_decides(
    minutes: float, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    choice = host.choose(strategy_minutes=minutes)
    assert host.timed == [ON_DATA, SINGLE, MIRRORED][: int(minutes)]
    assert host.clock.now == 1000 + 60 * int(minutes), "no trial is begun that would not end"
    assert choice == (ON_DATA, False)
    assert f"is the fastest of what was timed within {minutes:g} minutes" in caplog.text
    assert ("mirrored" in caplog.messages[-2] and "not timed within" in caplog.messages[-2]) == (minutes < 3)
    host.timed.clear()
    assert host.choose() == (ON_DATA, True)
    assert len(host.timed) == 7 - int(minutes), "the next choice goes on"


def test_one_minute_is_told_in_the_singular(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host.choose(strategy_minutes=1)
    assert "at most 1 minute (--strategy-minutes)" in caplog.text
    assert "is the fastest of what was timed within 1 minute (" in caplog.text
    assert "not timed within 1 minute (" in caplog.text


def test_one_strategy_is_told_in_the_singular(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    Host(monkeypatch, tmp_path, single=2.5).choose()
    assert "timing 30 steps of one strategy: single; one trial, at most 20 minutes" in caplog.text


def test_a_trial_that_the_minutes_cut_off_has_not_failed(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host.more[SINGLE] = 50
    host.choose(strategy_minutes=2.2)
    assert (host.timed, host.clock.now) == ([ON_DATA], 1000 + 60 * 2.2)
    assert "failed" not in caplog.text
    assert "is the fastest of what was timed within 2.2 minutes" in caplog.text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_choice_that_is_cut_off_tells_what_it_measured_and_goes_on_from_there(
    number: signal.Signals, code: int, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    def cut_off(name: str) -> None:
        if name == MIRRORED:
            os.kill(os.getpid(), number)

    host.before = cut_off
    with pytest.raises(SystemExit) as ended:
        host.choose()
    assert ended.value.code == code
    assert f"{number.name}: ended before the training began" in caplog.text
    assert "measured so far:" in caplog.text
    assert any(line.startswith("  split, vocoder on data") and "4.8 clips/s" in line for line in caplog.messages)
    assert "the same command goes on with what is left" in caplog.text
    assert host.timed == [ON_DATA, SINGLE]
    host.before = lambda _: None
    caplog.clear()
    choice = host.choose()
    assert host.timed == [ON_DATA, SINGLE, MIRRORED, ON_DATA, SINGLE, MIRRORED, ON_DATA]
    assert "going on with the trials of 0 minutes ago" in caplog.text
    assert choice == (ON_DATA, True)


def test_a_choice_that_is_cut_off_before_its_first_figure_keeps_nothing(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.before = lambda _: os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit):
        host.choose()
    assert "nothing was measured yet" in caplog.text
    assert not cache.path().exists()


@pytest.mark.parametrize("more", [{"retime": True}, {"strategy_steps": 10}, "old"])
def test_trials_of_another_number_of_steps_or_day_are_not_gone_on_with(
    more: Any, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.choose(strategy_minutes=2.5)
    host.timed.clear()
    if more == "old":
        monkeypatch.setattr(cache, "KEPT_SECONDS", -1.0)
    host.choose(**({} if more == "old" else more))
    assert len(host.timed) == 7
