"""Bounds of a split at the start of a run: told once, by the times that most of its steps have."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from voxyard.trainer.config import TrainConfig
from voxyard.trainer.reporting.bounds import ON_DATA, ON_MODEL, StepStages
from voxyard.trainer.reporting.clocks import StepClock
from voxyard.trainer.reporting.run_report import measured
from voxyard.trainer.reporting.split_bounds import STEPS_TO_JUDGE, SplitBounds
from voxyard.trainer.steps.stage_timer import StageTimer


class Step:
    """Step of a split: D 10 ms, M 200 ms, the vocoder 20 ms alone and 180 ms with its discriminators."""

    traces: ClassVar[dict[str, int]] = {}
    asynchronous = False

    def __init__(self, beside_on: str | None) -> None:
        alone = beside_on == "alone"
        self.beside_on = None if alone else beside_on
        self.beside_names = ("vocoder",) if beside_on else ()
        self.trainable = SimpleNamespace(beside=self.beside_names)
        self.devices = SimpleNamespace(strategy="single" if alone else "split", kind="cpu")
        self.timer = StageTimer(self.traces, asynchronous=False)
        self.update_thread = SimpleNamespace(blocked_seconds=0.0) if beside_on == "data" else None
        self.settled = 0

    def settle(self) -> None:
        self.settled += 1


def run(
    caplog: pytest.LogCaptureFixture,
    beside_on: str | None,
    *,
    after: int = 0,
    first: int = 0,
    end: int = 100,
    train: float = 0.2,
) -> tuple[list[str], dict[str, Any]]:
    """Lines told from step to step, and the report's figures at the end."""
    step: Any = Step(beside_on)
    networks = "acoustic,vocoder" if beside_on else "acoustic"
    config = TrainConfig.model_validate({"model": {"networks": networks}, "training": {"discriminators_after": after}})
    clock = StepClock()
    bounds = SplitBounds(config, step, clock, first=first, end=end, has_features=False)
    said, phases = [], list[str]()
    for number in range(first + 1, end + 1):
        vocoder = 0.18 if number > after else 0.02
        if beside_on:
            step.timer.beside.add(vocoder)
        step.timer.data.add(0.01, "shape")
        clock.step(train + (vocoder if beside_on in ("model", "alone") else 0.0), 0.0, "shape", traced=False)
        caplog.clear()
        with caplog.at_level(logging.INFO):
            bounds.look(number)
        said += [f"{number}: {line}" for line in caplog.messages]
        caplog.clear()
        with caplog.at_level(logging.INFO):
            bounds.begin_phase(number)
        phases += caplog.messages
    watch: Any = None
    switches = first < after < end and beside_on is not None
    begins = f"Step {after}: the vocoder's discriminators take part from the next step on (--discriminators-after)"
    assert phases == ([begins] if switches else []), "the log has one line of it"
    return said, measured(clock, step, watch)


@pytest.mark.parametrize("place", ["data", "model"])
def test_both_places_of_a_vocoder_are_told_with_discriminators(place: str, caplog: pytest.LogCaptureFixture) -> None:
    """The times of both placements are the same, wherever they were measured."""
    said, figures = run(caplog, place, after=40)
    assert said[0].startswith(f"{STEPS_TO_JUDGE}: The first 40 steps train the vocoder without discriminators")
    bounds = "mirrored 2.00×; split, vocoder on data 1.95×; split, vocoder on model 1.03×"
    assert said[1] == (
        f"{40 + STEPS_TO_JUDGE}: Most that two devices can gain over one, by the times of a step "
        f"(D 10 ms, M 200 ms, V 180 ms): {bounds}"
    )
    assert [line for line in said[2:] if "--vocoder-on data can gain 1.95 times" not in line] == []
    assert len(said) == (2 if place == "data" else 3)
    assert figures["beside_stage_seconds"] == pytest.approx(0.18)
    assert figures["train_stage_seconds"] == pytest.approx(0.2 if place == "data" else 0.38)
    of_run = 0.01 + 0.2 + (40 * 0.02 + 60 * 0.18) / 100
    assert figures["reached"] == pytest.approx(figures["steps_per_second"] * of_run), "as the steps of the run were"


