"""Xid errors of the fake NVML, as events that are waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eventually import PATIENCE
from scenario import GpuState, Scenario

if TYPE_CHECKING:
    from tests.unit.nvml.conftest import Host

Start = Callable[..., "Host"]
UNINITIALIZED, INVALID, NOT_SUPPORTED, TIMED_OUT = 1, 2, 3, 10
XID = 8
LONG_MS = 20_000
TWO = [GpuState.default(0), GpuState.default(1)]


def listening(ours: Host, *gpus: int) -> Host:
    """The process with an event set for the Xids of these GPUs, by the name `@set`."""
    ours.open(2)
    ours.call("set:EventSetCreate")
    for gpu in gpus:
        ours.call("DeviceRegisterEvents", f"@{gpu}", XID, "@set")
    return ours


def take(ours: Host, timeout_ms: int = LONG_MS) -> Any:
    event = ours.call("EventSetWait_v2", "@set", timeout_ms)
    return event["device"], event["eventType"], event["eventData"]


def test_each_xid_is_delivered_once_in_its_order(host: Start) -> None:
    scenario = Scenario(TWO)
    ours = listening(host(scenario), 0, 1)
    handles = [ours.call("DeviceGetHandleByIndex", index) for index in (0, 1)]
    scenario = scenario.raising(1, 79).raising(0, 31)
    scenario.write(ours.path)
    assert [take(ours), take(ours)] == [(handles[1], XID, 79), (handles[0], XID, 31)]
    scenario.raising(0, 31).write(ours.path)
    assert take(ours) == (handles[0], XID, 31)
    assert ours.code("EventSetWait_v2", "@set", 50) == TIMED_OUT


def test_a_new_session_does_not_hear_of_old_xids_again(host: Start) -> None:
    ours = listening(host(Scenario(TWO).raising(0, 48)), 0)
    assert take(ours)[2] == 48
    ours.call("Shutdown")
    assert listening(ours, 0).code("EventSetWait_v2", "@set", 50) == TIMED_OUT


def test_waiting_ends_with_the_timeout(host: Start) -> None:
    ours = listening(host(Scenario(TWO)), 0)
    assert ours.code("EventSetWait_v2", "@set", 200) == TIMED_OUT
    assert ours.seconds >= 0.2


def test_waiting_ends_with_the_event(host: Start) -> None:
    scenario = Scenario(TWO)
    ours = listening(host(scenario), 0)
    later = threading.Timer(0.2, lambda: scenario.raising(0, 94).write(ours.path))
    later.start()
    assert take(ours)[2] == 94
    assert ours.seconds < LONG_MS / 1000 / 2
    later.join()


def test_xids_of_other_gpus_are_not_heard(host: Start) -> None:
    ours = listening(host(Scenario(TWO).raising(1, 79).raising(0, 31)), 0)
    assert take(ours)[2] == 31
    assert ours.code("EventSetWait_v2", "@set", 20) == TIMED_OUT
    ours.call("DeviceRegisterEvents", "@1", XID, "@set")
    assert take(ours)[2] == 79


def test_waiting_ends_with_the_driver(host: Start) -> None:
    scenario = Scenario(TWO)
    ours = listening(host(scenario), 0)
    later = threading.Timer(0.2, lambda: scenario.driver_restarted().write(ours.path))
    later.start()
    assert ours.code("EventSetWait_v2", "@set", LONG_MS) == UNINITIALIZED
    later.join()


def test_other_calls_go_on_while_one_waits(host: Start) -> None:
    ours = listening(host(Scenario(TWO)), 0)
    said = ours.say("together", ["nvmlEventSetWait_v2", "@set", 600], *[["nvmlDeviceGetFanSpeed", "@0"]] * 3)
    assert said["answers"][0]["code"] == TIMED_OUT
    assert [each["answer"] for each in said["answers"][1:]] == [TWO[0].fan] * 3
    assert said["seconds"] >= 0.6


def test_events_that_a_gpu_does_not_know_are_refused(host: Start) -> None:
    ours = listening(host(Scenario([*TWO[:1], GpuState.default(1, event_types=None)])))
    assert ours.code("DeviceRegisterEvents", "@0", XID | 1, "@set") == NOT_SUPPORTED
    assert ours.code("DeviceRegisterEvents", "@1", XID, "@set") == NOT_SUPPORTED
    assert ours.code("DeviceGetSupportedEventTypes", "@1") == NOT_SUPPORTED


def test_a_set_that_was_freed_is_no_set(host: Start) -> None:
    ours = listening(host(Scenario(TWO)), 0)
    ours.call("EventSetFree", "@set")
    assert ours.code("EventSetWait_v2", "@set", 10) == INVALID
    assert ours.code("EventSetFree", "@set") == INVALID


def test_sets_can_be_made_for_ever(host: Start) -> None:
    ours = host(Scenario(TWO)).open(1)
    for _ in range(100):
        ours.call("set:EventSetCreate")
        ours.call("EventSetFree", "@set")
    deadline = time.monotonic() + PATIENCE
    while ours.code("set:EventSetCreate") == 0:
        assert time.monotonic() < deadline
    assert ours.code("EventSetCreate") == 23  # as many as fit
