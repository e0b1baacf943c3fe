"""A host's GPUs as the libnvidia-ml of the tests answers them, written as the text file that it reads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

MIB, GIB = 1024**2, 1024**3
XID_EVENTS = 0x8
AN_HOUR_US = 3_600_000_000
NODE, SYSTEM = 40, 50  # nvmlGpuTopologyLevel_t: one socket, several

Series = int | float | str | None
"""A number, what `wave` or `counter` makes, or None: the card does not support it."""

_LISTS = {"mig_instances", "processes", "graphics_processes", "nvlinks", "codes", "field_codes", "latencies_us"}


def wave(*steps: tuple[float, float]) -> str:
    """Values that take turns for ever: (value, seconds) each."""
    return " ".join(f"{value}x{seconds}" for value, seconds in steps)


def counter(start: float, rate: float) -> str:
    """A counter that grows by `rate` a second, from `start` when the scenario's time began."""
    return f"{start}+{rate}/s"


@dataclass(frozen=True)
class Process:
    """A process on a GPU; `memory` is in bytes, None where the driver does not know."""

    pid: int
    memory: int | None
    name: str = "/usr/bin/python3"

    def __str__(self) -> str:
        return f"{'-' if self.memory is None else self.memory} {self.name}"


@dataclass(frozen=True)
class MigInstance:
    """A MIG instance of a GPU; memory in bytes."""

    uuid: str
    total: int = 10 * GIB
    used: int = 0
    name: str = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"

    def __str__(self) -> str:
        return f"{self.uuid} {self.total} {self.used} {self.name}"


