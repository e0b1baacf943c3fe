"""Facts from nvidia-smi: GPUs, health, links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleet.facts.fact import Fact, Unknown, known
from fleet.ssh.command_batch import verb

_ABSENT = ("", "N/A", "[N/A]", "[NOT SUPPORTED]", "[UNKNOWN ERROR]", "[INSUFFICIENT PERMISSIONS]", "[NOT FOUND]")


@dataclass(frozen=True, slots=True)
class HostGpu:
    """GPU as reported by nvidia-smi; None for values that the card or driver does not report."""

    index: int
    uuid: str
    name: str
    driver_version: str
    pci_bus_id: str
    memory_total_mib: int | None = None
    memory_free_mib: int | None = None
    compute_mode: str | None = None
    persistence: bool | None = None
    mig: bool | None = None
    ecc_uncorrected: int | None = None  # since the driver was loaded
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    clock_events: int | None = None  # bits of nvml.h, nvmlClocksEventReason
    compute_capability: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """Health values of one GPU, for `merged`."""

    mig: bool | None
    ecc_uncorrected: int | None
    pcie_width: int | None
    pcie_width_max: int | None


def _query(*names: str, of: str = "gpu") -> str:
    return f"nvidia-smi --query-{of}={','.join(names)} --format=csv,noheader,nounits"


def _rows(text: str, columns: int) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    if bad := [row for row in rows if len(row) != columns]:
        raise ValueError(f"expected {columns} columns, found {len(bad[0])}")
    return rows


def number(cell: str) -> int | None:
    """Integer in nvidia-smi output; None where the card does not report it."""
    return None if cell.upper() in _ABSENT else int(cell, 16 if cell.lower().startswith("0x") else 10)


def _flag(cell: str) -> bool | None:
    words = {"enabled": True, "yes": True, "1": True, "disabled": False, "no": False, "0": False}
    if cell.upper() in _ABSENT:
        return None
    if cell.lower() not in words:
        raise ValueError(f"expected Enabled or Disabled, found {cell}")
    return words[cell.lower()]


def _gpus(text: str) -> tuple[HostGpu, ...]:
    return tuple(
        HostGpu(
            index=int(index),
            uuid=uuid,
            name=name,
            driver_version=driver,
            pci_bus_id=bus,
            memory_total_mib=number(total),
            memory_free_mib=number(free),
            compute_mode=None if mode.upper() in _ABSENT else mode,
            persistence=_flag(persistence),
        )
        for index, uuid, name, driver, bus, total, free, mode, persistence in _rows(text, 9)
    )


def _health(text: str) -> dict[int, GpuHealth]:
    rows = _rows(text, 5)
    return {int(row[0]): GpuHealth(_flag(row[1]), number(row[2]), number(row[3]), number(row[4])) for row in rows}


def _remaps(text: str) -> dict[str, tuple[bool | None, bool | None]]:
    return {uuid: (_flag(pending), _flag(failed)) for uuid, pending, failed in _rows(text, 3)}


def _clock_events(text: str) -> dict[int, int | None]:
    return {int(index): number(events) for index, events in _rows(text, 2)}


def _capabilities(text: str) -> dict[int, tuple[int, int] | None]:
    found: dict[int, tuple[int, int] | None] = {}
    for index, cell in _rows(text, 2):
        major, _, minor = cell.partition(".")
        found[int(index)] = None if cell.upper() in _ABSENT else (int(major), int(minor))
    return found


def _as_printed(text: str) -> str:
    if not text.strip():
        raise ValueError("no output")
    return text


# An unknown field fails the whole query: fields that every driver supports have a query of their own.
GPUS = Fact(
    "gpus",
    _query(
        "index",
        "uuid",
        "name",
        "driver_version",
        "pci.bus_id",
        "memory.total",
        "memory.free",
        "compute_mode",
        "persistence_mode",
    ),
    _gpus,
    seconds=60,  # without persistence mode the driver may initialize every GPU first
)
HEALTH = Fact(
    "gpu-health",
    _query(
        "index",
        "mig.mode.current",
        "ecc.errors.uncorrected.volatile.total",
        "pcie.link.width.current",
        "pcie.link.width.max",
    ),
    _health,
    seconds=60,
)
REMAPS = Fact(
    "gpu-remaps",
    _query("gpu_uuid", "remapped_rows.pending", "remapped_rows.failure", of="remapped-rows"),
    _remaps,
    seconds=60,
)
CLOCKS = Fact(
    "gpu-clocks",
    # The second is the field's name until driver 535.
    verb("fact_gpu_clocks", "index,clocks_event_reasons.active", "index,clocks_throttle_reasons.active"),
    _clock_events,
    seconds=60,
)
CAPABILITIES = Fact(
    "gpu-capabilities", _query("index", "compute_cap"), _capabilities, seconds=60
)  # driver 510 or newer
TOPOLOGY = Fact("topology", "nvidia-smi topo -m", _as_printed, seconds=60)
P2P = Fact("p2p", "nvidia-smi topo -p2p r", _as_printed, seconds=60)


def merged(
    gpus: Sequence[HostGpu],
    health: dict[int, GpuHealth] | Unknown,
    remaps: dict[str, tuple[bool | None, bool | None]] | Unknown,
    clocks: dict[int, int | None] | Unknown,
    capabilities: dict[int, tuple[int, int] | None] | Unknown,
) -> tuple[HostGpu, ...]:
    """GPUs with the values of the other queries; values of a failed query stay None."""
    states, rows, events = known(health, {}), known(remaps, {}), known(clocks, {})
    generations = known(capabilities, {})
    found = []
    for gpu in gpus:
        state = states.get(gpu.index, GpuHealth(None, None, None, None))
        pending, failed = rows.get(gpu.uuid, (None, None))
        found.append(
            replace(
                gpu,
                mig=state.mig,
                ecc_uncorrected=state.ecc_uncorrected,
                pcie_width=state.pcie_width,
                pcie_width_max=state.pcie_width_max,
                remap_pending=pending,
                remap_failed=failed,
                clock_events=events.get(gpu.index),
                compute_capability=generations.get(gpu.index),
            )
        )
    return tuple(found)
