"""The loop that reads the GPUs, through the real nvidia-ml-py on our own libnvidia-ml: faults and recoveries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from scenario import GpuState, Process, Scenario, counter, wave

Start = Callable[..., Any]
UNKNOWN_ERROR = 999


def three() -> Scenario:
    return Scenario([GpuState.default(index) for index in range(3)])


def test_a_full_card_is_read_in_base_units(sampling: Start) -> None:
    card = GpuState.default(
        0,
        utilization=60,
        clock_events=0x20 | 0x1,
        energy=5_000,
        pcie_tx_bytes=700,
        nvlink_rx=3,
        remapped_pending=1,
        processes=[Process(42, 5 << 20, "/opt/venv/bin/python3")],
    )
    with sampling(Scenario([card])) as sampler:
        told = sampler.until(lambda told: told["gpus"]["0"]["busy"] > 0.2)
    gpu = told["gpus"]["0"]
    reading = gpu["reading"]
    assert gpu["ratio"] == pytest.approx(0.6)
    assert reading["memory"] == {
        "size": 80 << 30,
        "used": 30 << 30,
        "free": (50 << 30) - (600 << 20),
        "reserved": 600 << 20,
    }
    assert (reading["power_watts"], reading["power_limit_watts"], reading["temperature_celsius"]) == (412, 700, 61)
    assert (reading["fan_ratio"], reading["decoder_ratio"], reading["memory_activity_ratio"]) == (0.35, 0.12, 0.41)
    assert reading["clocks_hertz"]["sm"] == 1_770_000_000
    assert reading["clocks_max_hertz"]["memory"] == 2_620_000_000
    assert {reason for reason, active in reading["clock_events"].items() if active} == {
        "sw_thermal_slowdown",
        "gpu_idle",
    }
    assert reading["pcie_link"] == {"width": 16, "width_max": 16, "generation": 5, "generation_max": 5}
    totals = reading["totals"]
    assert (totals["energy_joules"], totals["pcie_transmit_bytes"], totals["nvlink_receive_bytes"]) == (
        5,
        700,
        3 * 1024,
    )
    assert (totals["remapped_pending"], totals["ecc_corrected_aggregate"]) == (1, 2)
    assert reading["processes"] == [{"pid": 42, "name": "python3", "memory_bytes": 5 << 20}]


def test_half_of_the_fields_unsupported_are_half_of_the_fields_absent(sampling: Start) -> None:
    with sampling(Scenario([GpuState.consumer(0, fan=None, clock_video=None)])) as sampler:
        told = sampler.until(lambda told: told["gpus"]["0"]["busy"])
    reading = told["gpus"]["0"]["reading"]
    assert reading["fan_ratio"] is None
    assert set(reading["clocks_hertz"]) == {"graphics", "sm", "memory"}
    pcie = {"pcie_transmit_bytes", "pcie_receive_bytes", "pcie_replays"}  # the bytes out of rates
    assert {"energy_joules"} | pcie == set(reading["totals"])
    assert told["errors"] == {}


def test_mig_answers_no_utilization(sampling: Start) -> None:
    with sampling(Scenario([GpuState.default(0, mig=1)])) as sampler:
        gpu = sampler.until(lambda told: told["gpus"]["0"]["reading"])["gpus"]["0"]
    assert (gpu["up"], gpu["ratio"], gpu["busy"], gpu["reading"]["utilization_ratio"]) == (True, None, None, None)


def test_a_lost_gpu_is_missed_and_found_again_while_the_others_go_on(sampling: Start) -> None:
    host = three()
    with sampling(host) as sampler:
        sampler.until(lambda told: all(gpu["busy"] for gpu in told["gpus"].values()))
        sampler.change(host.losing(1).raising(1, 79))
        told = sampler.until(lambda told: not told["gpus"]["1"]["up"])
        assert told["success"]
        assert (told["gpus"]["1"]["reading"], told["gpus"]["1"]["busy"]) == (None, None)
        assert told["gpus"]["1"]["uuid"] == host.gpus[1].uuid
        assert all(told["gpus"][index]["reading"] for index in "02")
        before = told["gpus"]["0"]["busy"]
        told = sampler.until(lambda told: told["gpus"]["0"]["busy"] > before + 0.5)  # sessions were opened meanwhile
        assert told["gpus"]["1"]["xids"] == {"79": 1}
        assert not told["gpus"]["1"]["up"]
        sampler.change(host.returning(1))
        told = sampler.until(lambda told: told["gpus"]["1"]["up"])
        assert told["gpus"]["1"]["xids"] == {"79": 1}
        assert told["gpus"]["1"]["reading"]["power_watts"] == 412


def test_a_gpu_that_refuses_every_call_is_down_with_the_code_until_it_answers(sampling: Start) -> None:
    """Unknown Error is the usual face of a card that fell off the bus; the field batch succeeds, none of its values."""
    host = three()
    dead = host.with_gpu(1, every_code=UNKNOWN_ERROR, codes={"nvmlDeviceGetFieldValues": 0})
    with sampling(host) as sampler:
        sampler.until(lambda told: all(gpu["busy"] for gpu in told["gpus"].values()))
        sampler.change(dead)
        told = sampler.until(lambda told: not told["gpus"]["1"]["up"])
        gpu = told["gpus"]["1"]
        assert (gpu["reading"], gpu["ratio"], gpu["busy"], gpu["uuid"]) == (None, None, None, host.gpus[1].uuid)
        assert "Unknown Error, NVML code 999" in gpu["problem"]
        assert told["success"]
        assert all(told["gpus"][index]["up"] for index in "02")
        since = told["gpus"]["0"]["busy"]
        for _ in range(3):  # new sessions, in which it does not even say its name
            told = sampler.until(lambda told, since=since: told["gpus"]["0"]["busy"] > since + 0.3)
            assert not told["gpus"]["1"]["up"]
            since = told["gpus"]["0"]["busy"]
        sampler.change(host)
        told = sampler.until(lambda told: told["gpus"]["1"]["up"] and told["gpus"]["1"]["busy"])
    assert (told["gpus"]["1"]["problem"], told["gpus"]["1"]["reading"]["power_watts"]) == (None, 412)


def test_a_pass_that_a_gpu_refuses_shows_no_older_utilization(sampling: Start) -> None:
    host = three()
    with sampling(host) as sampler:
        sampler.until(lambda told: told["gpus"]["1"]["ratio"])
        sampler.change(host.with_gpu(1, every_code=UNKNOWN_ERROR, codes={"nvmlDeviceGetFieldValues": 0}))
        told = sampler.until(lambda told: (told["gpus"]["1"]["reading"] or {}).get("refusal"))
    assert (told["gpus"]["1"]["up"], told["gpus"]["1"]["ratio"]) == (True, None)


def test_a_gpu_that_reports_its_name_and_measures_nothing_is_down(sampling: Start) -> None:
    """Its name and limits are in the library's memory."""
    remembered = ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3")
    limits = ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetMaxPcieLinkWidth")
    dead = three().with_gpu(1, every_code=UNKNOWN_ERROR, codes=dict.fromkeys(remembered + limits, 0))
    with sampling(dead) as sampler:
        told = sampler.until(lambda told: all(told["gpus"][index]["busy"] for index in "02"))
    gpu = told["gpus"]["1"]
    assert (gpu["up"], gpu["reading"], gpu["uuid"]) == (False, None, dead.gpus[1].uuid)
    assert "NVML code 999" in gpu["problem"]


