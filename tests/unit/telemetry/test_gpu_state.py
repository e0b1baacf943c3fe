"""GPU liveness: the effect of refusals of all calls, pass by pass."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import cast

import pytest
from readings import reading

from voxyard.host.nvml import Gpu
from voxyard.telemetry.gpu_collector import GpuCollector
from voxyard.telemetry.gpu_state import KnownGpu
from voxyard.telemetry.sampler import GpuSampler, GpuState, Snapshot

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


class Sampled:
    """A sampler whose latest pass found this."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def age(self) -> float:
        return 0.0

    def stale_after(self) -> float:
        return 10.0


def test_the_age_of_an_xid_does_not_depend_on_the_hosts_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    known = after("a")
    monkeypatch.setattr(time, "time", lambda: 7.0)  # a clock that is decades behind
    known.count_xid(79)
    state = GpuState(known.gpu, True, known.reading, 0.5, 1.0, known.xids)
    later = known.xids[79].monotonic + 42
    snapshot = Snapshot(1e9, later, True, 1e9, 0.01, (state,), {}, None, None, {})
    (age,) = [
        sample
        for family in GpuCollector(cast("GpuSampler", Sampled(snapshot))).collect()
        for sample in family.samples
        if sample.name == "voxyard_gpu_xid_age_seconds"
    ]
    assert age.labels == {"uuid": "GPU-3", "gpu": "3", "xid": "79"}
    assert age.value == pytest.approx(42)


@pytest.mark.parametrize(("last", "ages"), [(None, []), (100.0, [300.0])])
def test_the_age_of_the_latest_good_pass_does_not_depend_on_the_hosts_clock(
    last: float | None, ages: list[float]
) -> None:
    snapshot = Snapshot(7.0, 400.0, False, last, 0.01, (), {}, None, None, {}, last_success_monotonic=last)
    families = GpuCollector(cast("GpuSampler", Sampled(snapshot))).collect()
    assert [each.samples[0].value for each in families if each.name.endswith("success_age_seconds")] == ages
