"""The trace of the fake NVML: a line for each call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from scenario import GpuState, Scenario

if TYPE_CHECKING:
    from tests.unit.nvml.conftest import Host

Start = Callable[..., "Host"]
EXPECTED = [
    ["nvmlInitWithFlags", "-", "0"],
    ["nvmlDeviceGetHandleByIndex_v2", "0", "0"],
    ["nvmlDeviceGetHandleByIndex_v2", "1", "0"],
    ["nvmlDeviceGetFanSpeed", "1", "0"],
    ["nvmlDeviceGetMigMode", "0", "3"],
    ["nvmlSystemGetDriverVersion", "-", "0"],
    ["nvmlShutdown", "-", "0"],
    ["nvmlDeviceGetFanSpeed", "1", "1"],
]


def some_calls(ours: Host) -> None:
    ours.open(2)
    ours.device("FanSpeed", 1)
    ours.code("DeviceGetMigMode", "@0")
    ours.call("SystemGetDriverVersion")
    ours.call("Shutdown")
    ours.code("DeviceGetFanSpeed", "@1")


def lines(trace: Path) -> list[list[str]]:
    return [line.split() for line in trace.read_text().splitlines()]


def test_each_call_is_a_line_with_its_time_gpu_and_code(host: Start, tmp_path: Path) -> None:
    scenario = Scenario([GpuState.consumer(0), GpuState.default(1)])
    some_calls(host(scenario, NVML_FAKE_TRACE=str(tmp_path / "trace")))
    found = lines(tmp_path / "trace")
    assert [line[1:] for line in found] == EXPECTED
    times = [int(line[0]) for line in found]
    assert times == sorted(times)
    assert times[-1] - times[0] < 60e6


def test_the_scenario_may_name_the_trace_and_turn_it_off(host: Start, tmp_path: Path) -> None:
    gpus = [GpuState.consumer(0), GpuState.default(1)]
    ours = host(Scenario(gpus, trace=tmp_path / "trace"))
    some_calls(ours)
    Scenario(gpus).write(ours.path)
    ours.call("Init")
    assert [line[1:] for line in lines(tmp_path / "trace")] == EXPECTED


def test_without_a_trace_nothing_is_written(host: Start, tmp_path: Path) -> None:
    some_calls(host(Scenario([GpuState.consumer(0), GpuState.default(1)])))
    assert [path.name for path in tmp_path.iterdir()] == ["scenario"]