def test_a_gpu_that_refuses_all_but_one_call_stays_up(sampling: Start) -> None:
    host = three()
    odd = host.with_gpu(1, every_code=UNKNOWN_ERROR, codes={"nvmlDeviceGetTemperatureV": 0})
    with sampling(host) as sampler:
        sampler.until(lambda told: told["gpus"]["1"]["busy"])
        sampler.change(odd)
        told = sampler.until(lambda told: told["errors"].get("nvmlDeviceGetPowerUsage 999", 0) > 5)
    gpu = told["gpus"]["1"]
    assert (gpu["up"], gpu["reading"]["temperature_celsius"], gpu["reading"]["power_watts"]) == (True, 61, None)


def test_the_time_that_a_gpu_was_gone_is_not_counted_as_busy(sampling: Start) -> None:
    host = Scenario([GpuState.default(0, utilization=100), GpuState.default(1, utilization=100)])
    with sampling(host) as sampler:
        sampler.until(lambda told: told["gpus"]["1"]["busy"])
        sampler.change(host.losing(1))
        lost = sampler.until(lambda told: not told["gpus"]["1"]["up"])
        begun = lost["gpus"]["0"]["busy"]
        gone = sampler.until(lambda told: told["gpus"]["0"]["busy"] > begun + 1.5)
        sampler.change(host.returning(1))
        back = sampler.until(lambda told: told["gpus"]["1"]["busy"] is not None)
    assert not gone["gpus"]["1"]["up"]
    assert back["gpus"]["0"]["busy"] - back["gpus"]["1"]["busy"] > 1.2


