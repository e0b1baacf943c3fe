"""NVML calls that do not return: who is down because of them, who goes on, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Condition, Event
from typing import Any

import pytest
from eventually import PATIENCE
from scenario import AN_HOUR_US, GpuState, Scenario

from voxyard.telemetry.call_thread import CallThread

Start = Callable[..., Any]
HUNG = 4.0  # seconds; 10 as shipped, which test_exporter.py runs
HUNG_GPU = "3"


def eight() -> Scenario:
    return Scenario([GpuState.default(index) for index in range(8)])


def all_up(told: dict[str, Any]) -> bool:
    return bool(told["gpus"]) and all(gpu["busy"] for gpu in told["gpus"].values())


def energies(told: dict[str, Any]) -> list[float]:
    return [gpu["reading"]["totals"]["energy_joules"] for index, gpu in told["gpus"].items() if index != HUNG_GPU]


def test_one_hanging_call_takes_one_gpu_down_and_seven_go_on_at_their_interval(sampling: Start) -> None:
    host = eight()
    with sampling(host, hung=HUNG) as sampler:
        threads = sampler.until(lambda told: all_up(told) and told["links"])["threads"]
        sampler.change(host.hanging(3, "nvmlDeviceGetPowerUsage"))
        told = sampler.until(lambda told: not told["gpus"][HUNG_GPU]["up"])
        gpu = told["gpus"][HUNG_GPU]
        assert (gpu["uuid"], gpu["reading"], gpu["ratio"], gpu["busy"]) == (host.gpus[3].uuid, None, None, None)
        assert "nvmlDeviceGetPowerUsage has not returned for" in gpu["problem"]
        passes = [told, *(sampler.until(lambda _: True) for _ in range(10))]
        assert all(each["success"] and len(energies(each)) == 7 for each in passes)
        assert all(now > before for before, now in zip(energies(passes[0]), energies(passes[-1]), strict=True))
        assert (
            passes[-1]["time"] - passes[0]["time"] < 10 * HUNG
        )  # ten intervals of 0.1 s: nobody waits for the hung one
        assert {each["threads"] for each in passes} == {threads}
        assert passes[-1]["errors"] == {"nvmlDeviceGetPowerUsage 10": 1}
        sampler.change(host)
        told = sampler.until(all_up)
    assert (told["gpus"][HUNG_GPU]["problem"], told["threads"]) == (None, threads)


def test_a_lost_gpu_is_looked_for_again_when_no_call_hangs_any_more(sampling: Start) -> None:
    """NVML is not closed under a call."""
    host = eight()
    hanging = host.hanging(3)
    with sampling(host, hung=HUNG) as sampler:
        sampler.until(all_up)
        sampler.change(hanging.losing(5))
        sampler.until(lambda told: not told["gpus"][HUNG_GPU]["up"] and not told["gpus"]["5"]["up"])
        sampler.change(hanging)
        for _ in range(5):
            told = sampler.until(lambda _: True)
            assert [index for index, gpu in told["gpus"].items() if not gpu["up"]] == [HUNG_GPU, "5"]
        sampler.change(host)
        sampler.until(all_up)


def test_a_gpu_that_hangs_from_the_start_is_reported_too(sampling: Start) -> None:
    host = eight()
    with sampling(host.hanging(3, "nvmlDeviceGetUUID"), hung=HUNG) as sampler:
        told = sampler.until(lambda told: HUNG_GPU in told["gpus"])
        assert (told["gpus"][HUNG_GPU]["up"], len(energies(told))) == (False, 7)
        assert "nvmlDeviceGetUUID" in told["gpus"][HUNG_GPU]["problem"]
        sampler.change(host)
        assert sampler.until(all_up)["gpus"][HUNG_GPU]["uuid"] == host.gpus[3].uuid
        sampler.until(lambda told: len(told["links"]) == 8 * 7)  # those of the others were read without it


@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlSystemGetDriverVersion"])
def test_a_session_that_does_not_open_is_a_problem_until_it_does(sampling: Start, function: str) -> None:
    host = eight()
    with sampling(replace(host, latencies_us={function: AN_HOUR_US}), hung=HUNG) as sampler:
        told = sampler.until(lambda told: not told["success"])
        assert told["gpus"] == {}
        assert f"{function.removesuffix('WithFlags')} has not returned" in told["problem"]
        sampler.change(host)
        assert sampler.until(all_up)["success"]


def test_events_that_hang_cost_the_xids_and_no_measurement(sampling: Start) -> None:
    host = eight()
    with sampling(host, hung=HUNG) as sampler:
        sampler.until(all_up)
        sampler.change(replace(host, latencies_us={"nvmlEventSetWait_v2": AN_HOUR_US}))
        first = sampler.until(lambda told: told["problem"])
        assert "nvmlEventSetWait_v2 has not returned" in first["problem"]
        assert (first["success"], first["errors"]) == (True, {"nvmlEventSetWait_v2 10": 1})
        last = [sampler.until(lambda _: True) for _ in range(5)][-1]
        assert all_up(last)
        assert all(now > before for before, now in zip(energies(first), energies(last), strict=True))
        sampler.change(host.raising(2, 31))
        told = sampler.until(lambda told: not told["problem"] and told["gpus"]["2"]["xids"])
    assert told["gpus"]["2"]["xids"] == {"31": 1}


def test_a_hanging_gpu_does_not_block_a_sampler_of_other_gpus(sampling: Start) -> None:
    host = eight()
    with sampling(host.hanging(3), only=host.gpus[1].uuid) as sampler:  # a call hangs after 10 s
        told = sampler.until(lambda _: True)
    assert list(told["gpus"]) == ["1"]
    assert told["gpus"]["1"]["up"]


def test_a_caller_has_one_thread_and_one_call_at_a_time() -> None:
    changed, gate = Condition(), Event()
    caller = CallThread("test", changed)
    caller.begin(gate.wait)
    with pytest.raises(RuntimeError, match="in a call"):
        caller.begin(gate.wait)
    states = [(caller.free, caller.answered)]
    gate.set()
    with changed:
        changed.wait_for(lambda: caller.answered, timeout=PATIENCE)
    states.append((caller.free, caller.answered))
    assert caller.collect() is True
    states.append((caller.free, caller.answered))
    assert states == [(False, False), (False, True), (True, False)]
    caller.end()


def test_a_caller_raises_what_its_call_raised() -> None:
    changed = Condition()
    caller = CallThread("test", changed)
    caller.begin(lambda: int("x"))
    with changed:
        assert changed.wait_for(lambda: caller.answered, timeout=PATIENCE)
    with pytest.raises(ValueError, match="invalid literal"):
        caller.collect()
    caller.end()
