"""Answers of the fake NVML for a card that measures everything, for one that does not, and for one under MIG."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pynvml
import pytest
from scenario import MIB, GpuState, Process, Scenario

if TYPE_CHECKING:
    from tests.unit.nvml.conftest import Host

Start = Callable[..., "Host"]
NOT_SUPPORTED, NOT_FOUND, INVALID, LOST = 3, 6, 2, 15
ONES = 0xFFFFFFFF

ONE_FIGURE: dict[str, tuple[tuple[Any, ...], str]] = {  # function → its arguments, the figure of a GpuState
    "PowerUsage": ((), "power"),
    "EnforcedPowerLimit": ((), "power_limit"),
    "PowerManagementLimit": ((), "power_management_limit"),
    "PowerManagementDefaultLimit": ((), "power_default_limit"),
    "TemperatureV": ((0,), "temperature"),
    "Temperature": ((0,), "temperature"),
    "FanSpeed": ((), "fan"),
    "CurrPcieLinkWidth": ((), "pcie_width"),
    "MaxPcieLinkWidth": ((), "pcie_width_max"),
    "CurrPcieLinkGeneration": ((), "pcie_generation"),
    "MaxPcieLinkGeneration": ((), "pcie_generation_max"),
    "CurrentClocksEventReasons": ((), "clock_events"),
    "PersistenceMode": ((), "persistence"),
    "ComputeMode": ((), "compute_mode"),
    "DisplayActive": ((), "display_active"),
    "DisplayMode": ((), "display_mode"),
    "NumaNodeId": ((), "numa_node"),
    "SupportedEventTypes": ((), "event_types"),
    "TotalEnergyConsumption": ((), "energy"),
}
THROUGHPUT = ("pcie_tx_rate", "pcie_rx_rate")
EVERY_FIGURE = {figure for _, figure in ONE_FIGURE.values()} | {*THROUGHPUT, "clock_graphics"}
CLOCKS = ("graphics", "sm", "memory", "video")
FIELDS_OF_LINKS = {  # nvidia-ml-py's name → the figure, of which each link answers its share
    "NVLINK_ERROR_DL_REPLAY": "nvlink_dl_replay",
    "NVLINK_ERROR_DL_RECOVERY": "nvlink_dl_recovery",
    "NVLINK_ERROR_DL_CRC": "nvlink_dl_crc",
    "NVLINK_COUNT_XMIT_BYTES": "nvlink5_tx",
    "NVLINK_COUNT_RCV_BYTES": "nvlink5_rx",
    "NVLINK_COUNT_RCV_ERRORS": "nvlink5_receive",
    "NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS": "nvlink5_integrity",
    "NVLINK_COUNT_XMIT_DISCARDS": "nvlink5_discard",
    "NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS": "nvlink5_recovery_failed",
    "NVLINK_COUNT_LINK_RECOVERY_EVENTS": "nvlink5_recovery",
    "NVLINK_COUNT_EFFECTIVE_ERRORS": "nvlink5_effective",
}
FIELDS = {  # nvidia-ml-py's name → the figure, and the member of the union that holds it
    "ECC_SBE_VOL_TOTAL": ("ecc_corrected_volatile", 8),
    "ECC_DBE_VOL_TOTAL": ("ecc_uncorrected_volatile", 8),
    "ECC_SBE_AGG_TOTAL": ("ecc_corrected_aggregate", 8),
    "ECC_DBE_AGG_TOTAL": ("ecc_uncorrected_aggregate", 8),
    "TOTAL_ENERGY_CONSUMPTION": ("energy", 8),
    "REMAPPED_COR": ("remapped_correctable", 4),
    "REMAPPED_UNC": ("remapped_uncorrectable", 4),
    "REMAPPED_PENDING": ("remapped_pending", 4),
    "REMAPPED_FAILURE": ("remapped_failure", 4),
    "RETIRED_SBE": ("retired_single_bit", 4),
    "RETIRED_DBE": ("retired_double_bit", 4),
    "RETIRED_PENDING": ("retired_pending", 4),
    "MEMORY_TEMP": ("memory_temperature", 4),
    "PCIE_REPLAY_COUNTER": ("pcie_replays", 4),
    "GET_GPU_RECOVERY_ACTION": ("recovery_action", 4),
    "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": ("nvlink_crc_flit", 8),
    "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": ("nvlink_crc_data", 8),
    "NVLINK_REPLAY_ERROR_COUNT_TOTAL": ("nvlink_replay", 8),
    "NVLINK_RECOVERY_ERROR_COUNT_TOTAL": ("nvlink_recovery", 8),
    "NVLINK_ECC_DATA_ERROR_COUNT_TOTAL": ("nvlink_ecc", 8),
    "POWER_INSTANT": ("power_instant", 4),
    "PCIE_COUNT_TX_BYTES": ("pcie_tx_bytes", 8),
    "PCIE_COUNT_RX_BYTES": ("pcie_rx_bytes", 8),
}


def told_apart(**changes: Any) -> GpuState:
    """A GPU of which no two figures are the same."""
    names = [*(figure for _, figure in ONE_FIGURE.values()), *THROUGHPUT]
    names += [f"{kind}_{clock}" for kind in ("clock", "clock_max") for clock in CLOCKS]
    names += [figure for figure, _ in FIELDS.values()]
    figures = {name: 11 + 2 * number for number, name in enumerate(dict.fromkeys(names))}
    return GpuState.default(0, **figures | changes)


def field_number(value: Any, width: int = 8) -> int:
    return int.from_bytes(bytes.fromhex(value["value"])[:width], "little")


def test_each_figure_is_answered_by_its_function(host: Start) -> None:
    gpu = told_apart()
    ours = host(Scenario([gpu])).open(1)
    found = {name: ours.device(name, 0, *arguments) for name, (arguments, _) in ONE_FIGURE.items()}
    assert found == {name: getattr(gpu, figure) for name, (_, figure) in ONE_FIGURE.items()}
    assert [ours.device("PcieThroughput", 0, way) for way in (0, 1)] == [gpu.pcie_tx_rate, gpu.pcie_rx_rate]
    for function, kind in (("ClockInfo", "clock"), ("MaxClockInfo", "clock_max")):
        expected = [getattr(gpu, f"{kind}_{clock}") for clock in CLOCKS]
        assert [ours.device(function, 0, number) for number in range(4)] == expected


def test_each_field_is_answered_by_its_number(host: Start) -> None:
    gpu = told_apart()
    ours = host(Scenario([gpu])).open(1)
    ids = [getattr(pynvml, f"NVML_FI_DEV_{name}") for name in FIELDS]
    values = ours.device("FieldValues", 0, ids)
    assert [value["nvmlReturn"] for value in values] == [0] * len(FIELDS)
    found = {name: field_number(value, FIELDS[name][1]) for name, value in zip(FIELDS, values, strict=True)}
    assert found == {name: getattr(gpu, figure) for name, (figure, _) in FIELDS.items()}
    widths = [{1: 4, 3: 8}[value["valueType"]] for value in values]
    assert widths == [width for _, width in FIELDS.values()]


def test_each_field_has_a_return_code_of_its_own(host: Start) -> None:
    gpu = GpuState.default(0, power_instant=None, field_codes={197: 999})
    ours = host(Scenario([gpu])).open(1)
    values = ours.device("FieldValues", 0, [186, 197, 198, 4711])
    assert [value["nvmlReturn"] for value in values] == [NOT_SUPPORTED, 999, 0, NOT_SUPPORTED]


def test_nvlink_counters_are_those_of_one_link_or_of_all(host: Start) -> None:
    gpu = GpuState.default(0, nvlink_tx=900, nvlink_rx=300, nvlinks=["switch"] * 3)
    ours = host(Scenario([gpu])).open(1)
    asked = [[138, ONES], [139, ONES], [138, 0], [139, 2], [138, 3], 91]
    values = ours.device("FieldValues", 0, asked)
    assert [value["nvmlReturn"] for value in values] == [0, 0, 0, 0, INVALID, 0]
    assert [field_number(value) for value in values[:4]] == [900, 300, 300, 100]
    assert field_number(values[5], 4) == 3


def test_errors_of_nvlink_are_those_of_one_link(host: Start) -> None:
    figures = {figure: 10 + 3 * number for number, figure in enumerate(FIELDS_OF_LINKS.values())}
    ours = host(Scenario([GpuState.default(0, nvlinks=["switch"] * 3, **figures)])).open(1)
    ids = [getattr(pynvml, f"NVML_FI_DEV_{name}") for name in FIELDS_OF_LINKS]
    of_links = [ours.device("FieldValues", 0, [[each, link] for each in ids]) for link in range(3)]
    assert [sum(map(field_number, each)) for each in zip(*of_links, strict=True)] == list(figures.values())
    assert [field_number(values[0]) for values in of_links] == [4, 3, 3]
    assert {value["nvmlReturn"] for value in ours.device("FieldValues", 0, [[each, 3] for each in ids])} == {INVALID}


def test_the_fabric_is_told_where_there_is_one(host: Start) -> None:
    gpus = [GpuState.default(0, fabric_state=2, fabric_status=999, fabric_health=1), GpuState.consumer(1)]
    ours = host(Scenario(gpus)).open(2)
    found = ours.device("GpuFabricInfoV", 0, "new c_nvmlGpuFabricInfo_v2_t")
    assert (found["state"], found["status"], found["healthMask"]) == (2, 999, 1)
    assert ours.code("DeviceGetGpuFabricInfoV", "@1", "new c_nvmlGpuFabricInfo_v2_t") == NOT_SUPPORTED
    assert ours.code("DeviceGetGpuFabricInfoV", "@0", "new c_nvmlGpuFabricInfo_v3_t") == 25


def test_a_gpu_says_who_it_is(host: Start) -> None:
    ours = host(Scenario([GpuState.consumer(0), GpuState.default(1, pci_bus_id="00000001:AF:00.0")])).open(2)
    assert ours.call("DeviceGetCount") == 2
    assert ours.device("Name", 1) == "NVIDIA H100 80GB HBM3"
    assert ours.device("UUID", 1) == GpuState.default(1).uuid
    assert ours.device("Index", 1) == 1
    assert ours.device("CudaComputeCapability", 1) == [9, 0]
    pci = ours.device("PciInfo", 1)
    assert (pci["busId"], pci["busIdLegacy"]) == ("00000001:AF:00.0", "0001:AF:00.0")
    assert (pci["domain"], pci["bus"], pci["device"], pci["pciDeviceId"]) == (1, 0xAF, 0, 0x233010DE)


def test_a_gpu_is_found_by_index_uuid_and_bus_id(host: Start) -> None:
    gpus = [GpuState.default(0), GpuState.default(1, pci_bus_id="00000000:AF:00.0")]
    ours = host(Scenario(gpus)).open(2)
    wanted = ours.call("DeviceGetHandleByIndex", 1)
    assert ours.call("DeviceGetHandleByUUID", gpus[1].uuid) == wanted
    assert ours.call("DeviceGetHandleByPciBusId", "0000:af:00.0") == wanted
    assert ours.code("DeviceGetHandleByIndex", 2) == INVALID
    assert ours.code("DeviceGetHandleByUUID", "GPU-none") == NOT_FOUND
    assert ours.code("DeviceGetHandleByPciBusId", "00000000:AE:00.0") == NOT_FOUND
    assert ours.code("DeviceGetHandleByPciBusId", "AE") == INVALID


def test_the_system_tells_its_versions(host: Start) -> None:
    ours = host(Scenario([], driver_version="550.54.15", nvml_version="12.550", cuda_version=12_040)).open(0)
    assert ours.call("SystemGetDriverVersion") == "550.54.15"
    assert ours.call("SystemGetNVMLVersion") == "12.550"
    assert ours.call("SystemGetCudaDriverVersion") == 12_040
    assert ours.call("SystemGetCudaDriverVersion_v2") == 12_040


def test_reserved_memory_is_used_memory_to_the_older_function(host: Start) -> None:
    gpu = GpuState.default(0, memory_total=1000 * MIB, memory_used=300 * MIB, memory_reserved=100 * MIB)
    ours = host(Scenario([gpu])).open(1)
    older, newer = ours.device("MemoryInfo", 0), ours.device("MemoryInfo", 0, pynvml.nvmlMemory_v2)
    assert older == {"total": 1000 * MIB, "free": 600 * MIB, "used": 400 * MIB}
    newer.pop("version")
    assert newer == {"total": 1000 * MIB, "reserved": 100 * MIB, "free": 600 * MIB, "used": 300 * MIB}


def test_a_structure_of_another_version_is_refused(host: Start) -> None:
    ours = host(Scenario([GpuState.default(0)])).open(1)
    assert ours.code("DeviceGetMemoryInfo", "@0", pynvml.nvmlMemory_v2 + 1) == 25


def test_utilization_is_that_of_the_gpu_and_of_its_memory(host: Start) -> None:
    ours = host(Scenario([GpuState.default(0, utilization=73, memory_activity=41, encoder=5, decoder=7)])).open(1)
    assert ours.device("UtilizationRates", 0) == {"gpu": 73, "memory": 41}
    assert ours.device("EncoderUtilization", 0)[0] == 5
    assert ours.device("DecoderUtilization", 0)[0] == 7


@pytest.mark.parametrize("function", [*ONE_FIGURE, "ClockInfo", "PcieThroughput"])
def test_what_is_absent_is_not_supported(host: Start, function: str) -> None:
    ours = host(Scenario([GpuState.default(0, **dict.fromkeys(EVERY_FIGURE))])).open(1)
    arguments = ONE_FIGURE.get(function, ((0,), ""))[0]
    assert ours.code(f"DeviceGet{function}", "@0", *arguments) == NOT_SUPPORTED


def test_a_consumers_card_does_not_measure_half_of_it(host: Start) -> None:
    ours = host(Scenario([GpuState.consumer(0)])).open(1)
    for function in ("MigMode", "RemappedRows", "NumaNodeId"):
        assert ours.code(f"DeviceGet{function}", "@0") == NOT_SUPPORTED
    ids = [getattr(pynvml, f"NVML_FI_DEV_{name}") for name in FIELDS]
    codes = [value["nvmlReturn"] for value in ours.device("FieldValues", 0, ids)]
    assert codes.count(0) == 2  # the energy, PCIe replays
    assert ours.code("DeviceGetNvLinkState", "@0", 0) == NOT_SUPPORTED
    assert ours.device("PowerUsage", 0) == GpuState.consumer(0).power


def test_under_mig_no_utilization_is_known(host: Start) -> None:
    ours = host(Scenario([GpuState.default(0, mig=1), GpuState.default(1)])).open(2)
    assert ours.device("MigMode", 0) == [1, 1]
    assert ours.device("MigMode", 1) == [0, 0]
    for function in ("UtilizationRates", "EncoderUtilization", "DecoderUtilization"):
        assert ours.code(f"DeviceGet{function}", "@0") == NOT_SUPPORTED
        assert ours.code(f"DeviceGet{function}", "@1") == 0
    assert ours.code("DeviceGetSamples", "@0", 1, 0) == NOT_SUPPORTED
    assert ours.device("PowerUsage", 0) == GpuState.default(0).power


def test_remapped_rows_are_four_figures(host: Start) -> None:
    rows = {"correctable": 1, "uncorrectable": 2, "pending": 1, "failure": 0}
    ours = host(Scenario([GpuState.default(0, **{f"remapped_{kind}": n for kind, n in rows.items()})])).open(1)
    assert ours.device("RemappedRows", 0) == list(rows.values())


def test_processes_are_listed_with_their_memory_and_name(host: Start) -> None:
    gpu = GpuState.default(
        0,
        processes=[Process(41, 5 * MIB, "/usr/bin/python3"), Process(42, None, "/opt/with space/train")],
        graphics_processes=[Process(43, 7 * MIB, "/usr/bin/Xorg")],
    )
    ours = host(Scenario([gpu, GpuState.default(1)])).open(2)
    compute = ours.device("ComputeRunningProcesses", 0)
    assert [(each["pid"], each["usedGpuMemory"]) for each in compute] == [(41, 5 * MIB), (42, None)]
    assert {each["gpuInstanceId"] for each in compute} == {ONES}
    assert [each["pid"] for each in ours.device("GraphicsRunningProcesses", 0)] == [43]
    assert ours.device("ComputeRunningProcesses", 1) == []
    assert ours.call("SystemGetProcessName", 42) == "/opt/with space/train"
    assert ours.code("SystemGetProcessName", 44) == NOT_FOUND


def test_no_process_was_sampled(host: Start) -> None:
    ours = host(Scenario([GpuState.default(0)])).open(1)
    assert ours.code("DeviceGetProcessUtilization", "@0", 0) == NOT_FOUND


def test_the_topology_is_that_of_each_pair(host: Start) -> None:
    three = [GpuState.default(index) for index in range(3)]
    ours = host(Scenario(three, topology_level=50, topology={(0, 1): 10})).open(3)
    levels = [ours.device("TopologyCommonAncestor", one, f"@{other}") for one, other in ((0, 1), (1, 0), (1, 2))]
    assert levels == [10, 10, 50]
    without = host(Scenario(three, topology_level=None)).open(3)
    assert without.code("DeviceGetTopologyCommonAncestor", "@0", "@1") == NOT_SUPPORTED


def test_nvlinks_lead_to_gpus_and_switches_or_nowhere(host: Start) -> None:
    ends = ["00000000:65:00.0", "switch", "switch 00000000:C5:00.0", "down"]
    ours = host(Scenario([GpuState.default(0, nvlinks=ends)])).open(1)
    assert [ours.device("NvLinkState", 0, lane) for lane in range(4)] == [1, 1, 1, 0]
    assert [ours.device("NvLinkRemoteDeviceType", 0, lane) for lane in range(3)] == [0, 2, 2]
    assert ours.device("NvLinkRemotePciInfo", 0, 0)["busId"] == "00000000:65:00.0"
    assert ours.device("NvLinkRemotePciInfo", 0, 2)["busId"] == "00000000:C5:00.0"
    for lane in (1, 3):
        assert ours.code("DeviceGetNvLinkRemotePciInfo", "@0", lane) == NOT_SUPPORTED
    assert ours.code("DeviceGetNvLinkState", "@0", 4) == NOT_SUPPORTED
    assert ours.code("DeviceGetNvLinkState", "@0", 99) == INVALID