def test_a_run_that_ends_before_the_discriminators_is_judged_without(caplog: pytest.LogCaptureFixture) -> None:
    said, _ = run(caplog, "data", after=500)
    assert len(said) == 2, said
    assert said[0].startswith(f"{STEPS_TO_JUDGE}: ")
    assert "V 20 ms" in said[0]
    assert "can gain at most 1.15 times" in said[1]


def test_a_split_whose_model_device_waits_is_told_so_at_its_start(caplog: pytest.LogCaptureFixture) -> None:
    said, _ = run(caplog, "data", train=0.05)
    assert "The model device waits 74% of a step: D + V take 190 ms, M takes 50 ms" in said[-1]
    assert "(--vocoder-size) whose V is near 40 ms" in said[-1]


def test_a_run_that_goes_on_with_discriminators_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    said, _ = run(caplog, "data", after=40, first=40)
    assert [line.partition(":")[0] for line in said] == [str(40 + STEPS_TO_JUDGE)]
    assert "V 180 ms" in said[0]


@pytest.mark.parametrize(("steps", "measured_there"), [(9, False), (10, True)])
def test_of_too_few_timed_steps_there_are_no_figures(
    steps: int, measured_there: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """After three steps a report said that a split had reached 11 times one device."""
    said, figures = run(caplog, "data", end=steps)
    assert said == [], "20 judge a split"
    names = ["steps_per_second", "data_stage_seconds", "train_stage_seconds", "beside_stage_seconds", "reached"]
    names += ["data_wait_share", "step_time_variation", "step_time_variation_within_buckets"]
    assert {name: figures[name] is not None for name in names} == dict.fromkeys(names, measured_there)
    assert ("device_use" in figures) == measured_there
    few = f"too few steps to measure ({steps} of 10)"
    assert figures["too_few"] == ({} if measured_there else {"D": few, "M": few, "V": few})


def test_a_vocoder_needs_steps_with_its_discriminators(caplog: pytest.LogCaptureFixture) -> None:
    """Those before are in less time; on the model device they are a part of M."""
    for place in ("data", "model"):
        _, figures = run(caplog, place, after=40, end=43)
        few = "too few steps to measure (3 of 10)"
        assert figures["too_few"] == ({"V": few} if place == "data" else {"V": few, "M": few})
        assert (figures["beside_stage_seconds"], figures["reached"]) == (None, None)
        assert figures["data_stage_seconds"] == pytest.approx(0.01)


def test_one_device_times_the_vocoder_apart_and_so_has_the_bounds_of_each_placement(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The times are those of a split: V is a part of M there, and taken out of it."""
    said, figures = run(caplog, "alone", after=40)
    assert said == [], "one device is told no bounds of a split at its start"
    stages = StepStages.of_report(figures)
    assert str(stages) == "D 10 ms, M 200 ms, V 180 ms"
    assert stages is not None
    assert stages.bounds() == pytest.approx({ON_DATA: 0.39 / 0.2, ON_MODEL: 0.39 / 0.38, "mirrored": 2})
    _, short = run(caplog, "alone", after=40, end=43)
    few = "too few steps to measure (3 of 10)"
    assert short["too_few"] == {"V": few, "M": few}


def test_a_stage_that_is_timed_alone_between_barriers_needs_no_others(caplog: pytest.LogCaptureFixture) -> None:
    """On GPUs, for 1% of the time."""
    step: Any = Step(None)
    step.asynchronous, clock = True, StepClock()
    step.timer.data.add(0.01, "shape")
    for _ in range(10):
        clock.step(0.2, 0.0, "shape", traced=False)
    watch: Any = None
    figures = measured(clock, step, watch)
    assert (figures["data_stage_seconds"], figures["too_few"]) == (0.01, {})


def test_one_network_is_told_what_a_second_one_would_bring(caplog: pytest.LogCaptureFixture) -> None:
    said, figures = run(caplog, None)
    assert said[0].endswith("(D 10 ms, M 200 ms): mirrored 2.00×; split 1.05×")
    assert "--networks acoustic,vocoder" in said[1]
    assert figures["reached"] == pytest.approx(1.05)
