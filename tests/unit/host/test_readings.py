"""Readings of GPUs and their means over a run, through the real nvidia-ml-py on a libnvidia-ml of our own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pynvml
import pytest
from fake_driver import FakeDriver

from voxyard.host import readings
from voxyard.host.readings import UnwrappedCounter

WATCH = """
import json, time
from voxyard.host.errors import HostError
from voxyard.host.nvml import gpus
from voxyard.telemetry.gpu_watch import GpuWatch
roles = {roles}
try:
    watch = GpuWatch(list(zip(roles, gpus())), interval=0.01)
    if {ended}:
        watch._sampler._ended.set()
    with watch:
        while watch.passes < {readings}:
            time.sleep(0.001)
    print(json.dumps([watch.utilization(), watch.power_watts(), watch.passes]))
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
    """Data and model GPU, and the power of both."""
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


def counted(moved: list[float], *, bits: int, seconds: float = 1.0, most: float = 63e9, error: float = 1.0) -> float:
    """Growth of the counter over passes that each moved so many bytes; the driver's rate is off by `error`."""
    now, raw = 0.0, 123.0
    counter = UnwrappedCounter(lambda: now)
    first = total = counter.add(raw, most, lambda: 0.0)
    for each in moved:
        now += seconds
        raw = (raw + each) % 2**bits
        total = counter.add(raw, most, lambda each=each: each / seconds * error)  # type: ignore[misc]
    return total - first


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("bytes_moved", [0.0, 1e6, 3e9, 4.2e9, 12e9, 60e9])
def test_a_byte_counter_grows_by_what_was_moved_however_often_it_wraps(bits: int, bytes_moved: float) -> None:
    assert counted([bytes_moved] * 20, bits=bits) == 20 * bytes_moved


def test_a_rate_that_is_a_little_off_costs_no_byte() -> None:
    assert counted([12e9] * 20, bits=32, error=1.1) == counted([12e9] * 20, bits=32, error=0.9) == 240e9


def test_the_rate_is_not_asked_for_where_the_link_cannot_wrap_the_counter() -> None:
    def never() -> float:
        raise AssertionError

    counter = UnwrappedCounter(iter([0.0, 1.0, 2.0]).__next__)
    assert [counter.add(raw, 4e9, never) for raw in (4e9, 4.2e9, 1e9)] == [4e9, 4.2e9, 1e9 + 2**32]


def test_a_wide_counter_that_begins_again_was_reset() -> None:
    counter = UnwrappedCounter(iter([0.0, 1.0]).__next__)
    assert [counter.add(raw, 0.0, lambda: None) for raw in (9e12, 5e9)] == [9e12, 9e12 + 5e9]


def test_what_slows_a_clock_has_the_bit_that_nvidias_binding_gives_it() -> None:
    """`reliability` and `board_limit` are in nvml.h alone; NVIDIA's own `hw_power_brake` has a longer name."""
    bits = {
        name.removeprefix("nvmlClocksEventReason"): getattr(pynvml, name)
        for name in dir(pynvml)
        if name.startswith("nvmlClocksEventReason")
    }
    for reason, bit in readings._CLOCK_EVENTS.items():
        words = "".join(word.capitalize() for word in reason.split("_"))
        known = [value for name, value in bits.items() if name.startswith(words) and name != "All"]
        assert known in ([bit], []), reason
    assert {1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100} <= set(readings._CLOCK_EVENTS.values())
