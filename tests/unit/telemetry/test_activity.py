"""Activity of a GPU's parts (GPM): means between samples, integrals, cards and modes that do not tell it."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from exporters import exporter
from fake_driver import FakeDriver
from scenario import GpuState, MigInstance, Scenario, wave

Start = Callable[..., Any]
MIB = 1024 * 1024
NO_PERMISSION, IN_USE = 4, 19


def activity(told: dict[str, Any], gpu: int = 0) -> dict[str, dict[str, float]]:
    """Activity of a GPU in a snapshot; empty while it does not answer."""
    reading = told["gpus"].get(str(gpu), {}).get("reading")
    found: dict[str, dict[str, float]] = reading["activity"] if reading else {"parts": {}, "links": {}, "totals": {}}
    return found


def test_the_parts_of_a_newer_card_tell_what_they_do(sampling: Start) -> None:
    with sampling(Scenario([GpuState.default(0)])) as sampler:
        told = sampler.until(lambda told: activity(told)["parts"])
    found = activity(told)
    assert found["parts"] == pytest.approx({"sm": 0.64, "occupancy": 0.38, "tensor": 0.29, "dram": 0.46})
    assert found["links"] == pytest.approx(
        {
            "pcie_transmit": 1907 * MIB,
            "pcie_receive": 2861 * MIB,
            "nvlink_receive": 4883 * MIB,
            "nvlink_transmit": 3906 * MIB,
        }
    )
    assert told["errors"] == {}


def test_a_wave_is_integrated_whole(sampling: Start) -> None:
    """No moment of a reading can alias it: half of the time at 0.9 and half at 0.1 is 0.5, however it is looked at."""
    gpu = GpuState.default(0, gpm_sm=wave((90, 0.07), (10, 0.07)))
    with sampling(Scenario([gpu], epoch=time.time())) as sampler:
        first = sampler.until(lambda told: activity(told)["totals"])
        last = sampler.until(lambda told: activity(told)["totals"].get("activity_occupancy", 0) > 0.8)
    one, other = activity(first)["totals"], activity(last)["totals"]
    seconds = (other["activity_occupancy"] - one["activity_occupancy"]) / 0.38
    assert other["activity_sm"] - one["activity_sm"] == pytest.approx(0.5 * seconds, rel=0.05)


@pytest.mark.parametrize(
    "gpu",
    [
        GpuState.consumer(0),
        GpuState.volta(0),
        GpuState.default(0, mig=1, mig_instances={0: MigInstance("MIG-1")}),
        GpuState.default(0, codes={"nvmlGpmSampleGet": NO_PERMISSION}),
        GpuState.default(0, codes={"nvmlGpmSampleGet": IN_USE}),
    ],
    ids=["consumer", "older", "MIG", "not allowed", "in use"],
)
def test_what_a_card_does_not_tell_is_absent_without_a_word(sampling: Start, gpu: GpuState) -> None:
    with sampling(Scenario([gpu, GpuState.default(1)])) as sampler:
        told = sampler.until(lambda told: activity(told, 1)["parts"])
    assert activity(told) == {"parts": {}, "links": {}, "totals": {}}
    assert (told["errors"], told["gpus"]["0"]["up"]) == ({}, True)


def test_one_metric_that_is_missing_takes_no_other_with_it(sampling: Start) -> None:
    with sampling(Scenario([GpuState.default(0, gpm_nvlink_tx=None, gpm_nvlink_rx=None)])) as sampler:
        told = sampler.until(lambda told: activity(told)["parts"])
    assert set(activity(told)["links"]) == {"pcie_transmit", "pcie_receive"}


def test_a_driver_that_is_restarted_leaves_no_sample_behind(sampling: Start, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    host = Scenario([GpuState.default(0), GpuState.default(1)], trace=trace)
    with sampling(host) as sampler:
        sampler.until(lambda told: activity(told)["parts"] and activity(told, 1)["parts"])
        sampler.change(host.losing(1))
        sampler.until(lambda told: not told["gpus"]["1"]["up"])
        sampler.change(host.returning(1))
        sampler.until(lambda told: activity(told, 1)["parts"])
    calls = Counter(re.findall(r" (nvmlGpmSample(?:Alloc|Free)) ", trace.read_text(encoding="utf-8")))
    assert calls["nvmlGpmSampleAlloc"] >= 6
    assert calls["nvmlGpmSampleAlloc"] - calls["nvmlGpmSampleFree"] <= 4


def test_the_exporter_counts_the_seconds_and_the_bytes(driver: FakeDriver) -> None:
    host = Scenario([GpuState.default(0), GpuState.consumer(1)])
    with exporter(driver.environment_of(host)) as exporting:

        def told(name: str, label: str) -> set[tuple[str, str]]:
            """GPU and label of each series that has counted something."""
            series = [(dict(labels), value) for (each, labels), value in exporting.series().items() if each == name]
            return {(labels["gpu"], labels[label]) for labels, value in series if value > 0}

        parts = {("0", part) for part in ("sm", "occupancy", "tensor", "dram")}
        paths = {("0", f"{link}_{way}") for link in ("pcie", "nvlink") for way in ("transmit", "receive")}
        exporting.until(lambda: told("voxyard_gpu_activity_seconds_total", "part") == parts)
        exporting.until(lambda: told("voxyard_gpu_moved_bytes_total", "path") == paths)
