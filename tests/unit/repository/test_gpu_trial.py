"""The GPU trial: its limits, the turns of its runs, what it calls different, and shares of the parts of a card."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpu_report import run as gpu_report
from gpu_report.run import NO_GPU, Step
from gpu_trial import run as gpu_trial
from gpu_trial.configurations import Place
from gpu_trial.run import Trial
from voxyard.host.nvml import Gpu
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.placement import choose


def step(name: str, code: str, file: str = "out.json") -> Step:
    return Step(name, (sys.executable, "-c", code), file, gpu_trial.raw)


def test_without_a_gpu_nothing_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_trial.main(["--out", str(tmp_path / "trial")]) == NO_GPU
    assert "make gpu-trial STAND_IN=1" in capsys.readouterr().err
    assert not (tmp_path / "trial").exists()


@pytest.mark.parametrize(
    "words", [["--minutes", "1"], ["--minutes", "nan"], ["--keep", "--stand-in"], ["--corpus", "/nowhere"]]
)
def test_what_cannot_be_tried_is_refused_before_anything_runs(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as refused:
        gpu_trial.main([*words, "--out", str(tmp_path / "trial")])
    assert refused.value.code == 2
    assert not (tmp_path / "trial").exists()


def test_a_folder_of_another_trial_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    assert gpu_trial.main(["--stand-in", "--out", str(tmp_path)]) == 2
    assert (tmp_path / "report.json").read_text() == "{}"


def test_a_step_that_is_cut_off_loses_itself_alone(tmp_path: Path) -> None:
    """What it has written until then counts, and the report is there after each step."""
    trial = Trial(tmp_path, stand_in=True, minutes=60, found=[])
    wrote = f"import pathlib, time; pathlib.Path({str(tmp_path / 'out.json')!r}).write_text('[1]'); time.sleep(600)"
    with ThreadPoolExecutor(1) as thread:
        cut = thread.submit(gpu_report.run, step("long", wrote), tmp_path, limit=6.0)
        trial.take(step("short", "pass"), 60)
        result = cut.result()
    assert (result["ok"], result["exit_code"], result["result"]["cases"]) == (False, 124, [1])
    assert [each["name"] for each in json.loads((tmp_path / "report.json").read_text())["steps"]] == ["short"]


def test_a_step_for_which_no_time_is_left_is_named(tmp_path: Path) -> None:
    trial = Trial(tmp_path, stand_in=True, minutes=2, found=[], began=time.monotonic() - 118)
    assert trial.take(step("late", "raise SystemExit('it ran')"), 60) is None
    assert trial.left_out == ["late: the 2 minutes were over"]


def test_who_is_ready_is_timed_while_others_still_compile_once_their_time_is_over(tmp_path: Path) -> None:
    trial = Trial(tmp_path, stand_in=True, minutes=60, found=[])
    running: dict[str, Future[dict[str, Any] | None]] = {name: Future() for name in ("slow", "first", "second")}
    (tmp_path / "second.ready").touch()
    (tmp_path / "first.ready").touch()
    with ThreadPoolExecutor(1) as thread:
        turns = thread.submit(gpu_trial._give_turns, trial, tmp_path, running, time.monotonic())
        for name in ("first", "second", "slow"):
            if name == "slow":
                (tmp_path / "slow.ready").touch()
            while not (tmp_path / f"{name}.go").exists():
                time.sleep(0.02)
            assert name != "first" or not (tmp_path / "second.go").exists(), "one after the other"
            running[name].set_result(None)
        turns.result()


def test_losses_are_compared_by_their_sum_and_a_case_that_failed_is_far(tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = [{"name": "near", "losses": {"total": 10.1}}, {"name": "failed", "error": "no"}]
    assert gpu_trial.differences({"total": 10.0}, cases) == {"near": pytest.approx(0.01), "failed": float("inf")}


def test_the_busy_share_of_a_part_is_that_of_its_own_stream() -> None:
    """By the stream that features alone keep busy; copies are no kernels."""
    streams = {
        "features": {"Stream #13(Compute)": 0.02, "Stream #14(MemcpyH2D)": 0.5},
        "updates": {"Stream #13(Compute,MemcpyD2D)": 0.3, "Stream #21(Compute)": 0.9},
        "together": {"Stream #13(Compute)": 0.6, "Stream #21(Compute,Memset)": 0.8, "Stream #14(MemcpyH2D)": 1.0},
    }
    trace = {name: {"seconds": 1.0, "busy_seconds": busy} for name, busy in streams.items()}
    shares = gpu_trial.busy_shares({"devices": ["data", "model"], "trace": trace})
    assert shares == {"data_part_busy": 0.6, "model_part_busy": 0.8}
    assert gpu_trial.busy_shares({"devices": ["alone"], "trace": trace}) == {}


def test_runs_on_a_card_share_its_memory_and_the_reference_has_their_clips(tmp_path: Path) -> None:
    place = Place(tmp_path, free_mib=70_000)
    configs = [*place.timed(longer=True).values(), *(case.config for case in place.on_one_device()[:1])]
    configs += [case.config for case in place.on_two_devices()[:1]]
    taken = sum(value for each in configs for name, value in each["training"].items() if name.endswith("_gpu_memory"))
    assert 0 < taken <= 70_000, "all are alive at once"
    rows = {case.config["training"]["batch_size"] for case in [place.reference(), *place.on_one_device()]}
    assert rows == {4}
    assert place.reference().config["training"]["device"] == "cpu"


def test_every_run_on_a_card_is_one_that_the_trainer_takes(tmp_path: Path) -> None:
    """By its settings, and by its placement on one card: the stand-in has few of them."""
    card = Gpu(0, "GPU-0aaa", "NVIDIA H100 80GB HBM3", "00000000:17:00.0", 81559, 80000, (9, 0))
    host = HostDevices(gpus=(card,), cuda_bus_ids=("0000:17:00.0",), cuda_build=True, cores=16)
    place = Place(tmp_path, free_mib=73_000)
    configs = place.timed(longer=True) | {
        case.name: case.config for case in (*place.on_one_device(), *place.on_two_devices())
    }
    strategies = []
    for name, config in configs.items():
        plan = choose(TrainConfig.model_validate({part: config[part] for part in config if part != "xla_flags"}), host)
        assert plan.kind == "gpu", name
        strategies.append(plan.strategy)
    assert {each: strategies.count(each) for each in strategies} == {"split": 3, "single": 11, "mirrored": 1}


@pytest.mark.parametrize(
    ("code", "said", "ok"),
    [(71, "out of memory in step 1", True), (71, "Traceback (most recent call last)", False), (0, "done", False)],
)
def test_a_run_without_memory_has_to_end_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str, ok: bool
) -> None:
    def run(one: Step, folder: Path, **_: Any) -> dict[str, Any]:
        (folder / "log").write_text(said)
        return {
            "name": one.name,
            "ok": False,
            "exit_code": code,
            "seconds": 1.0,
            "log": "log",
            "tail": "",
            "result": {},
        }

    monkeypatch.setattr(gpu_report, "run", run)
    trial = Trial(tmp_path, stand_in=False, minutes=5, found=[])
    gpu_trial._without_memory(trial, tmp_path)
    assert trial.done[gpu_trial.MEMORY]["ok"] is ok


INTERRUPTED = """
import subprocess, sys
from gpu_trial.run import _interrupt
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
try:
    _interrupt()
except KeyboardInterrupt:
    print(child.wait(60))
"""


def test_an_interrupt_ends_what_is_under_way() -> None:
    """In a process of its own: it ends all that its process has started, servers of other tests, too."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{-signal.SIGTERM}\n"