def test_a_gpu_that_is_lost_before_it_reported_its_name_is_missed_too(sampling: Start) -> None:
    host = three().losing(2)
    with sampling(host) as sampler:
        told = sampler.until(lambda told: told["gpus"].get("2"))
        assert (told["gpus"]["2"]["up"], told["gpus"]["2"]["uuid"]) == (False, "")
        sampler.change(host.returning(2))
        told = sampler.until(lambda told: told["gpus"]["2"]["up"])
        assert [gpu["uuid"] for gpu in told["gpus"].values()] == [gpu.uuid for gpu in host.gpus]


def test_a_driver_that_is_restarted_is_waited_for(sampling: Start) -> None:
    host = three()
    with sampling(host) as sampler:
        sampler.until(lambda told: told["success"] and told["gpus"]["2"]["busy"])
        sampler.change(host.driver_gone())
        told = sampler.until(lambda told: not told["success"])
        assert "not loaded" in told["problem"]
        assert [gpu["up"] for gpu in told["gpus"].values()] == [False] * 3
        sampler.change(replace(host.driver_restarted(), driver_version="581.0"))
        told = sampler.until(lambda told: told["success"] and all(gpu["up"] for gpu in told["gpus"].values()))
        assert told["driver"] == "581.0"
        assert any(refusal.endswith(" 9") for refusal in told["errors"])


def test_a_driver_that_comes_later_is_found(sampling: Start) -> None:
    host = three()
    with sampling(host.driver_gone()) as sampler:
        assert sampler.until(lambda told: not told["success"])["gpus"] == {}
        sampler.change(host)
        assert len(sampler.until(lambda told: told["success"])["gpus"]) == 3


def test_xids_are_counted_by_gpu_and_number(sampling: Start) -> None:
    host = three()
    with sampling(host) as sampler:
        sampler.until(lambda told: told["success"])
        sampler.change(host.raising(0, 48).raising(2, 31).raising(0, 48))
        told = sampler.until(lambda told: told["gpus"]["0"]["xids"] and told["gpus"]["2"]["xids"])
    assert [gpu["xids"] for gpu in told["gpus"].values()] == [{"48": 2}, {}, {"31": 1}]


def test_a_refused_call_is_counted_and_the_rest_is_read(sampling: Start) -> None:
    host = three()
    odd = replace(host, codes={"nvmlDeviceGetFanSpeed": 999})
    with sampling(odd) as sampler:
        told = sampler.until(lambda told: told["errors"].get("nvmlDeviceGetFanSpeed 999", 0) >= 3)
    assert told["success"]
    assert told["gpus"]["0"]["reading"]["fan_ratio"] is None
    assert told["gpus"]["0"]["reading"]["power_watts"] == 412


def test_a_wave_is_integrated_whatever_the_interval(sampling: Start) -> None:
    """90% and 5% by turns of a third of a second, looked at every 0.7 s."""
    host = Scenario([GpuState.default(0, utilization=wave((90, 1 / 3), (5, 1 / 3)))])
    with sampling(host, interval=0.7) as sampler:
        first = sampler.until(lambda told: told["gpus"]["0"]["busy"] is not None)
        last = sampler.until(lambda told: told["gpus"]["0"]["reading"]["totals"]["energy_joules"] > 0)
        for _ in range(6):
            last = sampler.until(lambda _: True)
    energy = (
        last["gpus"]["0"]["reading"]["totals"]["energy_joules"]
        - first["gpus"]["0"]["reading"]["totals"]["energy_joules"]
    )
    elapsed = energy / 412  # the scenario's own clock: 412 W
    assert last["gpus"]["0"]["busy"] / elapsed == pytest.approx(0.475, abs=0.12)


