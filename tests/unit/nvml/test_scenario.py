"""The scenario of the fake NVML: what it may say, values that change with time, and its change under a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from eventually import eventually
from scenario import GpuState, Scenario, counter, wave

if TYPE_CHECKING:
    from tests.unit.nvml.conftest import Host

Start = Callable[..., "Host"]
UNKNOWN = 999


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("gpu.0.utilisation = 5", "no such key of a GPU"),
        ("speed = 5", "no such key"),
        ("gpu.0.power", "expected key = value"),
        ("gpu.0.power = much", "expected a number"),
        ("gpu.0.power = 5x", "more than 0 seconds"),
        ("gpu.0.power = 5+5", "expected START+RATE/s"),
        ("gpu.1.name = second", "gpu.1.uuid is missing"),
        ("gpu.0.pci_bus_id = here", "gpu.0.pci_bus_id: expected"),
        ("gpu.99.uuid = x", "too many GPUs"),
        ("code.nvmlDeviceGetSpeed = 3", "no such function"),
        ("latency_us.nvmlDeviceGetSpeed = 3", "no such function"),
        ("gpu.0.process.1 = python", "expected BYTES NAME"),
        ("gpu.0.nvlink.0 = there", "expected down"),
        ("xid.1 = 79", "expected GPU XID"),
        ("topology.0 = 10", "expected topology.GPU.GPU"),
        ("init = soon", "expected a whole number"),
    ],
)
def test_a_mistake_in_the_scenario_is_said_and_nothing_works(host: Start, line: str, complaint: str) -> None:
    ours = host(Scenario([GpuState.default(0)]))
    ours.path.write_text(Scenario([GpuState.default(0)]).text() + line + "\n")
    assert ours.code("Init") == UNKNOWN
    assert complaint in ours.finish()


def test_comments_and_blank_lines_say_nothing(host: Start) -> None:
    ours = host(Scenario([]))
    ours.path.write_text("# a comment\n\n  # another\n" + Scenario([GpuState.default(0)]).text())
    assert ours.open(1).call("DeviceGetCount") == 1


def test_without_a_scenario_nothing_works(host: Start) -> None:
    ours = host(Scenario([]))
    ours.path.unlink()
    assert ours.code("Init") == UNKNOWN
    assert "there is no scenario" in ours.finish()


def test_a_wave_takes_turns_from_the_scenarios_epoch(host: Start) -> None:
    period, busy = 1.0, 0.25
    began = time.time() - 1000 * period
    wavy = GpuState.default(0, power=wave((90, busy), (5, period - busy)))
    ours = host(Scenario([wavy], epoch=began)).open(1)
    told = set()
    for _ in range(150):  # longer than a period
        power = ours.device("PowerUsage", 0)
        before, after = ours.before - began, ours.now - began
        turn = int(before / period)
        if before > turn * period + 1e-5 and after < turn * period + busy:
            told.add((90, power))
        elif before > turn * period + busy + 1e-5 and after < (turn + 1) * period:
            told.add((5, power))
        time.sleep(0.01)
    assert told == {(90, 90), (5, 5)}


def test_a_counter_grows_at_its_rate_and_goes_on_in_the_next_process(host: Start) -> None:
    began = time.time() - 100
    scenario = Scenario([GpuState.default(0, energy=counter(1_000_000, 50_000))], epoch=began)
    for _ in range(2):
        ours = host(scenario).open(1)
        before = time.time()
        energy = ours.device("TotalEnergyConsumption", 0)
        assert 1_000_000 + 50_000 * (before - began) - 1 <= energy <= 1_000_000 + 50_000 * (time.time() - began) + 1


def test_a_change_of_the_scenario_is_seen_by_a_process_that_runs(host: Start) -> None:
    scenario = Scenario([GpuState.default(0, fan=30), GpuState.default(1, fan=30)])
    ours = host(scenario).open(2)
    assert ours.device("FanSpeed", 1) == 30
    for fan in (31, 32, 33):
        scenario.with_gpu(1, fan=fan).write(ours.path)
        eventually(lambda fan=fan: ours.device("FanSpeed", 1) == fan)  # type: ignore[misc]
    assert ours.device("FanSpeed", 0) == 30


def test_changes_do_not_change_the_scenario_they_were_made_from() -> None:
    scenario = Scenario([GpuState.default(0)])
    text = scenario.text()
    changed = scenario.with_gpu(0, fan=1).losing(0).raising(0, 79).driver_restarted()
    assert scenario.text() == text
    assert {"gpu.0.fan = 1", "gpu.0.lost = 1", "xid.1 = 0 79", "driver_generation = 1"} <= set(
        changed.text().splitlines()
    )
