"""Proof by TensorFlow itself: features run on the data device, training on the model device, at the same time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from runs import environment

PLACED = re.compile(r"(\S+): \((\w+)\): /job:localhost/replica:0/task:0/device:(CPU:\d)")


@pytest.fixture(scope="module")
def probe(
    tones: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, list[list[int]]], Counter[tuple[str, str]]]:
    """Intervals of the functions, and the number of operations of each kind on each device."""
    out = tmp_path_factory.mktemp("probe") / "intervals.json"
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("placement_probe.py")), str(tones), "10", str(out)],
        capture_output=True, text=True, timeout=300, env=environment(TF_CPP_MIN_LOG_LEVEL="0"), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    placed = Counter((kind, device) for _, kind, device in PLACED.findall(done.stderr + done.stdout))
    return json.loads(out.read_text(encoding="utf-8")), placed


def test_the_spectrogram_is_computed_on_the_data_device_only(probe):
    _, placed = probe
    assert placed["RFFT", "CPU:0"] > 0
    assert placed["RFFT", "CPU:1"] == 0


def test_the_weights_are_updated_on_the_model_device_only(probe):
    _, placed = probe
    assert placed["AssignSubVariableOp", "CPU:1"] + placed["AssignVariableOp", "CPU:1"] > 0
    assert placed["AssignSubVariableOp", "CPU:0"] == 0


def test_features_and_training_overlap_in_time(probe):
    """While a step trains, the features of a later batch are computed."""
    times, _ = probe
    assert len(times["update"]) >= 8
    assert len(times["features"]) >= 3
    together = sum(
        max(0, min(end, other_end) - max(begin, other_begin))
        for begin, end in times["features"]
        for other_begin, other_end in times["update"]
    )
    computing = sum(end - begin for begin, end in times["features"])
    assert together > 0.2 * computing, "by turns, none of it would"


def test_a_batch_goes_to_the_model_device_as_one_tensor_inside_a_compiled_function(probe):
    """Each copy onto a GPU waits for the steps handed over before it: one a batch, and none outside a function."""
    times, _ = probe
    assert len(times["features"]) >= 3
    assert abs(len(times["sent"]) - len(times["features"])) <= 2  # the first and the last batch of the trace are cut
    assert abs(len(times["copy"]) - 2 * len(times["features"])) <= 3  # onto the data device, onto the model device
    assert not times["alone"]
