"""Killed, stopped and damaged runs: what is resumed ends exactly where the undisturbed run ends."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from forked import run_forked
from runs import command, environment

from voxyard.trainer import checkpoint

STEPS = 60


def weights(directory: Path) -> tuple[int, dict[str, np.ndarray]]:
    found = checkpoint.newest_good(directory)
    assert found is not None
    return found.step, dict(found.state)


def assert_bitwise_equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    different = [name for name in one if one[name].tobytes() != other[name].tobytes()]
    assert not different


def start(arguments: list[object]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    )


def wait_for_step(directory: Path, step: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        newest = checkpoint.newest(directory)
        if newest is not None and int(newest.name.removeprefix("step-")) >= step:
            return
        time.sleep(0.01)
    raise AssertionError(f"no checkpoint of step {step}: {process.stderr.read() if process.stderr else ''}")


def test_a_resumed_run_of_two_networks_ends_as_an_undisturbed_one(tones: Path, tmp_path: Path) -> None:
    """Both optimizers go on, and each network's losses are in the report."""
    words = [
        "train", "--device", "cpu", "--data-gpu", 0, "--model-gpu", 1, "--train-data", tones, "--batch-size", 4,
        "--model-module", "toy:make_adversarial", "--num-workers", 1, "--no-tensorboard", "--model-start-delay", 0,
    ]  # fmt: skip
    for directory, steps in (("whole", 8), ("parts", 5), ("parts", 8)):
        done = run_forked(
            *words, "--checkpoint-dir", tmp_path / directory, "--max-steps", steps, environment=environment()
        )
        assert done.returncode == 0, done.stderr
    assert_bitwise_equal(weights(tmp_path / "whole")[1], weights(tmp_path / "parts")[1])
    losses = json.loads((tmp_path / "parts/report.json").read_text())["losses"]
    assert {"total", "judge/total", "guess/total", "guess/adversarial"} <= set(losses)


