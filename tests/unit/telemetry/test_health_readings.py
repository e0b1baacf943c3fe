"""Health of a card as the sampler reads it: errors, pages, recovery, fabric, MIG, on cards of four generations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from exporters import exporter
from fake_driver import FakeDriver
from scenario import GpuState, MigInstance, Process, Scenario

Start = Callable[..., Any]
UNKNOWN_ERROR = 999


def readings(sampling: Start, *gpus: GpuState) -> list[dict[str, Any]]:
    """The first reading of each GPU."""
    with sampling(Scenario(gpus)) as sampler:
        told = sampler.until(lambda told: all(gpu["reading"] for gpu in told["gpus"].values()))
        assert told["errors"] == {}
    return [told["gpus"][str(index)]["reading"] for index in range(len(gpus))]


def part(reading: dict[str, Any], prefix: str) -> dict[str, float]:
    """The totals of one prefix."""
    return {name: value for name, value in reading["totals"].items() if name.startswith(prefix)}


def test_cards_of_each_generation_count_what_they_have(sampling: Start) -> None:
    older, hopper, newer, consumer = readings(
        sampling,
        GpuState.volta(0, nvlink_crc_flit=3, nvlink_crc_data=4, nvlink_replay=5, retired_double_bit=2),
        GpuState.default(1, nvlink_dl_crc=20, nvlink_dl_recovery=1, pcie_replays=9),
        GpuState.blackwell(2, nvlink5_recovery=6, nvlink5_effective=7, nvlink5_tx=5_000, nvlink5_rx=6_000),
        GpuState.consumer(3),
    )
    assert part(older, "nvlink_errors") == {
        "nvlink_errors_crc": 7, "nvlink_errors_replay": 5, "nvlink_errors_recovery": 0, "nvlink_errors_ecc": 0,
    }  # fmt: skip
    assert part(older, "retired") == {"retired_single_bit": 0, "retired_double_bit": 2, "retired_pending": 0}
    assert part(hopper, "nvlink_errors") == {
        "nvlink_errors_crc": 20, "nvlink_errors_replay": 0, "nvlink_errors_recovery": 1,
    }  # fmt: skip
    assert (hopper["totals"]["pcie_replays"], part(hopper, "retired")) == (9, {})
    assert part(newer, "nvlink_errors") == {
        "nvlink_errors_receive": 0, "nvlink_errors_integrity": 0, "nvlink_errors_discard": 0,
        "nvlink_errors_recovery_failed": 0, "nvlink_errors_recovery": 6, "nvlink_errors_effective": 7,
    }  # fmt: skip
    assert (newer["totals"]["nvlink_transmit_bytes"], newer["totals"]["nvlink_receive_bytes"]) == (5_000, 6_000)
    assert part(consumer, "nvlink") == {}


def test_limits_and_temperatures_are_read(sampling: Start) -> None:
    capped, plain, without = readings(
        sampling,
        GpuState.default(0, power_limit=350_000, memory_temperature=84),
        GpuState.consumer(1),
        GpuState.default(2, memory_temperature=0, memory_total=0, memory_used=0),
    )
    assert (capped["power_limit_watts"], capped["power_limit_default_watts"]) == (350, 700)
    assert (capped["memory_temperature_celsius"], plain["memory_temperature_celsius"]) == (84, None)
    assert without["memory_temperature_celsius"] is None  # a card without the sensor may say 0
    assert (plain["memory"] is None, without["memory"]) == (False, None)  # so may one that shares the host's memory
    assert "memory_celsius" not in capped["totals"]


def test_numbers_that_no_card_measures_are_no_values(sampling: Start) -> None:
    """All ones, as drivers write `unknown`, and shares far above their whole, as they slip in now and then."""
    ones = 2**32 - 1
    (odd,) = readings(
        sampling,
        GpuState.consumer(
            0, utilization=686_103, memory_activity=ones, encoder=2_619, decoder=ones, fan=999, power=ones,
            power_limit=ones, temperature=ones, clock_sm=ones, pcie_width=ones, memory_temperature=ones,
            memory_used=48 * 1024**3,
        ),
    )  # fmt: skip
    shares = ("utilization_ratio", "memory_activity_ratio", "encoder_ratio", "decoder_ratio", "fan_ratio")
    others = ("power_watts", "power_limit_watts", "temperature_celsius", "memory_temperature_celsius", "memory")
    assert {name: odd[name] for name in (*shares, *others)} == dict.fromkeys((*shares, *others))
    assert (odd["samples"], odd["refusal"]) == ([], None)
    assert "sm" not in odd["clocks_hertz"]
    assert "width" not in odd["pcie_link"]


@pytest.mark.parametrize(
    ("fabric", "state"),
    [
        ({"fabric_state": None}, None),
        ({"fabric_state": 0}, None),
        ({"fabric_state": 1}, "not_started"),
        ({"fabric_state": 2}, "in_progress"),
        ({"fabric_state": 3, "fabric_health": 2}, "completed"),
        ({"fabric_state": 3, "fabric_health": 1}, "degraded"),
        ({"fabric_state": 3, "fabric_status": UNKNOWN_ERROR, "fabric_health": 1}, "failed"),
    ],
)
def test_the_fabric_has_a_state_where_there_is_one(sampling: Start, fabric: dict[str, int], state: str | None) -> None:
    (reading,) = readings(sampling, GpuState.default(0, **fabric))
    assert reading["fabric_state"] == state


def test_the_recovery_that_the_driver_asks_for_is_named(sampling: Start) -> None:
    found = readings(
        sampling, *(GpuState.default(index, recovery_action=number) for index, number in enumerate((0, 1, 4, 99))),
        GpuState.consumer(4),
    )  # fmt: skip
    assert [each["recovery_action"] for each in found] == ["none", "reset", "drain_and_reset", "99", None]


def test_mig_instances_are_counted_where_mig_is_on(sampling: Start) -> None:
    instances = {0: MigInstance("MIG-1"), 4: MigInstance("MIG-2")}
    on, empty, off, consumer = readings(
        sampling, GpuState.default(0, mig=1, mig_instances=instances), GpuState.default(1, mig=1),
        GpuState.default(2), GpuState.consumer(3),
    )  # fmt: skip
    assert [(each["mig_enabled"], each["mig_instances"]) for each in (on, empty, off, consumer)] == [
        (True, 2), (True, 0), (False, None), (None, None),
    ]  # fmt: skip


def test_mig_instances_have_memory_and_activity_of_their_own(driver: FakeDriver) -> None:
    """An instance works as much of its GPU's time as its number says, in sevenths (the scripted driver's)."""
    instances = {0: MigInstance("MIG-1", total=10 << 30, used=1 << 30), 4: MigInstance("MIG-2", total=20 << 30)}
    gpus = [GpuState.default(0, mig=1, mig_instances=instances, gpm_sm=70), GpuState.default(1)]
    names = ("memory_size_bytes", "memory_used_bytes", "activity_seconds_total")
    with exporter(driver.environment_of(Scenario(gpus))) as running:
        value = running.value
        running.until(lambda: value("voxyard_gpu_mig_activity_seconds_total", gpu="0", mig="4", part="sm"))
        sizes = {mig: [value(f"voxyard_gpu_mig_{name}", gpu="0", mig=mig) for name in names[:2]] for mig in "04"}
        activity = {  # of one scrape
            dict(labels)["mig"]: each
            for (name, labels), each in running.series().items()
            if name == "voxyard_gpu_mig_activity_seconds_total" and dict(labels)["part"] == "sm"
        }
        assert sizes == {"0": [10 << 30, 1 << 30], "4": [20 << 30, 0]}
        assert activity["4"] == pytest.approx(5 * activity["0"], rel=0.2)
        assert [value(f"voxyard_gpu_mig_{name}", gpu="1") for name in names] == [None] * 3


def test_a_process_is_counted_once_whatever_it_holds(sampling: Start) -> None:
    """One that computes and draws is one; one whose memory is unknown is there; one that only draws is no stranger."""
    processes = [Process(7, 1 << 30), Process(8, None), Process(9, 2 << 30)]
    drawing = [processes[0], Process(10, 1 << 20)]
    busy, idle = readings(
        sampling,
        GpuState.default(0, processes=[*processes, processes[0]], graphics_processes=drawing),
        GpuState.default(1),
    )
    assert (busy["process_count"], idle["process_count"]) == (3, 0)


def test_the_server_of_mps_is_no_process_beside_its_clients(sampling: Start) -> None:
    server = Process(5, 30 << 20, "/usr/bin/nvidia-cuda-mps-server")
    shared, alone = readings(
        sampling,
        GpuState.default(0, processes=[server, Process(7, 1 << 30, "/opt/python")]),
        GpuState.default(1, processes=[server]),
    )
    assert (shared["process_count"], alone["process_count"]) == (1, 1)


def test_every_reason_that_slows_the_clocks_has_a_name(sampling: Start) -> None:
    (reading,) = readings(sampling, GpuState.default(0, clock_events=0x2 | 0x10 | 0x100 | 0x200 | 0x400))
    assert {reason for reason, active in reading["clock_events"].items() if active} == {
        "applications_clocks_setting", "sync_boost", "display_clock_setting", "board_limit", "reliability",
    }  # fmt: skip
    assert {"sw_power_cap", "hw_power_brake", "hw_slowdown"} <= set(reading["clock_events"])


def test_the_exporter_shows_them_by_name_and_leaves_out_what_a_card_does_not_have(driver: FakeDriver) -> None:
    gpus = [
        GpuState.volta(0, retired_pending=1, nvlink_recovery=4, processes=[Process(7, None)]),
        GpuState.default(1, mig=1, mig_instances={0: MigInstance("MIG-1")}, recovery_action=2, pcie_replays=12),
        GpuState.consumer(2, pcie_replays=None),
    ]
    with exporter(driver.environment_of(Scenario(gpus))) as running:
        running.until(lambda: running.value("voxyard_gpu_power_watts", gpu="2"))
        value = running.value
        assert value("voxyard_gpu_retired_pages", gpu="0", kind="pending") == 1
        assert value("voxyard_gpu_nvlink_errors_total", gpu="0", kind="recovery") == 4
        assert value("voxyard_gpu_processes", gpu="0") == 1
        assert value("voxyard_gpu_recovery_action", gpu="1", action="reboot") == 1
        assert value("voxyard_gpu_recovery_action", gpu="1", action="none") is None
        assert value("voxyard_gpu_fabric_state", gpu="1", state="completed") == 1
        assert (value("voxyard_gpu_mig_enabled", gpu="1"), value("voxyard_gpu_mig_instances", gpu="1")) == (1, 1)
        assert value("voxyard_gpu_pcie_replays_total", gpu="1") == 12
        assert value("voxyard_gpu_memory_temperature_celsius", gpu="1") == 72
        assert value("voxyard_gpu_power_limit_default_watts", gpu="2") == 450
        absent = ["memory_temperature_celsius", "retired_pages", "recovery_action", "fabric_state", "mig_enabled"]
        absent += ["mig_instances", "pcie_replays_total", "nvlink_errors_total"]
        assert {name: value(f"voxyard_gpu_{name}", gpu="2") for name in absent} == dict.fromkeys(absent)


def several_passes(trace: Path) -> Counter[str] | None:
    """Calls of the passes after the last look at the health, its own pass left out, once there are four."""
    calls = [line.split()[1] for line in trace.read_text().splitlines()]
    looked = max(place for place, name in enumerate(calls) if name == "nvmlDeviceGetMigMode")
    pass_ends = [place for place, name in enumerate(calls) if name == "nvmlDeviceGetPowerUsage" and place > looked]
    return Counter(calls[pass_ends[1] + 1 : pass_ends[-1] + 1]) if len(pass_ends) > 5 else None


def test_health_costs_no_call_of_a_pass(driver: FakeDriver, tmp_path: Path) -> None:
    """They are asked for every ten seconds: a pass between has none of their calls, and one call for all its fields."""
    trace = tmp_path / "trace"
    environment = driver.environment_of(Scenario([GpuState.default(0)]), NVML_FAKE_TRACE=str(trace))
    with exporter(environment, interval=0.1) as running:
        running.until(lambda: running.value("voxyard_gpu_power_watts", gpu="0"))
        first = Counter(line.split()[1] for line in trace.read_text().splitlines())
        calls = eventually(lambda: several_passes(trace), "there are passes between two looks at the health")
    slow = ("GpuFabricInfoV", "PowerManagementDefaultLimit", "ComputeRunningProcesses_v3", "MigMode")
    assert all(first[f"nvmlDeviceGet{name}"] for name in slow)
    assert {name: calls[f"nvmlDeviceGet{name}"] for name in slow} == dict.fromkeys(slow, 0)
    assert abs(calls["nvmlDeviceGetFieldValues"] - calls["nvmlDeviceGetPowerUsage"]) <= 1


def test_a_call_for_health_that_hangs_takes_only_its_gpu_down(sampling: Start) -> None:
    gpus = [GpuState.default(index) for index in range(2)]
    host = Scenario(gpus).hanging(1, "nvmlDeviceGetGpuFabricInfoV")
    with sampling(host, hung=1.0) as sampler:
        told = sampler.until(lambda told: told["gpus"].get("0", {}).get("busy") and "1" in told["gpus"])
    assert (told["gpus"]["0"]["up"], told["gpus"]["1"]["up"]) == (True, False)
    assert "nvmlDeviceGetGpuFabricInfoV" in told["gpus"]["1"]["problem"]


def test_the_nvlinks_that_are_up_are_counted(sampling: Start) -> None:
    found = readings(
        sampling,
        GpuState.default(0),
        GpuState.default(1, nvlinks=["switch"] * 9 + ["down"] * 9),
        GpuState.consumer(2),
    )
    assert [each["nvlinks_active"] for each in found] == [18, 9, None]
