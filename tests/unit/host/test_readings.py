"""Readings of GPUs and their means over a run, through the real nvidia-ml-py on a libnvidia-ml of our own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from fake_driver import FakeDriver

WATCH = """
import json, time
from voxyard.host import HostError, gpus
from voxyard.telemetry.gpu_watch import GpuWatch
roles = {roles}
try:
    watch = GpuWatch(list(zip(roles, gpus())), interval=0.01)
    if {ended}:
        watch._sampler._ended.set()
    with watch:
        while len(watch.readings) < {readings}:
            time.sleep(0.001)
    print(json.dumps([watch.utilization(), watch.power_watts(), len(watch.readings)]))
except HostError as error:
    print(json.dumps(str(error)))
"""


def watch(driver: FakeDriver, roles: list[str], readings: int = 3, ended: bool = False, **first: str) -> Any:
    """Utilization, power and the count of readings of a run that ends after so many, however long they take."""
    cards = [driver.gpu("17:00.0", **first), driver.gpu("65:00.0")][: len(roles)]
    program = WATCH.format(roles=roles, readings=readings, ended=ended)
    done = subprocess.run(
        [sys.executable, "-c", program], env=driver.environment(cards), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_each_role_has_the_utilization_of_its_gpu(driver: FakeDriver) -> None:
    """T19: data and model GPU, and the power of both."""
    utilization, power, readings = watch(driver, ["data", "model"])
    assert utilization == {"data": pytest.approx(0.4), "model": pytest.approx(0.5)}
    assert power == pytest.approx(300)
    assert readings >= 3


def test_replicas_are_as_busy_as_the_least_busy_of_them(driver: FakeDriver) -> None:
    assert watch(driver, ["model", "model"])[0] == {"model": pytest.approx(0.4)}


def test_what_a_card_does_not_report_is_not_measured(driver: FakeDriver) -> None:
    utilization, power, _ = watch(driver, ["model"], total="-")
    assert (utilization, power) == ({"model": None}, None)


def test_without_gpus_nothing_is_watched(driver: FakeDriver) -> None:
    assert watch(driver, [], readings=0) == [{}, None, 0]


def test_a_run_that_ends_before_its_watch_has_begun_was_looked_at_once(driver: FakeDriver) -> None:
    seen = watch(driver, ["model"], readings=0, ended=True)
    assert seen == [{"model": pytest.approx(0.4)}, pytest.approx(100), 1]
