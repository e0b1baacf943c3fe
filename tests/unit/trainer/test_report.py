"""The report: figures as measured, verdicts by the bounds of a split."""

import math
import re
from typing import Any

import pytest

from voxyard.corpus import Coverage
from voxyard.telemetry.gpu_watch import CardPower
from voxyard.trainer.report import RunReport, Target
from voxyard.trainer.reporting.bounds import ON_DATA, ON_MODEL, SPLIT, StepStages, little_gain
from voxyard.trainer.reporting.clocks import CpuClock, MemoryGrowth, StepClock


def report(**changes: Any) -> RunReport:
    base: dict[str, Any] = dict(  # noqa: C408 (reads as a call)
        run="r", strategy="split", devices=("data: CPU 0", "model: CPU 1"), first_step=0, last_step=10, batch_rows=8,
        ended="end reached", warm_up="all buffers full", steps_per_second=2.0, losses={"total": 1.0, "mel": 0.5},
        validation={}, data_stage_seconds=0.1, train_stage_seconds=0.4, data_wait_share=0.01,
        step_time_variation=0.25, step_time_variation_within_buckets=0.05, cpu_use=0.9,
        resident_memory_growth=0.001, traces={"update": 2}, buckets=2, bad_clips=0, checkpoint=None,
    )  # fmt: skip
    return RunReport(**(base | changes))


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (0.95, "excellent"),
        (0.85, "good"),
        (0.75, "minimum"),
        (0.70, "missed"),
        (0.1, "missed"),
        (None, "not measured"),
    ],
)
def test_verdicts_follow_the_bounds(value, verdict):
    """Model GPU above 70, 80, 90%."""
    assert Target("model device use", value, (0.70, 0.80, 0.90)).verdict == verdict


def test_lower_is_better_for_variation():
    """Step-time variation below 40, 30, 20%."""
    verdicts = [Target("v", v, (0.4, 0.3, 0.2), higher_is_better=False).verdict for v in (0.5, 0.35, 0.25, 0.1)]
    assert verdicts == ["missed", "minimum", "good", "excellent"]


def test_the_data_device_is_held_against_what_it_can_reach():
    """A data GPU that idles because its work is small is no fault."""
    made = report()
    assert made.data_device_ceiling == pytest.approx(0.25)
    assert made.split_bound == pytest.approx(1.25)
    assert "25% is the most possible here" in made.render()
    verdicts = [report(device_use={"data": use}).targets()[0].verdict for use in (0.24, 0.10)]
    assert verdicts == ["at its ceiling", "missed"]


def test_a_split_is_not_asked_for_a_small_data_stage():
    """It gains from a large one: with data under half of compute its bound is under 1.5."""
    names = {
        strategy: {target.name for target in report(strategy=strategy).targets()} for strategy in ("split", "single")
    }
    assert names["single"] - names["split"] == {"data time ÷ compute time"}


def test_what_was_not_measured_is_reported_not_guessed():
    text = report(data_stage_seconds=None, resident_memory_growth=None).render()
    assert "not measured; " not in text.split("warm-up")[0]
    for line in text.splitlines():
        if line.startswith(("data device use", "power", "resident memory", "bound of a split")):
            assert "not measured" in line


def test_power_and_memory_of_each_gpu_are_judged():
    powers = (CardPower("data", 0, 30.0, 300.0), CardPower("model", 1, 250.0, 350.0), CardPower("model", 2, None, None))
    assert "energy" not in rows_of(report(powers=powers))  # a card without a counter
    spent = rows_of(report(powers=powers, energy_joules=7.2e6, energy_per_clip_joules=12.5))
    assert spent["energy"] == "2 kWh  12.5 J a clip; of the GPUs, by their own counters"
    rows = rows_of(report(powers=powers, device_memory_growth={"model": 0.1}, resident_memory_growth=0.01))
    assert "10% of the limit in force: low; high is 60%" in rows["data GPU 0 power"]
    assert "250 W of 350 W" in rows["model GPU 1 power"]
    assert "71% of the limit in force: high" in rows["model GPU 1 power"]
    assert "not measured" in rows["model GPU 2 power"]
    assert rows["model memory growth"].endswith("not stable")
    assert rows["resident memory"].endswith("; stable")


