"""Trace times beside the profile's: which events count on a GPU, and the whole comparison on the CPU."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace as Made

import pytest
from runs import environment

PROGRAM = Path(__file__).resolve().parents[3] / "tests/bench/profile_trace.py"


def plane(name: str, line: str, *events: tuple[str, int, int]) -> Made:
    """A plane of a trace: (name, begin, duration) in milliseconds."""
    numbered = dict(enumerate(events))
    return Made(
        name=name,
        event_metadata={number: Made(name=each[0]) for number, each in numbered.items()},
        lines=[
            Made(
                name=line, timestamp_ns=10**9,
                events=[
                    Made(metadata_id=number, offset_ps=begin * 10**9, duration_ps=duration * 10**9)
                    for number, (_, begin, duration) in numbered.items()
                ],
            )
        ],
    )  # fmt: skip


@pytest.fixture(scope="module")
def bench() -> dict[str, object]:
    return runpy.run_path(str(PROGRAM))


HOST = plane(
    "/host:CPU", "python", ("voxyard alone", 0, 10), ("voxyard alone", 20, 10), ("voxyard step", 40, 1),
    ("voxyard step", 50, 1), ("EagerLocalExecute: __inference_features_1", 1, 1),
)  # fmt: skip
GPU = plane(
    "/device:GPU:0", "Stream #13(Kernel)", ("fft", 2, 3), ("mel", 6, 2), ("fft", 22, 6), ("late", 32, 1), ("a", 41, 9),
    ("b", 51, 9),
)  # fmt: skip
DERIVED = plane("/device:GPU:0", "XLA Modules", ("all", 0, 60))


def test_on_a_gpu_kernels_and_copies_count_and_summaries_do_not(bench) -> None:
    trace = bench["read_trace"]([HOST, GPU, DERIVED], on_gpu=True)
    assert trace.alone() == pytest.approx([0.006, 0.006])
    assert trace.steps(2) == pytest.approx((60 - 41) / 2 / 1e3)


def test_on_the_cpu_compiled_functions_count(bench) -> None:
    trace = bench["read_trace"]([HOST], on_gpu=False)
    assert trace.alone() == pytest.approx([0.001])


@pytest.mark.long
def test_the_profile_and_the_trace_time_the_same_steps(tones: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    command = [sys.executable, str(PROGRAM), "--smoke", "--corpus", str(tones), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(out.read_text())
    assert found["stand_in"]
    assert set(found["ratios"]) == {"features_vs_trace", "train_vs_trace"}
    for each in found["figures"].values():
        assert 0 < each["trace_seconds"] < 1.5 * each["profile_seconds"]