@dataclass(frozen=True)
class GpuState:
    """A GPU in NVML's own units: percent, bytes, mW, mJ, °C, MHz, KB/s, KiB. None is what the card does not support.

    `nvlinks` holds for each link a PCI bus id, `switch`, `switch BUS_ID` or `down`; `codes` are return codes of NVML's
    functions, by name, `field_codes` those of single fields, by id, `every_code` that of all which these do not name;
    `latency_us` and `latencies_us` are of this GPU alone, where they differ from the host's.
    """

    uuid: str
    pci_bus_id: str
    name: str = "NVIDIA H100 80GB HBM3"
    pci_device_id: str | None = "233010DE"
    pci_subsystem_id: str | None = "16C110DE"
    compute_capability: str | None = "9.0"
    utilization: Series = 73
    memory_activity: Series = 41
    encoder: Series = 0
    decoder: Series = 12
    memory_total: Series = 80 * GIB
    memory_used: Series = 30 * GIB
    memory_reserved: Series = 600 * MIB
    power: Series = 412_000
    power_instant: Series = 415_000
    power_limit: Series = 700_000
    power_management_limit: Series = 700_000
    power_default_limit: Series = 700_000
    energy: Series = "5000000+412000/s"
    temperature: Series = 61
    temperature_slowdown: Series = None  # of cards before Ada; newer ones have the next
    temperature_margin: Series = None
    memory_temperature: Series = 72
    fan: Series = 35
    clock_graphics: Series = 1755
    clock_sm: Series = 1770
    clock_memory: Series = 2619
    clock_video: Series = 1365
    clock_max_graphics: Series = 1980
    clock_max_sm: Series = 1981
    clock_max_memory: Series = 2620
    clock_max_video: Series = 1545
    clock_events: Series = 0
    pcie_width: Series = 16
    pcie_width_max: Series = 16
    pcie_generation: Series = 5
    pcie_generation_max: Series = 5
    pcie_tx_rate: Series = 2_000_000
    pcie_rx_rate: Series = 3_000_000
    pcie_tx_bytes: Series = "7000000000+2000000000/s"
    pcie_rx_bytes: Series = "9000000000+3000000000/s"
    nvlink_tx: Series = "1000000+4000000/s"
    nvlink_rx: Series = "2000000+5000000/s"
    nvlink_crc_flit: Series = None  # of cards before Hopper, as are the next four
    nvlink_crc_data: Series = None
    nvlink_replay: Series = None
    nvlink_recovery: Series = None
    nvlink_ecc: Series = None
    nvlink_dl_replay: Series = 0  # of Hopper, of each link
    nvlink_dl_recovery: Series = 0
    nvlink_dl_crc: Series = 0
    nvlink5_tx: Series = None  # of Blackwell, of each link; traffic in bytes
    nvlink5_rx: Series = None
    nvlink5_receive: Series = None
    nvlink5_integrity: Series = None
    nvlink5_discard: Series = None
    nvlink5_recovery_failed: Series = None
    nvlink5_recovery: Series = None
    nvlink5_effective: Series = None
    pcie_replays: Series = 0
    ecc_corrected_volatile: Series = 0
    ecc_uncorrected_volatile: Series = 0
    ecc_corrected_aggregate: Series = 2
    ecc_uncorrected_aggregate: Series = 0
    remapped_correctable: Series = 0
    remapped_uncorrectable: Series = 0
    remapped_pending: Series = 0
    remapped_failure: Series = 0
    retired_single_bit: Series = None  # of cards before Ampere, as are the next two
    retired_double_bit: Series = None
    retired_pending: Series = None
    recovery_action: Series = 0
    fabric_state: Series = 3
    fabric_status: Series = 0
    fabric_health: Series = 0
    gpm_sm: Series = 64  # of Hopper and newer, as are the next seven: percent, and MiB/s of the links
    gpm_occupancy: Series = 38
    gpm_tensor: Series = 29
    gpm_dram: Series = 46
    gpm_pcie_tx: Series = 1907
    gpm_pcie_rx: Series = 2861
    gpm_nvlink_tx: Series = 3906
    gpm_nvlink_rx: Series = 4883
    mig: Series = 0
    persistence: Series = 1
    compute_mode: Series = 0
    display_active: Series = 0
    display_mode: Series = 0
    numa_node: Series = 0
    event_types: Series = XID_EVENTS
    lost: bool = False
    lost_after_calls: int | None = None
    every_code: int | None = None
    processes: Sequence[Process] = ()
    graphics_processes: Sequence[Process] = ()
    mig_instances: Mapping[int, MigInstance] = field(default_factory=dict)
    nvlinks: Sequence[str] = ()
    codes: Mapping[str, int] = field(default_factory=dict)
    field_codes: Mapping[int, int] = field(default_factory=dict)
    latency_us: int | None = None
    latencies_us: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def default(cls, index: int = 0, **changes: Any) -> Self:
        """Number `index` of a server's cards, that supports everything, with 18 links into the switches."""
        links = ["switch"] * 18
        return cls(**{"uuid": _uuid(index), "pci_bus_id": _bus_id(index), "nvlinks": links} | changes)

    @classmethod
    def consumer(cls, index: int = 0, **changes: Any) -> Self:
        """Number `index` of a workstation's cards, that does not support about half of it."""
        return cls(**{"uuid": _uuid(index), "pci_bus_id": _bus_id(index)} | _CONSUMER | changes)

    @classmethod
    def blackwell(cls, index: int = 0, **changes: Any) -> Self:
        """Number `index` of a newer server's cards, which count NVLink traffic and errors link by link."""
        return cls.default(index, **_BLACKWELL | changes)

    @classmethod
    def volta(cls, index: int = 0, **changes: Any) -> Self:
        """Number `index` of an older server's cards, which retire pages and count NVLink errors for the whole GPU."""
        return cls.default(index, **_VOLTA | changes)

    def lines(self, index: int) -> list[str]:
        """Description by a scenario."""
        pairs: list[tuple[str, object]] = []
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name not in _LISTS and value is not None:
                pairs.append((_key(each.name), int(value) if isinstance(value, bool) else value))
        pairs += [(f"process.{each.pid}", each) for each in self.processes]
        pairs += [(f"graphics_process.{each.pid}", each) for each in self.graphics_processes]
        pairs += [(f"mig_instance.{number}", each) for number, each in self.mig_instances.items()]
        pairs += [(f"nvlink.{lane}", end) for lane, end in enumerate(self.nvlinks)]
        pairs += [(f"code.{function}", code) for function, code in self.codes.items()]
        pairs += [(f"latency_us.{function}", value) for function, value in self.latencies_us.items()]
        pairs += [(f"field_code.{number}", code) for number, code in self.field_codes.items()]
        return [f"gpu.{index}.{key} = {value}" for key, value in pairs]