def test_links_are_named_as_nvidia_smi_does(sampling: Start) -> None:
    cards = [GpuState.default(index, nvlinks=()) for index in range(4)]
    bridged = [
        replace(cards[0], nvlinks=[cards[1].pci_bus_id] * 4 + ["down"]),
        replace(cards[1], nvlinks=[cards[0].pci_bus_id] * 4),
        *cards[2:],
    ]
    host = Scenario(bridged, topology={(0, 2): 30, (1, 2): 30, (2, 3): 10})
    with sampling(three()) as sampler:
        links = sampler.until(lambda told: told["links"])["links"]
    assert set(links.values()) == {"NV18"}  # through the switches
    with sampling(host) as sampler:
        links = sampler.until(lambda told: told["links"])["links"]
    uuids = [card.uuid for card in cards]
    named = {
        (uuids.index(one), uuids.index(other)): link
        for (one, other), link in ((key.split(), link) for key, link in links.items())
    }
    assert named[0, 1] == named[1, 0] == "NV4"
    assert named[0, 2] == "PHB"
    assert named[2, 3] == "PIX"
    assert named[0, 3] == "SYS"


def test_links_stay_while_a_lost_gpu_is_looked_for_in_new_sessions(sampling: Start) -> None:
    """A gap in them would reset the time that an alert about a badly linked pair has waited."""
    host = three()
    kept = {f"{one.uuid} {other.uuid}" for one in host.gpus[:2] for other in host.gpus[:2] if one is not other}
    with sampling(host, interval=0.05) as sampler:
        sampler.until(lambda told: told["links"])
        sampler.change(host.losing(2))
        passes = [sampler.until(lambda told: not told["gpus"]["2"]["up"])]
        while passes[-1]["time"] - passes[0]["time"] < 2:  # some sessions
            passes.append(sampler.until(lambda _: True))
        assert [told for told in passes if not kept <= set(told["links"])] == []
        sampler.change(host.returning(2))
        sampler.until(lambda told: told["gpus"]["2"]["up"] and len(told["links"]) == 6)


def test_calls_that_take_long_make_passes_long_and_nothing_else(sampling: Start) -> None:
    host = replace(three(), latency_us=5_000)
    with sampling(host) as sampler:
        told = sampler.until(lambda told: all(gpu["busy"] for gpu in told["gpus"].values()))
    assert told["success"]
    assert told["gpus"]["2"]["ratio"] == pytest.approx(0.73)


def test_counters_of_a_card_without_byte_counters_grow(sampling: Start) -> None:
    with sampling(Scenario([GpuState.consumer(0, energy=counter(0, 1000))])) as sampler:
        first = sampler.until(lambda told: told["gpus"]["0"]["reading"]["totals"].get("pcie_transmit_bytes", 0) > 0)
        more = sampler.until(lambda told: told["gpus"]["0"]["reading"]["totals"]["pcie_transmit_bytes"] > 3e8)
    assert (
        first["gpus"]["0"]["reading"]["totals"]["pcie_receive_bytes"]
        < more["gpus"]["0"]["reading"]["totals"]["pcie_receive_bytes"]
    )


@pytest.mark.parametrize(
    ("card", "celsius"),
    [
        ({"temperature_slowdown": 97}, 97.0),
        ({"temperature": 88, "temperature_margin": 4}, 92.0),
        ({"temperature_slowdown": 97, "temperature": 88, "temperature_margin": 4}, 92.0),
        ({"temperature": None, "temperature_margin": 4}, None),
        ({}, None),
    ],
)
def test_where_a_card_slows_itself_down_is_told_as_a_temperature(
    sampling: Start, card: dict[str, int | None], celsius: float | None
) -> None:
    with sampling(Scenario([GpuState.default(0, **card)])) as sampler:
        told = sampler.until(lambda told: told["gpus"]["0"]["reading"])
    assert told["gpus"]["0"]["reading"]["temperature_slowdown_celsius"] == celsius
