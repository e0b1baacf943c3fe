"""GPU liveness: the effect of refusals of all calls, pass by pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
from readings import reading

from voxyard.host.nvml import Gpu
from voxyard.telemetry.gpu_state import KnownGpu

ANSWER = reading(None, 0.5)
SILENCE = replace(reading((), None), refusal="nvmlDeviceGetPowerUsage: Unknown Error, NVML code 999")


def after(*passes: str) -> KnownGpu:
    """A GPU after some passes: `a` in which it answered, `s` in which it refused everything."""
    known = KnownGpu(Gpu(3, "GPU-3", "NVIDIA H100", "00000000:17:00.0", None, None, None))
    for second, each in enumerate("".join(passes)):
        known.take(ANSWER if each == "a" else SILENCE, float(second))
    return known


@pytest.mark.parametrize(
    ("passes", "up"),
    [("a", True), ("as", True), ("ass", True), ("asss", False), ("assa", True), ("assass", True), ("asssa", True),
     ("asssas", True), ("s", False), ("sa", True), ("asss" + 9 * "s", False)],
)  # fmt: skip
def test_three_silent_passes_are_down_and_one_answer_is_up(passes: str, up: bool) -> None:
    known = after(passes)
    assert (known.reading is not None) == up
    assert (known.gpu.problem is None) == up


def test_nothing_old_is_reported_of_a_gpu_that_is_silent_for_a_moment() -> None:
    known = after("as")
    assert known.reading == SILENCE
    assert known.gpu.problem is None


def test_the_log_names_gpu_call_and_code_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        after("aaassssssa")
    assert [record.getMessage() for record in caplog.records] == [
        "GPU 3 (GPU-3) does not answer any more: it refuses every call "
        "(nvmlDeviceGetPowerUsage: Unknown Error, NVML code 999)",
        "GPU 3 (GPU-3) answers again",
    ]
