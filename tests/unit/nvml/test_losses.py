"""Losses on order: GPUs that fall off the bus, drivers that go, codes, and calls that take their time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from eventually import eventually
from scenario import GpuState, Scenario

if TYPE_CHECKING:
    from tests.unit.nvml.conftest import Host

Start = Callable[..., "Host"]
UNINITIALIZED, INVALID, NOT_SUPPORTED, NO_DRIVER, LOST = 1, 2, 3, 9, 15
MISMATCH = 18
TWO = [GpuState.default(0), GpuState.default(1)]


def wait_for_code(ours: Host, code: int, function: str, *arguments: object) -> None:
    eventually(lambda: ours.code(function, *arguments) == code, lambda: ours.code(function, *arguments))


def test_a_lost_gpu_answers_nothing_and_the_other_goes_on(host: Start) -> None:
    scenario = Scenario(TWO)
    ours = host(scenario).open(2)
    scenario.losing(1).write(ours.path)
    wait_for_code(ours, LOST, "DeviceGetPowerUsage", "@1")
    for function in ("UUID", "Name", "MemoryInfo", "UtilizationRates", "PciInfo"):
        assert ours.code(f"DeviceGet{function}", "@1") == LOST
        assert ours.code(f"DeviceGet{function}", "@0") == 0
    assert ours.code("DeviceGetFieldValues", "@1", [83]) == LOST
    assert ours.code("DeviceGetHandleByIndex", 1) == LOST
    assert ours.code("DeviceGetHandleByUUID", TWO[1].uuid) == LOST
    assert ours.code("DeviceGetTopologyCommonAncestor", "@0", "@1") == LOST
    assert ours.call("DeviceGetCount") == 2


def test_a_gpu_that_returns_is_found_by_a_new_session_only(host: Start) -> None:
    scenario = Scenario(TWO)
    ours = host(scenario.losing(1))
    ours.call("Init")
    assert ours.code("DeviceGetHandleByIndex", 1) == LOST
    scenario.returning(1).write(ours.path)
    time.sleep(0.05)  # longer than the library goes without a look at the scenario
    assert ours.code("DeviceGetHandleByIndex", 1) == LOST
    ours.call("Shutdown")
    assert ours.open(2).device("PowerUsage", 1) == TWO[1].power


def test_a_gpu_that_is_added_is_found_by_a_new_session_only(host: Start) -> None:
    ours = host(Scenario(TWO[:1])).open(1)
    Scenario(TWO).write(ours.path)
    wait_for_code(ours, LOST, "DeviceGetHandleByIndex", 1)
    ours.call("Shutdown")
    assert ours.open(2).device("PowerUsage", 1) == TWO[1].power


def test_a_gpu_is_lost_after_so_many_calls(host: Start) -> None:
    ours = host(Scenario(TWO).with_gpu(1, lost_after_calls=5)).open(2)
    assert [ours.code("DeviceGetFanSpeed", "@1") for _ in range(8)] == [0] * 5 + [LOST] * 3
    assert ours.code("DeviceGetFanSpeed", "@0") == 0


@pytest.mark.parametrize("code", [NO_DRIVER, MISMATCH, 999])
def test_a_driver_that_does_not_start_says_so(host: Start, code: int) -> None:
    ours = host(Scenario(TWO, init=code))
    assert ours.code("Init") == code
    assert ours.code("DeviceGetCount") == UNINITIALIZED


def test_a_driver_that_goes_takes_every_session_with_it_until_it_is_back(host: Start) -> None:
    scenario = Scenario(TWO)
    ours = host(scenario).open(2)
    scenario.driver_gone(NO_DRIVER).write(ours.path)
    wait_for_code(ours, NO_DRIVER, "DeviceGetPowerUsage", "@0")
    assert ours.code("DeviceGetCount") == NO_DRIVER
    assert ours.code("Init") == NO_DRIVER
    scenario.driver_restarted().write(ours.path)
    wait_for_code(ours, UNINITIALIZED, "DeviceGetPowerUsage", "@0")
    assert ours.open(2).device("PowerUsage", 0) == TWO[0].power


def test_a_driver_restarted_between_two_calls_is_another_driver(host: Start) -> None:
    scenario = Scenario(TWO)
    ours = host(scenario).open(2)
    scenario.driver_restarted().write(ours.path)
    wait_for_code(ours, UNINITIALIZED, "DeviceGetPowerUsage", "@0")
    assert ours.code("Shutdown") == UNINITIALIZED
    assert ours.open(2).device("PowerUsage", 0) == TWO[0].power


def test_sessions_are_counted(host: Start) -> None:
    ours = host(Scenario(TWO)).open(2)
    ours.call("Init")
    ours.call("Shutdown")
    assert ours.code("DeviceGetFanSpeed", "@0") == 0
    ours.call("Shutdown")
    assert ours.code("DeviceGetFanSpeed", "@0") == UNINITIALIZED
    assert ours.code("Shutdown") == UNINITIALIZED


def test_a_return_code_is_ordered_for_one_gpu_or_for_all(host: Start) -> None:
    gpus = [TWO[0], GpuState.default(1, codes={"nvmlDeviceGetFanSpeed": 999})]
    ours = host(Scenario(gpus, codes={"nvmlDeviceGetName": 4, "nvmlSystemGetDriverVersion": 17})).open(2)
    assert [ours.code("DeviceGetFanSpeed", gpu) for gpu in ("@0", "@1")] == [0, 999]
    assert [ours.code("DeviceGetName", gpu) for gpu in ("@0", "@1")] == [4, 4]
    assert ours.code("SystemGetDriverVersion") == 17
    assert ours.code("DeviceGetUUID", "@0") == 0


def test_the_driver_has_words_for_its_codes(host: Start) -> None:
    ours = host(Scenario([])).open(0)
    words = [ours.call("ErrorString", code) for code in (0, NOT_SUPPORTED, NO_DRIVER, LOST, MISMATCH, 999)]
    assert len(set(words)) == len(words)
    assert "lost" in words[3]


def test_a_call_takes_the_time_that_is_ordered(host: Start) -> None:
    scenario = Scenario(TWO, latency_us=60_000, latencies_us={"nvmlDeviceGetName": 250_000, "nvmlDeviceGetUUID": 0})
    ours = host(scenario).open(1)
    seconds = {}
    for function in ("Name", "UUID", "FanSpeed"):
        ours.device(function, 0)
        seconds[function] = ours.seconds
    assert seconds["Name"] >= 0.25
    assert seconds["FanSpeed"] >= 0.06
    assert min(seconds, key=lambda function: seconds[function]) == "UUID"


def test_the_throughput_of_pcie_takes_twenty_milliseconds(host: Start) -> None:
    ours = host(Scenario(TWO)).open(1)
    ours.device("PcieThroughput", 0, 0)
    assert ours.seconds >= 0.02


def test_slow_calls_do_not_wait_for_each_other(host: Start) -> None:
    ours = host(Scenario(TWO, latencies_us={"nvmlDeviceGetName": 300_000})).open(2)
    calls = [["nvmlDeviceGetName", f"@{number % 2}"] for number in range(6)]
    said = ours.say("together", *calls)
    assert [answer["answer"] for answer in said["answers"]] == [TWO[0].name] * 6
    one_after_the_other = 6 * 0.3
    assert said["seconds"] < one_after_the_other / 2


def test_what_is_no_handle_is_refused(host: Start) -> None:
    ours = host(Scenario(TWO)).open(1)
    assert ours.code("DeviceGetFanSpeed", 0) == INVALID
    assert ours.code("DeviceGetTopologyCommonAncestor", "@0", 0) == INVALID
