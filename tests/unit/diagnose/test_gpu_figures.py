"""GPU figures of a profile, through the real nvidia-ml-py on a libnvidia-ml of our own, and without any GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from fake_driver import FakeDriver

from voxyard.diagnose.gpu_figures import gpu_figures
from voxyard.host.nvml import Gpu
from voxyard.telemetry.gpu_watch import GpuWatch

WATCH = """
import json, time
from voxyard.diagnose.gpu_figures import gpu_figures
from voxyard.host.nvml import gpus
from voxyard.telemetry.gpu_watch import GpuWatch
with GpuWatch(list(zip(["data", "model"], gpus())), interval=0.02) as watch:
    while watch.passes < 3:
        time.sleep(0.01)
found = gpu_figures(watch)
print(json.dumps([found.document(), found.utilization("data"), found.utilization("model")]))
"""
CARD = Gpu(0, "GPU-0", "a card", "00000000:17:00.0", 24564, 24000, (8, 9))


def measure(driver: FakeDriver, **first: str) -> Any:
    cards = [driver.gpu("17:00.0", **first), driver.gpu("65:00.0")]
    done = subprocess.run(
        [sys.executable, "-c", WATCH], env=driver.environment(cards), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_each_role_has_utilization_and_memory_of_its_gpu(driver: FakeDriver) -> None:
    document, data, model = measure(driver)
    assert (data, model) == (pytest.approx(0.4), pytest.approx(0.5))
    assert document["missing"] is None
    assert [gpu["role"] for gpu in document["gpus"]] == ["data", "model"]
    assert all(0 < gpu["memory_used"] < gpu["memory_size"] for gpu in document["gpus"])


def test_what_a_card_does_not_report_is_not_measured(driver: FakeDriver) -> None:
    document, data, _ = measure(driver, total="-")
    assert data is None
    assert document["gpus"][0]["utilization"]["count"] == 0
    assert document["gpus"][0]["memory_used"] is None


def test_without_a_gpu_there_is_a_reason_and_no_number() -> None:
    with GpuWatch(()) as watch:
        pass
    found = gpu_figures(watch)
    assert (found.missing, found.gpus, found.utilization("model")) == ("not measured: no GPU", (), None)


def test_monitoring_can_be_turned_off() -> None:
    """--no-gpu-monitoring touches no driver."""
    with GpuWatch([("model", CARD)], enabled=False) as watch:
        pass
    assert gpu_figures(watch).missing == "not measured: --no-gpu-monitoring"