_GPM = (
    *("gpm_sm", "gpm_occupancy", "gpm_tensor", "gpm_dram"),
    *("gpm_pcie_tx", "gpm_pcie_rx", "gpm_nvlink_tx", "gpm_nvlink_rx"),
)
_CONSUMER: dict[str, Any] = {
    "name": "NVIDIA GeForce RTX 4090",
    "pci_device_id": "268410DE",
    "compute_capability": "8.9",
    "memory_total": 24564 * MIB,
    "memory_used": 164 * MIB,
    "memory_reserved": 400 * MIB,
    "power": 100_000,
    "power_limit": 450_000,
    "power_management_limit": 450_000,
    "power_default_limit": 450_000,
    "pcie_generation": 4,
    "pcie_generation_max": 4,
    "utilization": 40,
    "display_active": 1,
    "display_mode": 1,
} | dict.fromkeys(
    [
        *("power_instant", "pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx", "nvlink_rx"),
        *("ecc_corrected_volatile", "ecc_uncorrected_volatile", "ecc_corrected_aggregate", "ecc_uncorrected_aggregate"),
        *("remapped_correctable", "remapped_uncorrectable", "remapped_pending", "remapped_failure"),
        *("mig", "numa_node", "memory_temperature", "recovery_action", "fabric_state"),
        *("nvlink_dl_replay", "nvlink_dl_recovery", "nvlink_dl_crc"),
        *_GPM,
    ]
)
_BLACKWELL: dict[str, Any] = (
    {"name": "NVIDIA B200", "pci_device_id": "290110DE", "compute_capability": "10.0"}
    | {"nvlink5_tx": "1000000000+4000000000/s", "nvlink5_rx": "2000000000+5000000000/s"}
    | dict.fromkeys(["nvlink_tx", "nvlink_rx", "nvlink_dl_replay", "nvlink_dl_recovery", "nvlink_dl_crc"])
    | dict.fromkeys(
        [
            *("nvlink5_receive", "nvlink5_integrity", "nvlink5_discard"),
            *("nvlink5_recovery_failed", "nvlink5_recovery", "nvlink5_effective"),
        ],
        0,
    )
)
_VOLTA: dict[str, Any] = (
    {"name": "Tesla V100-SXM2-32GB", "pci_device_id": "1DB510DE", "compute_capability": "7.0"}
    | {"power_limit": 300_000, "power_management_limit": 300_000, "power_default_limit": 300_000, "power": 150_000}
    | {"pcie_generation": 3, "pcie_generation_max": 3, "nvlinks": ["switch"] * 6}
    | dict.fromkeys(
        [
            *("nvlink_crc_flit", "nvlink_crc_data", "nvlink_replay", "nvlink_recovery", "nvlink_ecc"),
            *("retired_single_bit", "retired_double_bit", "retired_pending"),
        ],
        0,
    )
    | dict.fromkeys(
        [
            *("nvlink_dl_replay", "nvlink_dl_recovery", "nvlink_dl_crc", "recovery_action", "fabric_state", "mig"),
            *("remapped_correctable", "remapped_uncorrectable", "remapped_pending", "remapped_failure"),
            *_GPM,
        ]
    )
)


