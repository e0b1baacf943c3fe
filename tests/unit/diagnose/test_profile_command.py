"""`voxyard profile` as a user types it, its report and its page, around profiles that were made up."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from profiles import COLD, made_up

from voxyard.diagnose.errors import DiagnoseError
from voxyard.diagnose.gpu_figures import GpuFigures, GpuUse
from voxyard.diagnose.profile import html_report, text_report
from voxyard.diagnose.profile import run as profile_module
from voxyard.diagnose.profile.facts import Probed
from voxyard.diagnose.profile.html_report import write_page
from voxyard.diagnose.profile.result import Profile
from voxyard.diagnose.profile.run import profile
from voxyard.diagnose.profile.stages import figures, with_shares
from voxyard.diagnose.profile.svg_charts import all_steps, histogram, nice_ticks, typical, typical_steps
from voxyard.diagnose.profile.timeline import StepSpan, Timeline
from voxyard.settings import flags_of
from voxyard.trainer.config import DataConfig, TrainConfig, TrainingConfig

SECTIONS = [
    "What was profiled",
    "Stage times, each alone (milliseconds a batch)",
    "Overlapped",
    "Gaps",
    "Checkpoints and validation",
    "GPU utilization",
    "GPU memory",
    "Where the bottleneck is",
    "What to change, and the expected gain",
]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `voxyard profile …` on a made-up profile; gives back code, output, messages, and what was asked."""
    voxyard = Command(capsys, monkeypatch)
    asked: dict[str, Any] = {}

    def measure(config: TrainConfig, **values: Any) -> Profile:
        asked.update(values, config=config)
        values["progress"]("load alone")
        return made_up(0.4, 0.05, 0.001, 0.1, load={"probed": Probed(8, 0.08, COLD)})

    monkeypatch.setattr(profile_module, "profile", measure)

    def run(*arguments: str) -> tuple[int, str, str, dict[str, Any]]:
        ended = voxyard("profile", *arguments)
        return ended.code, ended.out, ended.err, asked

    return run


def test_flags_reach_the_profiler(command: Any) -> None:
    code, _, err, asked = command(
        "--batch-size", "16", "--num-steps", "50", "--data-gpu", "0", "--model-gpu", "1", "--no-gpu-monitoring"
    )
    config = asked["config"]
    assert (code, asked["steps"], asked["gpu_monitoring"]) == (0, 50, False)
    assert (config.training.batch_size, config.data.data_gpu, config.data.model_gpu) == (16, 0, 1)
    assert "Profiling: load alone" in err


def test_the_file_gives_what_no_flag_does(command: Any, tmp_path: Path) -> None:
    """--config FILE."""
    file = tmp_path / "train.yaml"
    file.write_text("training:\n  batch_size: 6\n  learning_rate: 0.002\ndata:\n  num_workers: 3\n")
    _, _, _, asked = command("--config", str(file), "--num-workers", "5")
    assert (asked["steps"], asked["gpu_monitoring"]) == (100, True)
    assert asked["config"].training.batch_size == 6
    assert asked["config"].data.num_workers == 5


def test_the_report_has_the_sections_of_the_acceptance_list_in_order(command: Any) -> None:
    out = command()[1]
    assert [line for line in out.splitlines() if line and not line.startswith(" ")] == SECTIONS
    assert out.count("not measured: no GPU") == 2
    assert "bottleneck: load (data loading)" in out
    assert "$ voxyard train --train-data corpus --data-gpu 0 --model-gpu 1 --device cpu --num-workers 8" in out
    assert re.search(r"^ *1\. .*4\.00× predicted", out, re.MULTILINE)
    assert "the gap between the two" in out or "no gap" in out


def test_json_is_all_that_is_printed(command: Any) -> None:
    found = json.loads(command("--json")[1])
    assert found["verdict"]["bottleneck"] == "load"
    assert [each["stage"] for each in found["stages"]] == ["load", "features", "transfer", "train"]
    assert {"mean", "std", "min", "p50", "p95", "max", "share"} <= found["stages"][0].keys()
    assert found["gpus"] == {"gpus": [], "missing": "not measured: no GPU"}
    assert found["recommendations"][0]["flags"] == ["--num-workers", "8"]