@pytest.fixture(scope="module")
def undisturbed(tones: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    directory = tmp_path_factory.mktemp("undisturbed")
    arguments = [
        "train", "--device", "cpu", "--data-gpu", 0, "--model-gpu", 1, "--train-data", tones, "--batch-size", 4,
        "--model-module", "toy:make", "--model-start-delay", 0.5, "--num-workers", 2, "--no-tensorboard",
        "--checkpoint-dir", directory / "run", "--max-steps", STEPS,
    ]  # fmt: skip
    done = run_forked(*arguments, environment=environment())
    assert done.returncode == 0, done.stderr
    return weights(directory / "run")[1]


def test_a_killed_run_ends_with_the_same_weights_as_the_undisturbed_one(toy, tmp_path, undisturbed, voxyard):
    """SIGKILL at a random step, then resume: bitwise the same on the CPU."""
    every = [*toy, "--max-steps", STEPS, "--checkpoint-every", 2]
    process = start(every)
    wait_for_step(tmp_path / "run", random.SystemRandom().randrange(2, STEPS // 2), process)
    process.kill()
    process.wait()
    step_before, _ = weights(tmp_path / "run")
    done = voxyard(*every)
    assert done.returncode == 0, done.stderr
    assert f"at step {step_before}" in done.stderr
    step, state = weights(tmp_path / "run")
    assert step == STEPS
    assert_bitwise_equal(state, undisturbed)


def test_sigterm_saves_and_exits_0_and_the_rest_is_the_same(toy, tmp_path, undisturbed, voxyard):
    every = [*toy, "--max-steps", STEPS, "--checkpoint-every", 5]
    process = start(every)
    wait_for_step(tmp_path / "run", 5, process)
    process.send_signal(signal.SIGTERM)
    output, messages = process.communicate(timeout=200)
    assert process.returncode == 0, messages
    assert "SIGTERM: saved and stopped" in output
    assert voxyard(*every).returncode == 0
    assert_bitwise_equal(weights(tmp_path / "run")[1], undisturbed)


def test_ctrl_c_saves_and_exits_130(toy, tmp_path):
    every = [*toy, "--max-steps", 100_000, "--checkpoint-every", 5]
    process = start(every)
    wait_for_step(tmp_path / "run", 5, process)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "Traceback" not in messages
    step, _ = weights(tmp_path / "run")
    assert step >= 5


def test_a_checkpoint_cut_in_half_is_refused_by_name_and_the_one_before_is_used(toy, tmp_path, undisturbed, voxyard):
    assert voxyard(*toy, "--max-steps", 40, "--checkpoint-every", 10).returncode == 0
    newest = checkpoint.newest(tmp_path / "run")
    assert newest is not None
    state = newest / checkpoint.STATE
    os.truncate(state, state.stat().st_size // 2)
    done = voxyard(*toy, "--max-steps", STEPS, "--checkpoint-every", 10)
    assert done.returncode == 0
    assert f"{newest} is damaged" in done.stderr
    assert "at step 30" in done.stderr
    assert_bitwise_equal(weights(tmp_path / "run")[1], undisturbed)


def test_a_resume_on_other_data_reports_that_it_is_not_exact(toy, tmp_path, voxyard):
    assert voxyard(*toy, "--max-steps", 4).returncode == 0
    done = voxyard(*toy, "--max-steps", 6, "--seed", 5)
    assert done.returncode == 0
    assert "seed was 0 and is now 5" in done.stderr


def test_a_checkpoint_of_another_model_is_refused_with_the_names(toy, tmp_path, voxyard):
    assert voxyard(*toy, "--max-steps", 4).returncode == 0
    wide = [argument if argument != "toy:make" else "toy:make_wide" for argument in toy]
    done = voxyard(*wide, "--max-steps", 6)
    assert done.returncode == 2
    assert "the checkpoint is of another model" in done.stderr
    assert "hidden" in done.stderr
    assert "Traceback" not in done.stderr


def test_fine_tuning_takes_the_weights_that_fit_and_names_the_others(toy, tmp_path, voxyard):
    """--init-from takes weights only."""
    assert voxyard(*toy, "--max-steps", 4).returncode == 0
    rest = [argument for argument in toy if argument not in ("--checkpoint-dir", tmp_path / "run")]
    wide = ["toy:make_wide" if argument == "toy:make" else argument for argument in rest]
    same = voxyard(*rest, "--checkpoint-dir", tmp_path / "same", "--max-steps", 2, "--init-from", tmp_path / "run")
    other = voxyard(*wide, "--checkpoint-dir", tmp_path / "other", "--max-steps", 2, "--init-from", tmp_path / "run")
    assert (same.returncode, other.returncode) == (0, 0)
    assert "did not match: 0" in same.stderr
    assert "shape of model/" in other.stderr
    assert weights(tmp_path / "same")[0] == 2


def test_fine_tuning_names_a_front_end_that_does_not_match(toy, tmp_path, voxyard):
    """The shapes are the same, and the numbers of letters would be taken for those of sounds."""
    assert voxyard(*toy, "--max-steps", 2).returncode == 0
    rest = [argument for argument in toy if argument not in ("--checkpoint-dir", tmp_path / "run")]
    phonemes = ["--text-units", "phonemes", "--read-words", "--mel-high-hz", 7600]
    other = voxyard(
        *rest, *phonemes, "--checkpoint-dir", tmp_path / "o", "--max-steps", 1, "--init-from", tmp_path / "run"
    )
    assert other.returncode == 0, other.stderr
    assert "did not match: 4" in other.stderr
    assert "model.read_words: False in the checkpoint, True here" in other.stderr
    assert "model.language: None in the checkpoint, en-us here" in other.stderr
    assert "model.text_units: characters in the checkpoint, phonemes here" in other.stderr
    assert "model.mel_high_hz: 8000.0 in the checkpoint, 7600.0 here" in other.stderr


def test_starting_anew_keeps_the_old_checkpoints(toy, tmp_path, voxyard):
    """`--no-resume` starts at step 0 and deletes nothing."""
    assert voxyard(*toy, "--max-steps", 4).returncode == 0
    done = voxyard(*toy, "--max-steps", 2, "--no-resume")
    assert done.returncode == 0
    assert weights(tmp_path / "run")[0] == 2
    assert weights(tmp_path / "run" / "before-1")[0] == 4


def test_a_finished_run_that_is_started_again_has_nothing_to_do(toy, tmp_path, voxyard):
    assert voxyard(*toy, "--max-steps", 4).returncode == 0
    done = voxyard(*toy, "--max-steps", 4)
    assert done.returncode == 0
    assert "Nothing to do" in done.stderr