@dataclass(frozen=True)
class Scenario:
    """A host as NVML shows it. A change makes a new one; `write` puts it in place, under running processes too.

    `epoch` (Unix time) is when waves and counters began; without it they begin anew in every process.
    `codes` and `latencies_us` are by function and for all GPUs, `latency_us` is for every function.
    """

    gpus: Sequence[GpuState]
    driver_version: str = "580.65.06"
    nvml_version: str = "13.580.65.06"
    cuda_version: int = 13_000
    init: int = 0
    driver_generation: int = 0
    epoch: float | None = None
    latency_us: int = 0
    latencies_us: Mapping[str, int] = field(default_factory=dict)
    codes: Mapping[str, int] = field(default_factory=dict)
    topology_level: int | None = SYSTEM
    topology: Mapping[tuple[int, int], int] = field(default_factory=dict)
    xids: Sequence[tuple[int, int]] = ()
    trace: Path | None = None

    def with_gpu(self, index: int, **changes: Any) -> Self:
        """The same host with other figures of one GPU."""
        gpus = list(self.gpus)
        gpus[index] = replace(gpus[index], **changes)
        return replace(self, gpus=tuple(gpus))

    def losing(self, index: int) -> Self:
        """GPU `index` falls off the bus. A process that saw it go finds it again only in a new session."""
        return self.with_gpu(index, lost=True)

    def returning(self, index: int) -> Self:
        """GPU `index` is there again, for sessions that are opened from now on."""
        return self.with_gpu(index, lost=False, lost_after_calls=None)

    def hanging(self, index: int, *functions: str) -> Self:
        """Calls to GPU `index`, or these functions alone, return only when the scenario has changed."""
        if not functions:
            return self.with_gpu(index, latency_us=AN_HOUR_US)
        return self.with_gpu(index, latencies_us=dict.fromkeys(functions, AN_HOUR_US))

    def raising(self, index: int, xid: int) -> Self:
        """The driver reports an Xid error of GPU `index`, once to each process."""
        return replace(self, xids=(*self.xids, (index, xid)))

    def driver_gone(self, code: int = 9) -> Self:
        """The driver is unloaded: sessions are lost, and nvmlInit answers `code`."""
        return replace(self, init=code)

    def driver_restarted(self) -> Self:
        """The driver is there, but not the one of before: sessions that were open are lost."""
        return replace(self, init=0, driver_generation=self.driver_generation + 1)

    def text(self) -> str:
        """The file that the library reads."""
        names = ("driver_version", "nvml_version", "cuda_version", "init", "driver_generation", "epoch", "latency_us")
        pairs: list[tuple[str, object]] = [(name, getattr(self, name)) for name in (*names, "trace")]
        pairs += [("topology", self.topology_level)]
        pairs += [(f"latency_us.{function}", value) for function, value in self.latencies_us.items()]
        pairs += [(f"code.{function}", code) for function, code in self.codes.items()]
        pairs += [(f"topology.{one}.{other}", level) for (one, other), level in self.topology.items()]
        pairs += [(f"xid.{number}", f"{index} {xid}") for number, (index, xid) in enumerate(self.xids, start=1)]
        lines = [f"{key} = {value}" for key, value in pairs if value is not None]
        for index, gpu in enumerate(self.gpus):
            lines += gpu.lines(index)
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> Path:
        """Puts the scenario at `path` in one step, so that no reader sees half of it."""
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(self.text())
        Path(name).chmod(0o644)
        return Path(name).replace(path)


def _uuid(index: int) -> str:
    return f"GPU-{index:08x}-aaaa-bbbb-cccc-000000000000"


def _bus_id(index: int) -> str:
    return f"00000000:{0x10 + 0x0B * index:02X}:00.0"


def _key(name: str) -> str:
    for prefix in ("clock_max", "clock"):
        kind = name.removeprefix(f"{prefix}_")
        if kind in ("graphics", "sm", "memory", "video"):
            return f"{prefix}.{kind}"
    return name