def test_memory_of_devices_is_compared_with_that_in_the_middle():
    """Peaks of the allocators, by role; a device that counts nothing is left out."""
    peaks = iter([{"data": 100.0, "model": 200.0, "other": 0.0}, {"data": 100.0, "model": 300.0, "other": 5.0}])
    memory = MemoryGrowth(0, 10, lambda: next(peaks))
    for step in (1, 5, 10):
        memory.sample(step)
    assert memory.of_devices == {"data": 0.0, "model": 0.5}


def test_one_device_has_the_bound_of_each_placement_and_mirrored_ones_the_way_to_them():
    alone = report(
        strategy="single", train_stage_seconds=0.6, beside_stage_seconds=0.2, beside_names=("vocoder",),
        two_networks=True,
    )  # fmt: skip
    assert alone.bounds == pytest.approx({ON_DATA: 1.75, ON_MODEL: 0.7 / 0.6, "mirrored": 2})
    assert "one step of them on the one device" in alone.render()
    assert "without its wait, in this run, V included" in alone.render()
    mirrored = report(strategy="mirrored", data_stage_seconds=None).render()
    assert "mirrored devices time no stage apart; --strategy auto times each way" in mirrored


def rows_of(made: RunReport) -> dict[str, str]:
    """Value and detail of each row of a report, by its name."""
    cells = (re.split(r"  +", line) for line in made.render().splitlines())
    return {name: "  ".join(rest) for name, *rest in cells}


@pytest.mark.parametrize("too_few", [{}, {"M": "too few steps to measure (0 of 10)"}])
def test_a_figure_that_mirrored_devices_do_not_have_says_why_whatever_the_number_of_steps(too_few):
    rows = rows_of(
        report(strategy="mirrored", data_stage_seconds=None, data_stage_source="3 batches of this run", too_few=too_few)
    )
    why = "not measured  mirrored devices time no stage apart; --strategy auto times each way"
    for name in ("data stage (D)", "bound of a split", "reached", "bounds", "data time ÷ compute time"):
        assert rows[name] == why
    assert rows["data device use"] == "not measured  mirrored devices: none of them is a data device"


@pytest.mark.parametrize("too_few", [{}, {"M": "too few steps to measure (8 of 10)"}])
def test_one_device_has_no_use_of_a_data_device_and_says_why_once(too_few):
    assert rows_of(report(strategy="single", device_use={"data": None, "model": 0.9}, too_few=too_few))[
        "data device use"
    ] == ("not measured  one device: there is no data device")


def test_a_gain_of_trials_with_too_few_timed_steps_is_marked():
    def trial(**changes):
        found = {"clips_per_second": 8.0, "bound": 1.2, "reached": 0.78, "timed_steps": 10} | changes
        return rows_of(report(trials={"split": found}))["in trials"]

    assert trial() == "0.78×  split; its bound: 1.20×"
    assert trial(timed_steps=1) == "0.78×  split; its bound: 1.20×; too few steps to be sure (1 of 10)"
    assert trial(timed_steps=1, reached=None) == "not measured  split; its bound: 1.20×"
    assert trial(timed_steps=None) == "0.78×  split; its bound: 1.20×", "of an older cache"


def test_the_loss_line_has_one_learning_rate_where_they_are_equal():
    losses = {
        "total": 3.0, "acoustic/total": 1.0, "acoustic/learning_rate": 0.001, "vocoder/total": 2.0,
        "vocoder/mel": 0.5, "vocoder/learning_rate": 0.001,
    }  # fmt: skip
    equal = report(losses=losses)
    assert rows_of(equal)["loss"] == "3  acoustic/total 1, vocoder/total 2, vocoder/mel 0.5, learning_rate 0.001"
    assert equal.to_json()["losses"] == losses
    differ = rows_of(report(losses=losses | {"vocoder/learning_rate": 0.002}))["loss"]
    assert "acoustic/learning_rate 0.001" in differ
    assert "vocoder/learning_rate 0.002" in differ


