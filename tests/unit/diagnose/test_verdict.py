"""The rules of a verdict: shares, the 5% of data-wait, the thresholds that annotate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from profiles import advice_facts, made_up, stage_times

from voxyard.diagnose.other_load import OtherLoad, Program
from voxyard.diagnose.profile import interruptions
from voxyard.diagnose.profile.advice import advise
from voxyard.diagnose.profile.bottleneck_cause import ReadingThreads
from voxyard.diagnose.profile.cost_model import Costs
from voxyard.diagnose.profile.html_report import render as page
from voxyard.diagnose.profile.interruptions import Interruption, Interruptions
from voxyard.diagnose.profile.stages import with_shares
from voxyard.diagnose.profile.text_report import render
from voxyard.diagnose.profile.verdict import DeviceUse, Verdict, judge
from voxyard.telemetry.causes import BY_NAME


def _judge(
    load: float, features: float, transfer: float, train: float, *, wait: float, variation: float = 0.0,
    **use: float | None,
) -> Verdict:  # fmt: skip
    return judge(
        stage_times(load, features, transfer, train),
        costs=Costs(load, features, transfer, train),
        data_wait_share=wait,
        variation=variation,
        use={role: DeviceUse(value, "as measured") for role, value in use.items()},
    )


def _rules(verdict: Verdict) -> set[str]:
    return {each.rule for each in verdict.annotations}


PARTS = {"sm": 0.9, "occupancy": 0.5, "tensor": 0.5, "dram": 0.5}


@pytest.mark.parametrize(
    ("changed", "use", "batch", "wait", "name"),
    [
        ({}, 0.95, 16, 0.0, None),
        ({}, None, 16, 0.0, None),
        ({}, 0.4, 16, 0.0, "small_work"),
        ({}, 0.95, 1, 0.0, "small_work"),  # a step of one clip, however busy
        ({}, 0.95, 1, 0.2, None),
        ({"sm": 0.2, "tensor": 0.05, "dram": 0.2}, 0.95, 16, 0.0, "small_kernels"),
        ({"sm": 0.2, "tensor": 0.05}, 0.95, 16, 0.0, None),
        ({"dram": 0.8, "tensor": 0.1}, 0.95, 16, 0.0, "memory_bound"),
        ({"dram": 0.8, "tensor": 0.1}, None, 16, 0.0, None),
    ],
)
def test_a_gpu_that_never_waits_and_does_little_has_a_cause(
    changed: dict[str, float], use: float | None, batch: int, wait: float, name: str | None
) -> None:
    verdict = judge(
        stage_times(0, 1, 0, 4),
        costs=Costs(0, 1, 0, 4),
        data_wait_share=wait,
        variation=0.0,
        use={"model": DeviceUse(use, "as measured")},
        activity=PARTS | changed,
        batch=batch,
    )
    assert (None if verdict.cause is None else verdict.cause.name) == name


@pytest.mark.parametrize(
    ("stages", "slowest"),
    [((4, 1, 1, 2), "load"), ((1, 4, 1, 2), "features"), ((1, 1, 4, 2), "transfer"), ((1, 2, 1, 4), "train")],
)
def test_the_slowest_stage_is_named_once_the_model_waits(stages: tuple[float, ...], slowest: str) -> None:
    verdict = _judge(*stages, wait=0.05)
    assert (verdict.bottleneck, verdict.bound_by) == (slowest, slowest)
    assert verdict.sentence.startswith(f"bottleneck: {slowest}")


def test_under_five_percent_of_waiting_there_is_no_bottleneck_whatever_the_shares() -> None:
    verdict = _judge(4, 1, 1, 2, wait=0.0499)
    assert verdict.bottleneck is None
    assert verdict.sentence.startswith("no bottleneck; bound by load")
    assert "load" in _rules(verdict)


@pytest.mark.parametrize(
    ("stages", "annotated"),
    [
        ((2.1, 2.9, 0, 5), {"load"}),
        ((2.0, 3.0, 0, 5), set()),
        ((0, 3.0, 1.6, 5.4), {"transfer"}),
        ((0, 3.5, 1.5, 5.0), set()),
        ((0, 5.1, 0, 4.9), {"train"}),
        ((2.5, 0, 2.5, 3), {"load", "transfer", "train"}),
    ],
)
def test_shares_of_the_sum_annotate_at_their_thresholds(stages: tuple[float, ...], annotated: set[str]) -> None:
    """Load above 20%, transfer above 15%, train below 50%."""
    assert _rules(_judge(*stages, wait=0.2)) == annotated


def test_steps_that_vary_by_more_than_thirty_percent_oscillate() -> None:
    assert "oscillation" in _rules(_judge(0, 1, 0, 2, wait=0.2, variation=0.31))
    assert "oscillation" not in _rules(_judge(0, 1, 0, 2, wait=0.2, variation=0.30))


def test_a_stage_that_varies_alone_is_named_unless_it_hardly_counts() -> None:
    measured = {"load": (0.1, 0.5), "features": (0.4, 0.4), "transfer": (0.001, 0.005), "train": (1.0, 1.0)}
    stages = with_shares(measured)  # type: ignore[arg-type]
    verdict = judge(stages, costs=Costs(0.3, 0.4, 0.003, 1.0), data_wait_share=0.0, variation=0.0)
    assert [each.sentence for each in verdict.annotations if each.rule == "oscillation"] == [
        "oscillation: load alone varies in length"
    ]


def test_devices_annotate_by_their_use_and_the_data_gpu_beside_what_it_can_reach() -> None:
    verdict = _judge(0, 2, 0, 4, wait=0.0, model=0.69, data=0.81)
    found = {each.rule: each.sentence for each in verdict.annotations}
    assert set(found) == {"model use", "data use"}
    assert found["data use"].startswith("data GPU is the limit")
    assert "50% is the most possible here" in found["data use"]
    assert _rules(_judge(0, 2, 0, 4, wait=0.0, model=0.70, data=0.80)) == set()


def test_what_was_not_measured_annotates_nothing() -> None:
    assert _rules(_judge(0, 2, 0, 4, wait=0.2, model=None, data=None)) == set()


@pytest.mark.parametrize(
    ("stages", "said"), [((0, 3, 2, 4), "follow one another on one thread"), ((0, 2, 1, 4), "the same cores")]
)
def test_a_model_that_waits_though_training_is_slowest_is_explained(stages: tuple[float, ...], said: str) -> None:
    verdict = _judge(*stages, wait=0.2)
    assert verdict.bottleneck == "train"
    assert said in verdict.explanation


BUSY = OtherLoad(cores=2, taken=1.0, contended=0.5, programs=(Program("make", 41, 0.9),))


@pytest.mark.parametrize(
    ("stages", "wait", "computing", "withheld"),
    [
        ((4, 1, 1, 2.5), 0.4, {}, True),  # without the others loading might take 2
        ((6, 1, 1, 2.5), 0.4, {}, False),  # it would still take 3
        ((4, 1, 1, 2.5), 0.4, {"load": 0.1}, False),  # it waits for a disk, and nobody can slow that down
        ((1, 1, 1, 2.5), 0.0, {}, False),
        ((1, 1, 2, 2.5), 0.0, {}, True),
        ((1, 1, 1, 2.5), 0.3, {}, True),  # what does the model wait for? perhaps for a core
    ],
)
def test_a_verdict_is_withheld_where_the_others_may_have_made_it(
    stages: tuple[float, ...], wait: float, computing: dict[Any, float], withheld: bool
) -> None:
    load, features, transfer, train = stages
    verdict = judge(
        stage_times(*stages), costs=Costs(load, features, transfer, train), data_wait_share=wait, variation=0.0,
        others=BUSY, computing=computing,
    )  # fmt: skip
    assert bool(verdict.withheld) == withheld
    if withheld:
        assert (verdict.bottleneck, verdict.cause) == (None, BY_NAME["cpu_pressure"])
        assert verdict.sentence.startswith("no verdict: other programs took 1.0 of 2 cores")
        assert "make, process 41" in verdict.sentence


@pytest.mark.parametrize(("stages", "withheld"), [((9, 1, 1, 2), False), ((1, 1, 1, 9), True), ((1, 9, 1, 2), True)])
def test_beside_strangers_on_a_gpu_only_reading_can_be_judged(stages: tuple[float, ...], withheld: bool) -> None:
    load, features, transfer, train = stages
    verdict = judge(
        stage_times(*stages), costs=Costs(load, features, transfer, train), data_wait_share=0.0, variation=0.0,
        others=OtherLoad(gpus=("GPU 1 was 40% busy before the run began",)),
    )  # fmt: skip
    assert bool(verdict.withheld) == withheld
    assert (verdict.cause == BY_NAME["stranger_compute"]) == withheld


def test_a_disturbed_profile_says_so_in_every_form_and_advises_nothing() -> None:
    found = made_up(0.4, 0.1, 0.1, 0.25, others=BUSY)
    said = "other programs took 1.0 of 2 cores while none was free (make, process 41: 0.9; and 0.1 cores in other"
    assert said in render(found)
    assert "nothing is advised from a disturbed measurement" in render(found)
    assert said in page(found)
    assert "No verdict: the measurement was disturbed" in page(found)
    assert '<section class="verdict disturbed"' in page(found)
    assert found.document()["other_load"]["disturbs"]
    assert found.document()["recommendations"] == []


def test_a_verdict_that_holds_is_given_beside_the_disturbance() -> None:
    found = made_up(0.9, 0.1, 0.1, 0.2, others=BUSY)
    assert found.verdict.bottleneck == "load"
    assert "the measurement was disturbed, and the figures are rough" in render(found)
    assert "the figures are rough" in page(found)
    assert found.verdict.sentence == "as measured beside other programs: bottleneck: load (data loading)"
    assert "<title>Disturbed measurement: data loading is the bottleneck · " in page(found)
    assert [each.gain for each in found.recommendations if each.gain is not None] == []
    assert "gain not predicted" in render(found)
    assert "<b>?</b><span>not predicted</span>" in page(found)


def test_no_bottleneck_beside_others_is_not_all_well_and_promises_nothing() -> None:
    """Two CPU devices of two cores that others had: a second replica would not gain anything there."""
    found = made_up(0.01, 0.15, 0.01, 0.2, others=replace(BUSY, taken=0.4, contended=0.2))
    alone = made_up(0.01, 0.15, 0.01, 0.2)
    assert any("mirrored" in each.title for each in alone.recommendations)
    assert found.recommendations == ()
    assert found.verdict.bottleneck is None
    assert found.verdict.sentence.startswith("as measured beside other programs: no bottleneck; bound by train")
    assert found.document()["verdict"]["disturbed"].startswith("other programs took 0.4 of 2 cores")
    assert "no gain is predicted that depends on these" in render(found)
    assert "no gain is predicted that depends on these" in page(found)
    assert "<title>Disturbed measurement: no bottleneck; bound by training · " in page(found)
    assert '<section class="verdict disturbed"' in page(found)
    assert '<section class="verdict "' in page(alone)


def test_what_a_gpu_does_alone_is_predicted_whoever_takes_the_cores() -> None:
    costs = Costs(0.01, 0.05, 0.01, 0.2)
    gpu = {"kind": "gpu", "compute_capability": (8, 9)}
    calm = advise(advice_facts(costs, host=gpu, data_wait_share=0.01))
    beside = advise(advice_facts(costs, host=gpu, data_wait_share=0.01, others=BUSY))
    assert [each.title for each in beside] == [each.title for each in calm if each.then != "data loading"]
    assert "train in bfloat16" in [each.title for each in beside]
    strangers = OtherLoad(gpus=("GPU 1 was 40% busy before the run began",))
    assert advise(advice_facts(costs, host=gpu, data_wait_share=0.01, others=strangers)) == ()


def test_checkpoints_and_validations_that_stop_the_steps_are_causes() -> None:
    slow = Interruption("checkpoint", 100, 20.0, "410 MiB, written to /runs and removed")
    rare = Interruption("validation", 500, 5.0, "40 of its 40 batches measured")
    found = made_up(0.05, 0.05, 0.01, 0.2, interruptions=Interruptions(0.2, (slow, rare)))
    assert found.verdict.cause is not None
    assert found.verdict.cause.name == "checkpoint"
    assert "interruptions" in _rules(found.verdict)
    said = "checkpoint: 20 s every 100 steps, 48.8% of the time (410 MiB, written to /runs and removed)"
    assert said in render(found)
    assert "Validation: 5 s every 500 steps, 2.4% of the time" in page(found)
    shares = [each["share"] for each in found.document()["interruptions"]]
    assert shares == [pytest.approx(0.488, abs=1e-3), pytest.approx(0.0244, abs=1e-3)]


@pytest.mark.parametrize(("writing", "waited"), [(15.0, 0.5), (20.0, 0.5), (32.0, 12.5)])
def test_the_steps_wait_for_a_checkpoint_only_where_the_next_one_is_due_before(writing: float, waited: float) -> None:
    """Of 20 s of steps between two, and half a second to copy the state."""
    assert interruptions._waited(0.5, writing, 100 * 0.2) == waited


def test_an_interruption_that_was_not_measured_says_why() -> None:
    none = Interruption("validation", 500, None, "no clip is held out (--validation-share)")
    found = made_up(0.05, 0.05, 0.01, 0.2, interruptions=Interruptions(0.2, (none,)))
    assert "validation: not measured: no clip is held out" in render(found)
    assert found.verdict.cause is None


@pytest.mark.parametrize(
    ("queued", "computing", "in_memory", "names"),
    [
        (0.5, 0.2, False, ("cpu_pressure", "input_storage")),
        (0.25, 0.1, False, ("input_storage", "cpu_pressure")),
        (0.5, 0.45, False, ("cpu_pressure", None)),  # they wait for nothing but a core
        (0.1, 0.1, False, ("input_storage", None)),
        (0.5, 0.2, True, ("cpu_pressure", None)),  # nothing waits for a disk
    ],
)
def test_two_delays_of_reading_are_both_named_the_larger_first(
    queued: float, computing: float, in_memory: bool, names: tuple[str | None, ...]
) -> None:
    reading = ReadingThreads(8, 8, computing, 8 * computing, 0.0, queued, in_memory)
    verdict = judge(
        stage_times(0.5, 0.1, 0.01, 0.2), costs=Costs(0.5, 0.1, 0.01, 0.2), data_wait_share=0.5, variation=0.0,
        reading=reading,
    )  # fmt: skip
    assert tuple(each and each.name for each in (verdict.cause, verdict.also)) == names


@pytest.mark.parametrize(
    ("wait", "names"), [(0.5, ("input_storage", "checkpoint")), (0.1, ("checkpoint", "input_storage"))]
)
def test_a_bottleneck_and_long_checkpoints_are_both_told(wait: float, names: tuple[str, str]) -> None:
    slow = Interruption("checkpoint", 10, 0.8, "1 MB")  # 0.8 of 2.8 s
    verdict = judge(
        stage_times(0.5, 0.1, 0.01, 0.2), costs=Costs(0.5, 0.1, 0.01, 0.2), data_wait_share=wait, variation=0.0,
        reading=ReadingThreads(8, 8, 0.1, 0.8, 0.0, 0.1), interruptions=Interruptions(0.2, (slow,)),
    )  # fmt: skip
    assert (verdict.cause, verdict.also) == tuple(BY_NAME[name] for name in names)


def test_both_causes_stand_in_the_reports() -> None:
    each = [Interruption(name, 10, seconds, "") for name, seconds in (("checkpoint", 7.0), ("validation", 14.0))]
    found = made_up(0.05, 0.05, 0.01, 0.2, interruptions=Interruptions(0.2, tuple(each)))
    text = render(found)
    assert text.index("cause: ") < text.index("(validation)") < text.index("also: ") < text.index("(checkpoint)")
    assert all(BY_NAME[name].remedy in page(found) for name in ("checkpoint", "validation"))