def test_the_page_is_written_beside_the_report(command: Any, tmp_path: Path) -> None:
    code, out, err, _ = command("--html", str(tmp_path / "new/profile.html"))
    assert (code, out.startswith("What was profiled")) == (0, True)
    assert (tmp_path / "new/profile.html").read_text().startswith("<!doctype html>")
    assert "profile.html" in err


def test_a_page_that_cannot_be_written_is_a_sentence(command: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, err, asked = command("--html", str(tmp_path / "file" / "profile.html"))
    assert (code, asked) == (2, {})  # before the work
    assert "profile.html cannot be written: " in err
    with pytest.raises(DiagnoseError):
        write_page(made_up(0.1, 0.1, 0.1, 0.1), tmp_path)


def test_a_file_in_the_place_of_the_checkpoints_is_told_before_the_work(command: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    code, _, err, asked = command("--checkpoint-dir", str(file / "run"))
    assert (code, asked) == (2, {})
    assert f"--checkpoint-dir {file}/run: {file} is a file, expected a folder" in err


def test_too_few_steps_are_refused(command: Any) -> None:
    assert command("--num-steps", "4")[0] == 2
    assert command("--num-steps", "5")[3]["steps"] == 5
    with pytest.raises(DiagnoseError, match="100 is the default"):
        profile(TrainConfig(), steps=4)


def test_a_strategy_that_is_still_to_be_chosen_is_refused() -> None:
    with pytest.raises(DiagnoseError, match="a profile is of one of them"):
        profile(TrainConfig(training=TrainingConfig(strategy="auto")))


def test_the_command_line_has_what_differs_from_the_defaults() -> None:
    config = TrainConfig(
        data=DataConfig(train_data=Path("c"), data_gpu=0, model_gpu=1, static_shapes=False, cache_dataset=True),
        training=TrainingConfig(batch_size=6, xla=True, auto=True),
    )
    assert flags_of(config, leave_out={"training.auto"}) == (
        "--train-data", "c", "--data-gpu", "0", "--model-gpu", "1", "--no-enable-static-shapes", "--cache-dataset",
        "--batch-size", "6", "--xla",
    )  # fmt: skip


def test_figures_of_gpus_stand_in_report_and_page() -> None:
    gpu = GpuUse("model", 1, "H200", figures([0.5, 0.7]), 40 * 2**30, 80 * 2**30)
    silent = GpuUse("data", 0, "H200", figures([]), None, None)
    found = replace(made_up(0.1, 0.1, 0.01, 0.4), gpus=GpuFigures((silent, gpu)))
    text = text_report.render(found)
    assert "model GPU 1 (H200): mean 60%, p50 60%, max 70%" in text
    assert "model GPU 1 (H200): 40960 of 81920 MiB at most (50%)" in text
    assert text.count("data GPU 0 (H200): the driver does not report it") == 2
    page = html_report.render(found)
    assert "GPU 1: mean 60%" in page
    assert "40960 of 81920 MiB" in page


def test_what_the_parts_of_a_gpu_did_stands_beside_its_utilization() -> None:
    parts = {"sm": 0.2, "occupancy": 0.1, "tensor": 0.05, "dram": 0.3}
    gpu = GpuUse("model", 1, "H100", figures([0.9, 0.9]), None, None, parts)
    found = replace(made_up(0.1, 0.1, 0.01, 0.4), gpus=GpuFigures((gpu,)))
    said = "SMs 20%, occupancy 10%, tensor cores 5%, memory bandwidth 30%"
    assert f"model GPU 1 (H100): {said}" in text_report.render(found)
    assert said in html_report.render(found)
    assert found.gpus.activity("model") == parts
    assert found.gpus.activity("data") == {}


def test_beside_the_data_device_stands_the_most_that_it_can_reach() -> None:
    """D/max(D, M)."""
    found = made_up(0.01, 0.1, 0.02, 0.4)
    assert found.data_device_ceiling == pytest.approx(0.3)
    assert "the stages alone predict 30% for the data device: D/max(D, M)" in text_report.render(found)
    assert "of at most 30%" in html_report.render(found)


def test_a_run_without_a_bottleneck_reports_what_bounds_it() -> None:
    found = made_up(0.01, 0.1, 0.0, 0.4)
    assert "no bottleneck; bound by train" in text_report.render(found)
    assert "No bottleneck; bound by training" in html_report.render(found)


def test_names_of_the_user_cannot_become_part_of_the_page() -> None:
    found = made_up(0.4, 0.05, 0.001, 0.1)
    found = replace(found, setup=replace(found.setup, corpus="<script>alert(1)</script>"))
    assert "<script>alert" not in html_report.render(found)


@pytest.mark.parametrize("seconds", [(0.1,) * 5, (0.0,) * 5, (0.1, 0.2, 5.0), (0.1,)])
def test_any_series_makes_a_histogram_of_all_its_batches(seconds: tuple[float, ...]) -> None:
    (stage, *_) = with_shares({"load": seconds, "train": (0.1,)})
    counted = sum(int(count) for count in re.findall(r"<title>(\d+) batches", histogram(stage)))
    assert counted == len(seconds)


def test_a_bar_of_a_step_is_its_training_and_on_it_its_wait() -> None:
    drawn = all_steps([StepSpan(0.0, 0.1, 0.4), StepSpan(0.4, 0.4, 0.7)])
    bars = re.findall(r'class="(train|wait)" x="\S+" y="(\S+)" width="\S+" height="(\S+)"', drawn)
    assert [name for name, _, _ in bars] == ["train", "wait", "train"]
    (train, wait, _) = ((float(y), float(height)) for _, y, height in bars)
    assert wait[1] / train[1] == pytest.approx(0.1 / 0.3, rel=0.01)
    assert sum(wait) == pytest.approx(train[0], abs=0.1), "the wait ends where the training begins"


def test_the_lane_of_the_readers_is_as_full_as_they_are() -> None:
    reads = ((0.0, 1.0), (0.0, 0.5), (1.5, 2.0))  # of two threads: half of what they could
    drawn = typical_steps(Timeline(reads, (), (StepSpan(0.0, 0.5, 2.0),)), 2, split=True)
    area = re.search(r'class="load" points="([^"]*)"', drawn)
    lane = re.search(r'class="lane-back" x="\S+" y="28" width="(\S+)" height="40"', drawn)
    assert area is not None
    assert lane is not None
    points = [tuple(map(float, each.split(","))) for each in area[1].split()]
    ring = zip(points, [*points[1:], points[0]], strict=True)
    filled = abs(sum(one[0] * other[1] - other[0] * one[1] for one, other in ring)) / 2
    assert filled / (float(lane[1]) * 40) == pytest.approx(0.5, abs=0.01)
    assert "waits for data 25% of the time" in drawn


def test_every_line_of_a_timeline_has_its_time() -> None:
    drawn = typical_steps(Timeline((), (), (StepSpan(0.0, 0.0, 0.1), StepSpan(0.1, 0.1, 0.2))), 2, split=True)
    lines = re.findall(r'<line class="grid" x1="(\S+)"', drawn)
    times = re.findall(r'<text class="tick" x="(\S+)" y="\S+" text-anchor="middle">(\S+?)(?: ms)?<', drawn)
    assert [x for x, _ in times] == lines
    assert [float(each) for _, each in times] == pytest.approx([1e3 * each for each in nice_ticks(0.2)])


def test_typical_steps_are_neither_the_best_nor_the_worst() -> None:
    ends = [0.1 * number for number in range(10)] + [0.9 + 1.0 * number for number in range(1, 4)]
    ends += [ends[-1] + 0.2 * number for number in range(1, 10)]
    steps = [StepSpan(one, one, other) for one, other in itertools.pairwise(ends)]
    seconds = [step.seconds for step in typical(steps, 4)]
    assert 0.15 < sum(seconds) / 4 < 0.6
    assert len(typical(steps[:3], 10)) == 3


@pytest.mark.parametrize(("most", "last"), [(0.5, 0.5), (0.00012, 0.00012), (7.3, 6.0)])
def test_ticks_are_round_numbers_up_to_the_longest(most: float, last: float) -> None:
    ticks = nice_ticks(most)
    assert ticks[0] == 0
    assert ticks[-1] == pytest.approx(last)
    assert 3 <= len(ticks) <= 9