def test_a_figure_of_too_few_steps_is_not_printed_as_one():
    """The reason stands in its place, in the text and for programs."""
    few = "too few steps to measure (3 of 10)"
    nothing = {
        "steps_per_second": None, "data_stage_seconds": None, "train_stage_seconds": None, "data_wait_share": None,
        "step_time_variation": None, "step_time_variation_within_buckets": None, "cpu_use": None,
        "resident_memory_growth": None, "beside_stage_seconds": None, "beside_names": ("vocoder",), "beside_on": "data",
    }  # fmt: skip
    made = report(**nothing, too_few={"D": few, "M": few, "V": few})
    rows = [line for line in made.render().splitlines() if few in line]
    names = [
        "rate", "data stage (D)", "training stage (M)", "vocoder (V)", "waiting for data", "bound of a split",
        "reached", "data device use", "model device use", "step-time variation", "CPU use", "resident memory",
    ]  # fmt: skip
    assert [line.partition(few)[0].strip() for line in rows] == names
    assert "×" not in made.render().replace("1.5–2×", "").replace("2–3×", "").replace("rate × the", "")
    found = made.to_json()
    assert (found["too_few"]["M"], found["bounds"], found["split_bound"]) == (few, {}, None)
    assert {each["verdict"] for each in found["targets"].values()} == {"not measured"}


def test_the_report_for_programs_holds_the_verdicts():
    assert report().to_json()["targets"]["step-time variation"] == {"value": 0.25, "verdict": "good"}


def test_what_the_model_could_not_read_is_in_the_report():
    texts = Coverage(1000, {"😀": 2}, {"ä": 3})
    made = report(texts=texts)
    assert made.to_json()["texts"] | {"worst": ()} == {
        "characters": 1000, "dropped": {"😀": 2}, "folded": {"ä": 3}, "worst": (), "dropped_share": 0.002
    }  # fmt: skip
    assert "2 of 1000 characters (0.20%) are dropped" in made.render()
    assert "'ä' U+00E4 LATIN SMALL LETTER A WITH DIAERESIS as 'a' ×3" in made.render()
    assert report().to_json()["texts"] is None


def test_what_stopped_the_steps_is_reported_with_its_share_of_the_run():
    seconds = {"warm_up": 5.0, "train": 60.0, "validate": 10.0, "checkpoint": 25.0, "sample": 0.0, "end": 0.0}
    made = report(phase_seconds=seconds, checkpoints_written=4, checkpoint_write_seconds=31.0)
    lines = [" ".join(line.split()) for line in made.render().splitlines()]
    assert "validating 10.0 s 10.0% of the run" in lines
    assert "waiting for checkpoints 25.0 s 25.0% of the run" in lines
    assert "writing checkpoints 31.0 s each of 4, from its step to the disk, beside the training" in lines
    assert not any(line.startswith("making samples") for line in lines)
    assert report(phase_seconds=seconds).to_json()["phase_seconds"] == seconds


def test_traced_steps_are_kept_out_of_the_statistics():
    clock = StepClock()
    clock.step(30.0, 29.0, "a", traced=True)
    for _ in range(10):
        clock.step(0.2, 0.05, "a", traced=False)
    assert (clock.steps, clock.traced) == (10, 1)
    assert clock.wait_share == pytest.approx(0.25)
    assert clock.variation == pytest.approx(0, abs=1e-9)


def test_variation_of_lengths_is_distinguished_from_other_variation():
    clock = StepClock()
    for _ in range(50):
        clock.step(0.1, 0, "short", traced=False)
        clock.step(0.3, 0, "long", traced=False)
    assert clock.variation == pytest.approx(0.5)
    assert clock.variation_within_buckets == pytest.approx(0, abs=1e-9)


