"""A training under load against its targets of speed and utilization, and the diagnosis of a device below 30%."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tones import Corpus

from voxyard.diagnose.gpu_figures import NO_GPU, GpuFigures, GpuUse
from voxyard.diagnose.profile.stages import figures
from voxyard.diagnose.stress.run import MachineClock, Stress, Utilization, _use, train_under_load
from voxyard.diagnose.stress.targets import StressResult, check_targets, low_use
from voxyard.host.page_cache import Pages
from voxyard.telemetry.gpu_watch import CardPower
from voxyard.trainer import DataConfig, TrainConfig
from voxyard.trainer.devices.tensorflow_setup import Devices
from voxyard.trainer.out_of_memory import OUT_OF_MEMORY, OutOfMemoryError
from voxyard.trainer.steps.stage_timer import StageTimer

GOOD = StressResult(
    kind="gpu", strategy="split", seconds=30.0, steps=300, steps_per_second=10.0, clips_per_second=160.0, batch=16,
    warm_up="full", data_wait_share=0.01, data_stage_seconds=0.04, train_stage_seconds=0.1, variation=0.1,
    variation_within_buckets=0.05, cpu_use=0.5, resident_memory_growth=0.001, buffer_filled=0.9, workers=16,
    use={"data": 0.65, "model": 0.95}, memory_of_limit={"data": 0.85, "model": 0.99}, xla=True,
    device_memory_growth={"data": 0.0, "model": 0.001},
    powers=(CardPower("data", 0, 150.0, 350.0), CardPower("model", 1, 320.0, 350.0)),
)  # fmt: skip


def rows(load: StressResult) -> dict[str, tuple[str, str]]:
    return {row.name: (row.measured, row.standing) for row in check_targets(load).targets}


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "excellent"),
        ({"use": {"data": 0.55, "model": 0.95}}, "good"),
        ({"use": {"data": 0.65, "model": 0.75}}, "minimum"),
        ({"use": {"data": 0.65, "model": 0.65}}, "missed"),
        ({"variation": 0.25}, "good"),
        ({"variation": 0.45}, "missed"),
        ({"use": {"data": 0.39, "model": 0.95}, "data_stage_seconds": 0.04}, "excellent"),
        ({"use": {"data": 0.20, "model": 0.95}, "data_stage_seconds": 0.04}, "missed"),
        ({"use": {"data": None, "model": None}}, "excellent"),
    ],
)
def test_the_verdict_is_the_worst_of_the_graded_targets(change: dict[str, object], verdict: str) -> None:
    """The data GPU is held against what its work allows."""
    assert check_targets(replace(GOOD, **change)).verdict == verdict  # type: ignore[arg-type]


def test_what_no_gpu_measured_is_not_made_up() -> None:
    found = rows(replace(GOOD, kind="cpu", memory_of_limit={}))
    assert found["data GPU"][0] == found["model GPU"][0] == found["GPU memory of its limit"][0] == NO_GPU
    assert found["CPU use"] == ("50%", "for GPU hosts")
    assert "40% is the most possible here" in found["data GPU"][1]


def test_the_other_targets_are_reported_with_their_standing() -> None:
    found = rows(GOOD)
    assert found["data GPU memory of its limit"] == ("85%", "kept")
    assert found["model GPU memory of its limit"] == ("99%", "above")
    assert found["host memory stable"] == ("+0.1%", "stable")
    for growth in (0.2, -0.2):  # less: it is being reclaimed
        assert rows(replace(GOOD, resident_memory_growth=growth))["host memory stable"][1] == "not stable"
    assert rows(replace(GOOD, cpu_use=0.9))["CPU use"][1] == "above"


@pytest.mark.parametrize(
    ("strategy", "data_seconds", "target", "standing"),
    [
        ("split", 0.04, "bound of a split", "missed; one GPU may do for both: voxyard train --strategy auto times it"),
        ("split", 0.06, "bound of a split", "kept"),
        ("single", 0.04, "data ÷ compute time", "kept"),
        ("single", 0.06, "data ÷ compute time", "missed"),
    ],
)
def test_a_strategy_is_held_to_the_one_target_of_its_stages_that_it_can_keep(
    strategy: str, data_seconds: float, target: str, standing: str
) -> None:
    """Data under half of compute, and a bound of 1.5 or more, exclude each other."""
    found = rows(replace(GOOD, strategy=strategy, data_stage_seconds=data_seconds))
    assert {name: found[name][1] for name in found if name in ("data ÷ compute time", "bound of a split")} == {
        target: standing
    }


def test_the_memory_of_each_gpu_is_judged_by_its_allocator() -> None:
    found = rows(replace(GOOD, device_memory_growth={"data": 0.0, "model": 0.3}))
    assert found["data GPU memory stable"] == ("+0.0%", "stable")
    assert found["model GPU memory stable"] == ("+30.0%", "not stable")


@pytest.mark.parametrize(
    ("watts", "standing"),
    [
        (250.0, "high"),
        (150.0, "as high as its work allows, which is 40% of the time at most"),
        (60.0, "low"),
        (None, ""),
    ],
)
def test_the_power_of_each_gpu_is_held_against_its_own_limit(watts: float | None, standing: str) -> None:
    """Of the data GPU as far as its work goes."""
    powers = (CardPower("data", 0, watts, 350.0), CardPower("model", 1, 320.0, 700.0))
    found = rows(replace(GOOD, powers=powers))
    assert found["data GPU 0 power"][1] == standing
    assert found["model GPU 1 power"] == ("320 W of 700 W (46%)", "low")


def test_without_a_gpu_neither_power_nor_its_memory_is_made_up() -> None:
    found = rows(replace(GOOD, kind="cpu", memory_of_limit={}, device_memory_growth={}, powers=()))
    assert found["GPU power"] == found["GPU memory stable"] == (NO_GPU, "")


def test_a_busy_device_needs_no_diagnosis() -> None:
    assert low_use(GOOD) == ()
    assert low_use(replace(GOOD, use={"data": None, "model": None})) == ()


@pytest.mark.parametrize(
    ("change", "cause", "remedy"),
    [
        ({"data_wait_share": 0.8, "buffer_filled": 0.02}, "reading and decoding", "--num-workers"),
        ({"data_wait_share": 0.8, "buffer_filled": 0.95}, "the features or the copy", "--features"),
        ({"data_wait_share": 0.8, "buffer_filled": 0.5}, "unevenly", "--prefetch-buffer-size"),
        ({"data_wait_share": 0.02, "train_stage_seconds": 0.004, "xla": False}, "steps are too short", "--batch-size"),
        ({"data_wait_share": 0.02, "xla": False}, "the step itself", "voxyard profile"),
    ],
)
def test_a_model_device_below_30_percent_is_diagnosed(change: dict[str, object], cause: str, remedy: str) -> None:
    load = replace(GOOD, use={"data": 0.65, "model": 0.2}, **change)  # type: ignore[arg-type]
    (found,) = low_use(load)
    assert found.role == "model"
    assert cause in found.cause
    assert any(remedy in line for line in found.remedies)
    assert "below 30%: the model device is busy 20%" in found.lines()[0]


def test_a_data_device_with_little_work_is_no_fault() -> None:
    (found,) = low_use(replace(GOOD, data_stage_seconds=0.01, use={"data": 0.09, "model": 0.95}))
    assert "no fault" in found.cause


def test_a_data_device_that_starves_is_one() -> None:
    (found,) = low_use(replace(GOOD, data_stage_seconds=0.08, buffer_filled=0.1, use={"data": 0.2, "model": 0.95}))
    assert "could do more" in found.cause
    assert "reading threads" in found.remedies[0]


@pytest.mark.parametrize("strategy", ["split", "mirrored"])
def test_a_cpu_device_is_at_work_where_it_does_not_wait(strategy: str) -> None:
    clock = SimpleNamespace(wait_share=0.25, duration=4.0, steps=8, shapes=Counter())
    step = SimpleNamespace(timer=StageTimer({}, asynchronous=False))
    step.timer.data.add(0.1)
    run: Any = SimpleNamespace(devices=SimpleNamespace(kind="cpu", strategy=strategy), clock=clock, step=step)
    data = {"data": pytest.approx(0.2)} if strategy == "split" else {}
    assert _use(run, GpuFigures((), NO_GPU)) == {"model": 0.75, **data}


def test_processors_are_read_from_the_kernel(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n")
    clock = MachineClock(stat)
    assert clock.use() is None
    stat.write_text("cpu  400 0 50 850 100 0 0 0 7 7\n")
    assert clock.use() == pytest.approx(0.75)


def busy(share: float) -> GpuFigures:
    return GpuFigures((GpuUse("model", 3, "NVIDIA A10", figures([share]), None, None),))


def test_before_during_and_after_stand_beside_each_other() -> None:
    found = Stress(
        ("model: GPU 3",),
        "gpu",
        Utilization(0.1, busy(0.0)),
        Utilization(0.6, busy(0.96)),
        Utilization(None, busy(0.02)),
        GOOD,
        check_targets(GOOD),
    )
    lines = [line.split() for line in found.text().splitlines()]
    assert ["utilization", "before", "during", "after"] in lines
    assert ["all", "processors", "10%", "60%", "–"] in lines
    assert ["model", "GPU", "3", "0%", "96%", "2%"] in lines
    assert "verdict: excellent" in found.text()
    assert (found.exit_code, found.document()["verdict"]) == (0, "excellent")


class ResourceExhaustedError(Exception):
    """As TensorFlow calls it."""


def test_running_out_of_memory_is_told_as_training_tells_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise ResourceExhaustedError("OOM when allocating tensor")

    devices = Devices(
        "gpu", "single", "/device:GPU:0", "/device:GPU:0", ("/device:GPU:0",), 48, ("model: GPU 0",), {}, None
    )
    monkeypatch.setattr("voxyard.diagnose.stress.run.build_dry_run", exhausted)
    corpus = Corpus(tmp_path / "corpus").add("a").directory
    config = TrainConfig(data=DataConfig(train_data=corpus))
    with pytest.raises(OutOfMemoryError, match=r"^out of memory under load on the model device") as caught:
        train_under_load(config, devices, Utilization(None, GpuFigures()), 1.0, Path("unused"), lambda _: None)
    assert "--batch-size 24 --grad-accum 2" in str(caught.value)
    assert caught.value.exit_code == OUT_OF_MEMORY


def test_a_missed_target_is_exit_code_1() -> None:
    bad = check_targets(replace(GOOD, variation=0.9))
    nothing = Utilization(None, GpuFigures(missing=NO_GPU))
    assert Stress((), "cpu", nothing, result=GOOD, report=bad).exit_code == 1
    assert Stress((), "cpu", nothing).exit_code == 0


def test_a_load_test_that_read_from_memory_advises_nothing_for_the_disk() -> None:
    """Reading that is too slow even from memory."""
    warm_pages = Pages(400, 400, ("tmpfs keeps its files in memory",))
    load = replace(
        GOOD, use={"data": 0.1, "model": 0.1}, data_wait_share=0.8, buffer_filled=0.0, data_stage_seconds=None,
        reads=Pages(400, 0),
    )  # fmt: skip
    (cold,), (warm,) = low_use(load), low_use(replace(load, reads=warm_pages))
    assert any("--num-workers" in line for line in cold.remedies)
    assert "though they came from memory" in warm.cause
    assert not [line for line in warm.remedies if "--" in line or "prepare" in line]
    assert any("tmpfs" in line for line in warm.evidence)
    assert any("reads: warm" in line for line in replace(load, reads=warm_pages).lines())
