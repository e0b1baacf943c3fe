"""Tools of others run unmodified on the fake NVML: nvitop-exporter and gpustat."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from eventually import eventually
from fake_driver import FakeDriver
from free_ports import free_port
from scenario import GIB, GpuState, Process, Scenario


def tool(name: str) -> str:
    found = Path(sys.executable).parent / name
    if not found.exists():
        pytest.skip(f"{name} is missing: pip install {name} (it is one of the extra `dev`)")
    return str(found)


def eight() -> Scenario:
    """Six cards of a server and two of a workstation, told apart by their figures; this process runs on the first."""
    gpus = [GpuState.default(0, processes=[Process(os.getpid(), 3 * GIB)])]
    for index in range(1, 8):
        make = GpuState.default if index < 6 else GpuState.consumer
        gpus.append(make(index, utilization=10 + index, power=100_000 + 1000 * index, temperature=40 + index))
    return Scenario(gpus)


@contextmanager
def nvitop_exporter(environment: dict[str, str], log: Path) -> Iterator[int]:
    port = free_port()
    command = [tool("nvitop-exporter"), "--bind-address", "127.0.0.1", "--port", str(port), "--interval", "0.25"]
    with log.open("w") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process:
        try:
            yield port
        finally:
            process.kill()


def scrape(port: int) -> dict[tuple[str, str], float]:
    """(metric, index of the GPU) → value; empty before the exporter answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        name, brace, rest = line.partition("{")
        if brace and 'index="' in rest and not line.startswith("#"):
            found[name, rest.partition('index="')[2].partition('"')[0]] = float(line.rpartition(" ")[2])
    return found


def test_gpustat_tells_what_the_scenario_holds(driver: FakeDriver) -> None:
    scenario = eight()
    done = subprocess.run(
        [tool("gpustat"), "--json"], env=driver.environment_of(scenario), capture_output=True, text=True, check=True
    )
    gpus = json.loads(done.stdout)["gpus"]
    assert [gpu["uuid"] for gpu in gpus] == [gpu.uuid for gpu in scenario.gpus]
    assert [gpu["utilization.gpu"] for gpu in gpus] == [gpu.utilization for gpu in scenario.gpus]
    assert [gpu["temperature.gpu"] for gpu in gpus] == [gpu.temperature for gpu in scenario.gpus]
    assert [gpu["memory.used"] * 2**20 for gpu in gpus] == [gpu.memory_used for gpu in scenario.gpus]
    assert [(each["pid"], each["gpu_memory_usage"]) for each in gpus[0]["processes"]] == [(os.getpid(), 3072)]


def test_nvitop_exporter_tells_what_the_scenario_holds(driver: FakeDriver, tmp_path: Path) -> None:
    scenario = eight()
    log = tmp_path / "log"
    expected: dict[tuple[str, str], object] = {}
    for index, gpu in enumerate(scenario.gpus):
        figures = {
            "gpu_utilization_Percentage": gpu.utilization,
            "gpu_memory_utilization_Percentage": gpu.memory_activity,
            "gpu_memory_used_MiB": gpu.memory_used / 2**20,  # type: ignore[operator]
            "gpu_power_usage_W": gpu.power / 1000,  # type: ignore[operator]
            "gpu_power_limit_W": gpu.power_limit / 1000,  # type: ignore[operator]
            "gpu_temperature_C": gpu.temperature,
            "gpu_fan_speed_Percentage": gpu.fan,
            "gpu_clock_sm_MHz": gpu.clock_sm,
            "gpu_pcie_tx_throughput_MiBps": gpu.pcie_tx_rate / 1024,  # type: ignore[operator]
        }
        expected |= {(name, str(index)): value for name, value in figures.items()}
    links = {("gpu_nvlink_total_tx_throughput_MiBps", index) for index in ("0", "7")}
    with nvitop_exporter(driver.environment_of(scenario), log) as port:  # which reads each GPU in a thread of its own
        found = eventually(
            lambda: read if (expected.keys() | links) <= (read := scrape(port)).keys() else None, log.read_text
        )
    assert {key: found[key] for key in expected} == expected
    nvlink = {index: found["gpu_nvlink_total_tx_throughput_MiBps", index] for index in ("0", "7")}
    assert nvlink["0"] == pytest.approx(4_000_000 / 1024, rel=0.05)
    assert math.isnan(nvlink["7"])  # a consumer's card has no NVLink
    assert "Traceback" not in log.read_text()
    assert "FunctionNotFound" not in log.read_text()