def test_cpu_use_is_a_share_of_the_cores():
    clock = CpuClock()
    sum(math.sqrt(i) for i in range(2_000_000))
    assert 0 < clock.use() <= 1.05


def test_updates_beside_the_features_count_to_the_data_device():
    """(D + V + M) ÷ max(D + V, M), in the report with the names of the updates."""
    two = report(beside_stage_seconds=0.2, beside_names=("discriminators", "vocoder"), beside_on="data")
    assert two.split_bound == pytest.approx(1.75)
    assert two.data_device_ceiling == pytest.approx(0.75)
    assert "discriminators + vocoder (V)" in two.render()
    assert "(D+V+M)/max(D+V,M)" in two.render()
    assert "(V)" not in report().render()
    in_turn = report(beside_stage_seconds=0.2, beside_names=("discriminators", "vocoder"), beside_on="model")
    assert in_turn.split_bound == pytest.approx(1.25)
    assert in_turn.data_device_ceiling == pytest.approx(0.25)
    assert "(D+M)/max(D,M)" in in_turn.render()
    even = report(data_stage_seconds=0.3, beside_stage_seconds=0.3, beside_names=("vocoder",), beside_on="data")
    assert even.split_bound == pytest.approx(1 / 0.6)
    assert report(data_stage_seconds=None).split_bound is None


@pytest.mark.parametrize("place", ["data", "model", None])
def test_without_the_time_of_a_second_network_there_is_no_bound(place: str | None) -> None:
    """A report gave one that left V out, as if the data device had less to do."""
    few = "too few steps to measure (3 of 10)"
    made = report(beside_names=("vocoder",), beside_on=place, too_few={"V": few})
    assert (made.split_bound, made.data_device_ceiling, made.bounds) == (None, None, {})
    assert any(line.startswith("bound of a split") and few in line for line in made.render().splitlines())


def test_a_split_that_gains_little_is_told_what_gains_more():
    small = StepStages(0.008, 0.1)
    assert little_gain({SPLIT: 1.25}, SPLIT, second_network=True) is None
    said = little_gain(small.bounds(), SPLIT, second_network=True)
    assert said is not None
    assert "at most 1.08 times" in said
    assert "--strategy mirrored" in said
    assert "--networks acoustic,vocoder" in said
    assert "--networks" not in str(little_gain(small.bounds(), SPLIT, second_network=False))


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ((0.002, 0.008, 0.02), "waits 64% of a step: D + V take 22 ms, M takes 8 ms. More even is a smaller vocoder"),
        (
            (0.002, 0.008, 0.02),
            "(--vocoder-size) whose V is near 6 ms, or a larger model (--model-size) whose M is near",
        ),
        ((0.01, 0.005, 0.012), "waits 77% of a step: D + V take 22 ms, M takes 5 ms. More even is --vocoder-on model"),
        (
            (0.01, 0.005, 0.012),
            "with D of 10 ms and M + V of 17 ms, or a larger model (--model-size) whose M is near 22",
        ),
    ],
)
def test_a_split_whose_model_device_waits_is_told_what_evens_it_out(stages: tuple[float, float, float], said: str):
    data, train, beside = stages
    assert said in str(StepStages(data, train, beside, two_networks=True, beside_on="data").advice())
    two = report(
        data_stage_seconds=data, train_stage_seconds=train, beside_stage_seconds=beside, beside_names=("vocoder",),
        beside_on="data", two_networks=True,
    )  # fmt: skip
    assert said in rows_of(two)["balance"]


def test_an_even_split_and_one_without_a_vocoder_beside_it_are_told_nothing():
    assert StepStages(0.002, 0.018, 0.02, two_networks=True, beside_on="data").advice() is None
    assert StepStages(0.002, 0.008, 0.02, two_networks=True, beside_on="model").advice() is None
    assert StepStages(0.02, 0.008).advice() is None
    assert "balance" not in rows_of(report())


