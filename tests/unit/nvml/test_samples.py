"""Utilization samples of the fake NVML: six a second, in the wall clock's microseconds, of the scenario's wave."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from eventually import PATIENCE
from scenario import GpuState, Scenario, wave

if TYPE_CHECKING:
    from tests.unit.nvml.conftest import Host

Start = Callable[..., "Host"]
UTILIZATION, MEMORY = 1, 2
NOT_SUPPORTED, NOT_FOUND = 3, 6
PERIOD_US = 1e6 / 6


def samples(ours: Host, since_us: int = 0) -> list[tuple[int, int]]:
    """(time in µs, percent) of the samples after `since_us`."""
    kind, found = ours.device("Samples", 0, UTILIZATION, since_us)
    assert kind == 1  # unsigned int
    return [(each["timeStamp"], int.from_bytes(bytes.fromhex(each["sampleValue"])[:4], "little")) for each in found]


def test_the_last_twenty_seconds_are_kept(host: Start) -> None:
    ours = host(Scenario([GpuState.default(0, utilization=73)])).open(1)
    found = samples(ours)
    assert len(found) == 120
    assert {percent for _, percent in found} == {73}
    steps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(found)]
    assert steps == pytest.approx([PERIOD_US] * 119, abs=1)
    assert 0 <= ours.now * 1e6 - found[-1][0] < 1e6 + PERIOD_US


def test_only_newer_samples_are_answered(host: Start) -> None:
    ours = host(Scenario([GpuState.default(0)])).open(1)
    before = samples(ours)[-1][0]
    deadline = time.monotonic() + PATIENCE
    while ours.code("DeviceGetSamples", "@0", UTILIZATION, before) == NOT_FOUND:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    after = samples(ours, before)
    assert before + 1 < after[0][0] <= before + PERIOD_US + 1


def test_without_newer_samples_nothing_is_found(host: Start) -> None:
    ours = host(Scenario([GpuState.default(0)])).open(1)
    assert ours.code("DeviceGetSamples", "@0", UTILIZATION, int((time.time() + 1000) * 1e6)) == NOT_FOUND


def test_the_mean_of_the_samples_is_the_mean_of_the_wave(host: Start) -> None:
    """Twenty seconds are ten periods, wherever in them the samples begin."""
    ours = host(Scenario([GpuState.default(0, utilization=wave((90, 0.5), (10, 1.5)))])).open(1)
    percent = [value for _, value in samples(ours)]
    assert set(percent) == {90, 10}
    assert sum(percent) / len(percent) == pytest.approx((90 * 0.5 + 10 * 1.5) / 2)


def test_a_change_of_the_scenario_does_not_change_what_was_sampled_before(host: Start) -> None:
    scenario = Scenario([GpuState.default(0, utilization=80)])
    ours = host(scenario).open(1)
    samples(ours)
    scenario.with_gpu(0, utilization=20).write(ours.path)
    changed_us = time.time() * 1e6
    deadline = time.monotonic() + PATIENCE
    while (found := samples(ours))[-1][1] == 80:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert {percent for when, percent in found if when < changed_us - PERIOD_US} == {80}
    assert {percent for when, percent in found if when > changed_us + PERIOD_US} <= {20}


def test_a_card_without_utilization_has_no_samples(host: Start) -> None:
    ours = host(Scenario([GpuState.default(0, utilization=None)])).open(1)
    assert ours.code("DeviceGetSamples", "@0", UTILIZATION, 0) == NOT_SUPPORTED


def test_only_utilization_is_sampled(host: Start) -> None:
    ours = host(Scenario([GpuState.default(0)])).open(1)
    assert ours.code("DeviceGetSamples", "@0", MEMORY, 0) == NOT_SUPPORTED
