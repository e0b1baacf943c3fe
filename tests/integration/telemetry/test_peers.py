"""Unmodified peers on the same library: what nvitop-exporter says too agrees; promtool finds nothing."""

from __future__ import annotations

import http.client
import subprocess
import time

import pytest
from eventually import PATIENCE, eventually
from exporters import BIN, Series, exporter, parse
from fake_driver import FakeDriver
from free_ports import free_port
from scenario import GpuState, Scenario

MIB = 1 << 20
SAME = {  # theirs → ours, with further labels, and the factor from their unit to ours
    "gpu_utilization_Percentage": ("voxyard_gpu_utilization_ratio", {}, 0.01),
    "gpu_memory_utilization_Percentage": ("voxyard_gpu_memory_activity_ratio", {}, 0.01),
    "gpu_encoder_utilization_Percentage": ("voxyard_gpu_encoder_utilization_ratio", {}, 0.01),
    "gpu_decoder_utilization_Percentage": ("voxyard_gpu_decoder_utilization_ratio", {}, 0.01),
    "gpu_memory_total_MiB": ("voxyard_gpu_memory_size_bytes", {}, MIB),
    "gpu_memory_used_MiB": ("voxyard_gpu_memory_used_bytes", {}, MIB),
    "gpu_memory_free_MiB": ("voxyard_gpu_memory_free_bytes", {}, MIB),
    "gpu_clock_sm_MHz": ("voxyard_gpu_clock_hertz", {"clock": "sm"}, 1e6),
    "gpu_clock_memory_MHz": ("voxyard_gpu_clock_hertz", {"clock": "memory"}, 1e6),
    "gpu_clock_graphics_MHz": ("voxyard_gpu_clock_hertz", {"clock": "graphics"}, 1e6),
    "gpu_clock_video_MHz": ("voxyard_gpu_clock_hertz", {"clock": "video"}, 1e6),
    "gpu_power_usage_W": ("voxyard_gpu_power_watts", {}, 1),
    "gpu_power_limit_W": ("voxyard_gpu_power_limit_watts", {}, 1),
    "gpu_temperature_C": ("voxyard_gpu_temperature_celsius", {}, 1),
    "gpu_fan_speed_Percentage": ("voxyard_gpu_fan_speed_ratio", {}, 0.01),
}


def theirs(environment: dict[str, str], gpus: int) -> Series:
    """A scrape of nvitop-exporter after a few of its passes."""
    port = free_port()
    command = [str(BIN / "nvitop-exporter"), "--bind-address", "127.0.0.1", "--port", str(port), "--interval", "0.5"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:

            def told() -> bool:
                assert process.poll() is None, "nvitop-exporter ended"
                return sum(name == "gpu_fan_speed_Percentage" for name, _ in _scrape(port)) == gpus

            eventually(told, "nvitop-exporter tells of all GPUs", every=0.2)
            time.sleep(2)
            return _scrape(port)
        finally:
            process.kill()


def _scrape(port: int) -> Series:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/metrics")
        return parse(connection.getresponse().read().decode())
    except OSError:
        return {}
    finally:
        connection.close()


def different_cards() -> Scenario:
    return Scenario(
        [
            GpuState.default(0, utilization=81, encoder=7),
            GpuState.default(1, utilization=33, power=123_456, temperature=44, clock_video=600),
            GpuState.consumer(2, memory_used=3 << 30, fan=77),
        ]
    )


def test_what_both_export_agrees(driver: FakeDriver) -> None:
    environment = driver.environment_of(different_cards())
    with exporter(environment) as running:
        running.until(lambda: running.value("voxyard_gpu_busy_seconds_total", gpu="2"))
        others = theirs(environment, gpus=3)
        time.sleep(1)
        ours = running.series()
    compared = 0
    for (name, labels), value in others.items():
        if name not in SAME:
            continue
        our_name, more, factor = SAME[name]
        uuid = dict(labels)["uuid"]
        (mine,) = [
            mine
            for (each, mine_labels), mine in ours.items()
            if each == our_name and {("uuid", uuid), *more.items()} <= mine_labels
        ]
        assert mine == pytest.approx(value * factor, rel=1e-6), (name, uuid)
        compared += 1
    assert compared == 3 * len(SAME)


def test_promtool_finds_nothing(driver: FakeDriver, promtool: str) -> None:
    with exporter(driver.environment_of(different_cards()), "--processes") as running:
        running.until(lambda: running.value("voxyard_gpu_busy_seconds_total", gpu="2"))
        text = running.get()[1]
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_gpustat_runs_on_the_same_library(driver: FakeDriver) -> None:
    told = subprocess.run(
        [str(BIN / "gpustat"), "--no-color"],
        env=driver.environment_of(different_cards()),
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    assert "33 %" in told.stdout
