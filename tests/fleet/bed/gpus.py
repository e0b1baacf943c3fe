"""GPU scenario of a host in the test bed: files for the fake driver library and nvidia-smi."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from fake_driver import HERE as NVML
from fake_driver import NVML_SOURCES
from scenario import GpuState, Scenario, Series
from tests.fleet.bed.programs import run

ABSENT = "[N/A]"
MIB = 1024**2
Links = Mapping[tuple[int, int], str]
"""What lies between two GPUs, by their indices in rising order, as `nvidia-smi topo` names it."""
_COMPUTE_MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")


@dataclass(frozen=True)
class Failure:
    """Failure that every call of nvidia-smi gives instead of an answer."""

    code: int
    out: str = ""
    err: str = ""
    seconds: float = 0.0  # before it says so


DRIVER_GONE = Failure(
    9,
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n",
)


def build_library(path: Path) -> None:
    """Compile libnvidia-ml as the bed uses it, with its scenario at a fixed place. Raises BedError."""
    sources = [*(NVML / source for source in NVML_SOURCES), Path(__file__).with_name("scenario_place.c")]
    flags = ["-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"]
    path.parent.mkdir(parents=True, exist_ok=True)
    run(["gcc", *flags, "-o", path, *sources, "-lm", "-lpthread"])


def write_scenario(
    driver: Path,
    scenario: Scenario,
    *,
    links: Links | None = None,
    p2p: Links | None = None,
    unknown_fields: Sequence[str] = (),
) -> None:
    """Write the library's scenario and nvidia-smi's captures under `driver`, a host's /opt/nvidia.

    Two GPUs that `links` does not name are SYS, two that `p2p` does not name are CNS (consumer cards have no P2P).
    `unknown_fields` are those that an old driver's nvidia-smi does not know.
    """
    captures = driver / "captures"
    captures.mkdir(parents=True, exist_ok=True)
    scenario.write(driver / "scenario")
    rows = [row(index, gpu, scenario.driver_version) for index, gpu in enumerate(scenario.gpus)]
    columns = [name for name in row(0, GpuState.default(), "") if name not in unknown_fields]
    _write_table(captures / "gpus.csv", columns, rows)
    columns = ["gpu_uuid", "gpu_name", "pid", "process_name", "used_memory"]
    _write_table(captures / "processes.csv", columns, _processes(scenario.gpus))
    count = len(scenario.gpus)
    affinity = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID"), ("0-15", "0", "N/A")
    (captures / "topo-m.txt").write_text(matrix(count, links or {}, "SYS", *affinity), encoding="utf-8")
    (captures / "topo-p2p-r.txt").write_text(matrix(count, p2p or {}, "CNS"), encoding="utf-8")


def write_failure(driver: Path, failure: Failure | None) -> None:
    """Plant a failure, or take it away with None."""
    path = driver / "captures" / "failure.json"
    if failure is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(json.dumps(vars(failure)), encoding="utf-8")


def row(index: int, gpu: GpuState, driver_version: str) -> dict[str, str]:
    """Row of nvidia-smi for a GPU, by its names of the fields, in its units: MiB, W, °C, MHz, percent."""
    total, used, reserved = (_first(size) for size in (gpu.memory_total, gpu.memory_used, gpu.memory_reserved))
    free = None if total is None or used is None else total - used - (reserved or 0)
    events = _hexadecimal(gpu.clock_events)
    return {
        "index": str(index),
        "uuid": gpu.uuid,
        "name": gpu.name,
        "driver_version": driver_version,
        "pci.bus_id": gpu.pci_bus_id,
        "compute_cap": gpu.compute_capability or ABSENT,
        "memory.total": _whole(total, MIB),
        "memory.used": _whole(used, MIB),
        "memory.free": _whole(free, MIB),
        "memory.reserved": _whole(reserved, MIB),
        "utilization.gpu": _whole(gpu.utilization),
        "utilization.memory": _whole(gpu.memory_activity),
        "temperature.gpu": _whole(gpu.temperature),
        "fan.speed": _whole(gpu.fan),
        "power.draw": _watts(gpu.power),
        "power.limit": _watts(gpu.power_limit),
        "compute_mode": _said(gpu.compute_mode, lambda mode: _COMPUTE_MODES[int(mode)]),
        "persistence_mode": _switch(gpu.persistence),
        "display_active": _switch(gpu.display_active),
        "display_mode": _switch(gpu.display_mode),
        "mig.mode.current": _switch(gpu.mig),
        "ecc.errors.corrected.volatile.total": _whole(gpu.ecc_corrected_volatile),
        "ecc.errors.uncorrected.volatile.total": _whole(gpu.ecc_uncorrected_volatile),
        "remapped_rows.correctable": _whole(gpu.remapped_correctable),
        "remapped_rows.uncorrectable": _whole(gpu.remapped_uncorrectable),
        "remapped_rows.pending": _said(gpu.remapped_pending, lambda number: "Yes" if number else "No"),
        "remapped_rows.failure": _said(gpu.remapped_failure, lambda number: "Yes" if number else "No"),
        "pcie.link.gen.current": _whole(gpu.pcie_generation),
        "pcie.link.gen.max": _whole(gpu.pcie_generation_max),
        "pcie.link.width.current": _whole(gpu.pcie_width),
        "pcie.link.width.max": _whole(gpu.pcie_width_max),
        "clocks.sm": _whole(gpu.clock_sm),
        "clocks.mem": _whole(gpu.clock_memory),
        "clocks_event_reasons.active": events,
        "clocks_throttle_reasons.active": events,
    }


def matrix(count: int, cells: Links, other: str, headings: Sequence[str] = (), values: Sequence[str] = ()) -> str:
    """A table of `nvidia-smi topo`: names across and down, a cell for each two, the same columns behind every row."""
    names = [f"GPU{index}" for index in range(count)]
    square = {(a, b): cells.get((min(a, b), max(a, b)), other) for a, b in product(range(count), repeat=2)}
    lines = ["\t".join(["", *names, *headings])]
    for a, name in enumerate(names):
        row_cells = [" X " if a == b else square[a, b] for b in range(count)]
        lines.append("\t".join([name, *row_cells, *values]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", ""])


def _processes(gpus: Sequence[GpuState]) -> list[dict[str, str]]:
    return [
        {
            "gpu_uuid": gpu.uuid,
            "gpu_name": gpu.name,
            "pid": str(process.pid),
            "process_name": process.name,
            "used_memory": _whole(process.memory, MIB),
        }
        for gpu in gpus
        for process in gpu.processes
    ]


def _write_table(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)


def _first(series: Series) -> float | None:
    """The value at the scenario's beginning: nvidia-smi here replays one moment."""
    found = re.match(r"-?[\d.]+", str(series))
    return None if series is None or found is None else float(found[0])


def _said(series: Series, word: Callable[[float], str]) -> str:
    value = _first(series)
    return ABSENT if value is None else word(value)


def _whole(series: Series, unit: int = 1) -> str:
    return _said(series, lambda value: str(int(value) // unit))


def _watts(milliwatts: Series) -> str:
    return _said(milliwatts, lambda value: f"{value / 1000:.2f}")


def _switch(series: Series) -> str:
    return _said(series, lambda value: "Enabled" if value else "Disabled")


def _hexadecimal(series: Series) -> str:
    return _said(series, lambda value: f"0x{int(value):016x}")