def test_a_place_of_the_vocoder_that_gains_little_is_told_of_the_other_one():
    bounds = StepStages(0.01, 0.3, 0.29, two_networks=True).bounds()
    assert little_gain(bounds, ON_DATA, second_network=False) is None
    assert "--vocoder-on data can gain 2.00 times" in str(little_gain(bounds, ON_MODEL, second_network=False))
    large = StepStages(1.0, 0.1, 0.02, two_networks=True).bounds()
    assert "--vocoder-on" not in str(little_gain(large, ON_DATA, second_network=False)), "neither gains 1.2"


def test_the_bound_of_each_way_follows_from_the_times_of_the_stages():
    """(D + V + M) ÷ the device with more to do; mirrored devices do all of it side by side."""
    assert StepStages(0.1, 0.4).bounds() == pytest.approx({SPLIT: 1.25, "mirrored": 2})
    two = StepStages(0.1, 0.4, 0.2, two_networks=True)
    assert two.bounds(3) == pytest.approx({ON_DATA: 0.7 / 0.4, ON_MODEL: 0.7 / 0.6, "mirrored": 3})
    assert StepStages(0.1, 0.4, two_networks=True).bounds() == pytest.approx({ON_MODEL: 1.25, "mirrored": 2})
    long = StepStages(0.3, 0.4, 0.2, two_networks=True)
    assert long.bounds()[ON_DATA] == pytest.approx(0.9 / 0.5), "the data device has more to do"
    assert str(two) == "D 100 ms, M 400 ms, V 200 ms"


def test_the_report_has_the_bound_of_each_way_and_what_was_reached():
    on_data = report(beside_stage_seconds=0.2, beside_on="data", two_networks=True, reached=1.4)
    on_model = report(train_stage_seconds=0.6, beside_stage_seconds=0.2, beside_on="model", two_networks=True)
    assert on_data.bounds == pytest.approx(on_model.bounds)
    assert on_data.to_json()["bounds"] == pytest.approx({ON_DATA: 1.75, ON_MODEL: 0.7 / 0.6, "mirrored": 2})
    lines = [" ".join(line.split()) for line in on_data.render().splitlines()]
    assert (
        "bounds of two devices over one: mirrored 2.00×; split, vocoder on data 1.75×; split, vocoder on model 1.17×"
        in lines
    )
    assert any(line.startswith("reached 1.40× over one device") for line in lines)
    assert any(
        line.startswith("reached not measured")
        for line in report().render().splitlines()
        for line in [" ".join(line.split())]
    )
    assert report(data_stage_seconds=None).bounds == {}
    trials = {"single": {"clips_per_second": 8.0, "bound": 1.0, "reached": 1.0}}
    trials[ON_DATA] = {"clips_per_second": 12.0, "bound": 1.75, "reached": 1.5}
    of_auto = [" ".join(line.split()) for line in report(trials=trials).render().splitlines()]
    assert "in trials 1.50× split, vocoder on data; its bound: 1.75×" in of_auto


def test_a_run_without_a_reading_of_steps_says_why_it_has_no_use():
    rows = rows_of(report(device_use={"data": None, "model": None}, device_use_missing="too short"))
    assert {rows[f"{role} device use"] for role in ("data", "model")} == {"not measured  too short"}


def test_the_use_of_a_card_is_told_as_the_cards_and_of_none_of_its_parts():
    parts = report(
        device_use={"data": None, "model": None}, device_use_missing="NVML cannot tell", card_use={"GPU 0": 0.93}
    )
    rows = rows_of(parts)
    assert {rows[f"{role} device use"] for role in ("data", "model")} == {"not measured  NVML cannot tell"}
    assert rows["GPU 0 use"] == "93%  its parts together, of no role"
    assert parts.to_json()["targets"]["data device use"] == {"value": None, "verdict": "not measured"}
    assert parts.to_json()["device_use_missing"] == "NVML cannot tell"
