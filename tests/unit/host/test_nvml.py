"""The host's GPUs through the real nvidia-ml-py, on a libnvidia-ml of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from fake_driver import FakeDriver
from scenario import GpuState, Process, Scenario

from voxyard.host.nvml import gpus, same_bus

ASK = """
import dataclasses, json
from voxyard.host.errors import HostError
from voxyard.host.nvml import gpus
try:
    print(json.dumps([dataclasses.asdict(gpu) for gpu in gpus()]))
except HostError as error:
    print(json.dumps(str(error)))
"""


def ask(environment: dict[str, str]) -> Any:
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_every_gpu_is_read_with_its_figures(driver: FakeDriver) -> None:
    """Index, UUID and bus id are NVML's."""
    two = [driver.gpu("17:00.0"), driver.gpu("65:00.0", name="NVIDIA A10", total="23028", free="100")]
    first, second = ask(driver.environment(two))
    assert first["index"] == 0
    assert first["pci_bus_id"] == "00000000:17:00.0"
    assert first["compute_capability"] == [8, 9]
    assert second["uuid"].startswith("GPU-00000001")
    assert (second["name"], second["memory_total_mib"], second["memory_free_mib"]) == (
        "NVIDIA A10",
        23028,
        100,
    )


@pytest.mark.parametrize("memory", ["-", "0"])  # GB10 shares the host's: refused, or a total of 0
def test_what_a_card_does_not_report_is_absent(driver: FakeDriver, memory: str) -> None:
    (gpu,) = ask(driver.environment([driver.gpu("17:00.0", total=memory, free=memory, capability="-")]))
    assert gpu["memory_total_mib"] is gpu["memory_free_mib"] is gpu["compute_capability"] is None


def test_a_driver_that_is_not_loaded_means_no_gpus(driver: FakeDriver) -> None:
    assert ask(driver.environment([], nvml_init=9)) == []


@pytest.mark.parametrize("code", [18, 999])
def test_a_broken_driver_is_an_error_in_its_own_words(driver: FakeDriver, code: int) -> None:
    said = ask(driver.environment([], nvml_init=code))
    assert isinstance(said, str)
    assert {18: "version mismatch", 999: "Unknown Error"}[code] in said


def test_a_lost_gpu_is_an_error_not_a_shorter_list(driver: FakeDriver) -> None:
    said = ask(driver.environment([driver.gpu("17:00.0"), driver.gpu("65:00.0", uuid="!")]))
    assert isinstance(said, str)
    assert "GPU is lost" in said


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="this host has an NVIDIA driver")  # noqa: PTH110
def test_no_driver_at_all_means_no_gpus() -> None:
    assert gpus() == ()


def test_bus_ids_are_one_whatever_the_width_of_their_domain() -> None:
    """NVML writes 00000000:65:00.0 where CUDA writes 0000:65:00.0."""
    assert same_bus("00000000:AF:00.0", "0000:af:00.0")
    assert not same_bus("00000000:AF:00.0", "0001:AF:00.0")
    assert not same_bus("00000000:AF:00.0", "0000:AE:00.0")
    assert not same_bus("00000000:AF:00.0", "0000:AF:00.1")


def test_processes_that_hold_a_gpus_memory_are_found_by_its_index(driver: FakeDriver) -> None:
    holders = [Process(41, 5 << 30, "/usr/bin/python3"), Process(42, None, "/usr/bin/unknown-size")]
    scenario = Scenario([GpuState.default(0), GpuState.default(1, processes=holders)])
    program = "from voxyard.host.readings import processes_on; print(*map(processes_on, (0, 1, 7)), sep='\\n')"

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=driver.environment_of(scenario), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.splitlines() == [
        "()",
        "(Process(pid=41, name='python3', memory_bytes=5368709120),)",
        "()",
    ]
