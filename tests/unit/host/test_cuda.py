"""CUDA's device order through ctypes, on a libcuda of our own."""

from __future__ import annotations

import json
import subprocess
import sys

from fake_driver import FakeDriver

ASK = """
import json
from voxyard.host.cuda import cuda_bus_ids
from voxyard.host.errors import HostError
try:
    print(json.dumps(cuda_bus_ids()))
except HostError as error:
    print(json.dumps(str(error)))
"""


def ask(environment: dict[str, str]) -> object:
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_bus_ids_come_in_the_order_of_the_process(driver: FakeDriver) -> None:
    """The order that CUDA_DEVICE_ORDER asks for is the one that is seen."""
    two = [driver.gpu("17:00.0"), driver.gpu("65:00.0")]
    assert ask(driver.environment(two, CUDA_DEVICE_ORDER="PCI_BUS_ID")) == ["0000:17:00.0", "0000:65:00.0"]
    assert ask(driver.environment(two, CUDA_DEVICE_ORDER="FASTEST_FIRST")) == ["0000:65:00.0", "0000:17:00.0"]


def test_hidden_devices_are_not_listed(driver: FakeDriver) -> None:
    two = [driver.gpu("17:00.0"), driver.gpu("65:00.0")]
    environment = driver.environment(two, CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES="1")
    assert ask(environment) == ["0000:65:00.0"]


def test_a_driver_without_devices_lists_none(driver: FakeDriver) -> None:
    assert ask(driver.environment([], CUDA_STUB_INIT="100")) == []


def test_a_host_without_a_driver_lists_none(driver: FakeDriver) -> None:
    environment = driver.environment([]) | {"LD_LIBRARY_PATH": "/nonexistent"}
    assert ask(environment) == []


def test_a_failing_driver_is_an_error_in_its_own_words(driver: FakeDriver) -> None:
    said = ask(driver.environment([], CUDA_STUB_INIT="803"))
    assert isinstance(said, str)
    assert "unsupported display driver" in said
    assert "803" in said
