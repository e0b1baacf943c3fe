"""Facts from nvidia-smi: GPUs, health, links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleet.facts.fact import Fact, UnexpectedError, Unknown, known
from fleet.ssh.command_batch import verb

_ABSENT = (
    *("", "N/A", "NOT SUPPORTED", "INSUFFICIENT PERMISSIONS", "NOT FOUND", "FUNCTION NOT FOUND", "NO DATA"),
    *("DEPRECATED", "REQUESTED FUNCTIONALITY HAS BEEN DEPRECATED"),
)
_SHARING = re.compile(r"\bGB10\b|Orin|Thor|Xavier|Tegra|nvgpu")  # GPUs that have no memory of their own
_BROKEN = re.compile(r"(?i)is lost|requires? reset|reset required|device handle")
# In place of a row, with the index in newer drivers.
_NO_HANDLE = re.compile(r"(?i)Unable to \w+ the device handle for GPU *(?:(\d+): )?([\w:.]+): .*")
_WARNING = re.compile(
    r"(?:WARNING: |(?=Failed to properly shut down))(.*?(?: at gpu ([\w:.]+))?\s*)"
)  # beside the rows
WARNS = frozenset({14})
"""Exit codes of nvidia-smi that are warnings, with all rows there: infoROM is corrupted."""


@dataclass(frozen=True, slots=True)
class HostGpu:
    """GPU as reported by nvidia-smi; None for values that the card or driver does not report."""

    index: int
    uuid: str  # "lost at" and its PCI address, where nvidia-smi cannot read it
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
    recovery_action: str | None = None  # that the driver asks for, such as Reset
    fabric: str | None = None  # its way into the fabric of NVSwitch: Completed, In Progress, Not Started
    fabric_status: str | None = None  # Success, or what failed
    unread: tuple[tuple[str, str], ...] = ()  # fields that have no value, and what stands there in its place
    warnings: tuple[str, ...] = ()  # of nvidia-smi, that name it
    unified: bool = False  # it works in the memory of its machine (GB10): what it has of that is planned here

    @property
    def broken(self) -> bool:
        """True where the driver asks for a recovery, gives no UUID, or says that the GPU is lost or needs a reset."""
        asks = self.recovery_action is not None
        return asks or any(name == "uuid" or _BROKEN.search(cell) for name, cell in self.unread)


Values = dict[str, Any]
"""Fields of a HostGpu."""


@dataclass(frozen=True, slots=True)
class _Field:
    """Field of a query: its name for nvidia-smi, that of a HostGpu, and its parser, which raises ValueError."""

    asked: str
    name: str
    parse: Callable[[str], object]


def _whole(cell: str) -> int:
    return int(cell, 16 if cell.lower().startswith("0x") else 10)


def _memory(cell: str) -> int | None:
    return int(cell) or None  # a GPU on the memory of its machine may report none at all


def _flag(cell: str) -> bool:
    words = {"enabled": True, "yes": True, "1": True, "disabled": False, "no": False, "0": False}
    if cell.lower() not in words:
        raise UnexpectedError(f"expected Enabled or Disabled, found {cell}")
    return words[cell.lower()]


def _text(cell: str) -> str:
    if re.fullmatch(r"\[.*\]|ERR!", cell):
        raise UnexpectedError(f"expected a name, found {cell}")
    return cell


def _version(cell: str) -> tuple[int, int]:
    major, _, minor = cell.partition(".")
    return int(major), int(minor)


def _action(cell: str) -> str | None:
    if cell.lower() == "unknown":
        raise UnexpectedError(f"expected an action, found {cell}")
    return None if cell.lower() == "none" else _text(cell)


def is_row(line: str) -> bool:
    """True for a row of a query, False for what nvidia-smi says beside the rows."""
    return bool(line.strip()) and not _NO_HANDLE.match(line) and not _WARNING.match(line)


def is_absent(cell: str) -> bool:
    """True for what nvidia-smi prints in the place of a value that card, driver or rights do not give."""
    return cell.strip("[]").upper() in _ABSENT


def short_bus_id(text: str) -> str:
    """PCI address in the kernel's form: `00000000:41:00.0` of nvidia-smi is `0000:41:00.0`."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def number(cell: str) -> int | None:
    """Integer in nvidia-smi output; None for anything else, such as [N/A]."""
    return int(cell) if cell.isdecimal() else None


def _rows(text: str, columns: int) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if is_row(line)]
    if columns > 1 and len(rows) == 1 and is_absent(rows[0][0]):
        return []  # in place of all rows
    if bad := [row for row in rows if len(row) != columns]:
        raise UnexpectedError(f"expected {columns} columns, found {len(bad[0])}")
    return rows


def _read(fields: Sequence[_Field], cells: Sequence[str]) -> Values:
    """Values of one GPU. A cell that cannot be read is noted; it costs neither another cell nor another GPU."""
    values: Values = {}
    unread = []
    for field, cell in zip(fields, cells, strict=True):
        values[field.name] = None
        if not is_absent(cell):
            try:
                values[field.name] = field.parse(cell)
            except ValueError:
                unread.append((field.asked, cell))
    return values | ({"unread": tuple(unread)} if unread else {})


def _query(
    name: str, key: str, fields: Sequence[_Field], *, of: str = "gpu", text: str = ""
) -> Fact[dict[str, Values]]:
    """Fact: values of the GPUs, by the key, their index or UUID. `text`: another command with the same output."""

    def parse(text: str) -> dict[str, Values]:
        return {first: _read(fields, cells) for first, *cells in _rows(text, len(fields) + 1)}

    return Fact(name, text or _asked(key, fields, of), parse, seconds=60, usable=bool, warns=WARNS)


def _asked(key: str, fields: Iterable[_Field], of: str = "gpu") -> str:
    names = ",".join((key, *(field.asked for field in fields)))
    return f"nvidia-smi --query-{of}={names} --format=csv,noheader,nounits"


_IDENTITY = (
    _Field("uuid", "uuid", _text),
    _Field("name", "name", _text),
    _Field("driver_version", "driver_version", _text),
    _Field("pci.bus_id", "pci_bus_id", _text),
    _Field("memory.total", "memory_total_mib", _memory),
    _Field("memory.free", "memory_free_mib", _whole),
    _Field("compute_mode", "compute_mode", _text),
    _Field("persistence_mode", "persistence", _flag),
)


def _gpus(text: str) -> tuple[HostGpu, ...]:
    found = [_gpu(*row) for row in _rows(text, len(_IDENTITY) + 1)]
    lost = [each for line in text.splitlines() if (each := _NO_HANDLE.match(line))]
    if lost and not found:
        raise UnexpectedError("no GPU answers")
    taken = {gpu.index for gpu in found} | {int(each[1]) for each in lost if each[1]}
    free = (number for number in range(len(found) + len(lost)) if number not in taken)
    for each in lost:
        index = int(each[1]) if each[1] else next(free)
        found.append(
            HostGpu(index, f"lost at {each[2]}", "unknown GPU", "unknown", each[2], unread=(("anything", each[0]),))
        )
    said = [each for line in text.splitlines() if (each := _WARNING.fullmatch(line))]
    return tuple(_warned(gpu, said) for gpu in sorted(found, key=lambda gpu: gpu.index))


def _warned(gpu: HostGpu, said: Iterable[re.Match[str]]) -> HostGpu:
    """The GPU with the warnings that name it, and those that name none."""
    bus = short_bus_id(gpu.pci_bus_id)
    return replace(gpu, warnings=tuple(each[1].strip() for each in said if not each[2] or short_bus_id(each[2]) == bus))


def _gpu(index: str, *cells: str) -> HostGpu:
    if not index.isdecimal():
        raise UnexpectedError(f"expected the index of a GPU, found {index}")
    values = _read(_IDENTITY, cells)
    bus = values["pci_bus_id"] or f"index {index}"
    if values["uuid"] is None and "uuid" not in dict(values.get("unread", ())):
        values["unread"] = (*values.get("unread", ()), ("uuid", cells[0]))  # containers get their GPUs by it
    if values["memory_total_mib"] is None and is_absent(cells[4]) and not _SHARING.search(cells[1]):
        values["unread"] = (*values.get("unread", ()), ("memory.total", cells[4]))
    identity = {"uuid": f"lost at {bus}", "name": "unknown GPU", "driver_version": "unknown", "pci_bus_id": bus}
    return HostGpu(int(index), **values | {name: values[name] or text for name, text in identity.items()})


def _as_printed(text: str) -> str:
    if not text.strip():
        raise UnexpectedError("no output")
    return text


# An unknown field fails the whole query: fields that every driver supports have a query of their own.
GPUS = Fact(
    "gpus",
    _asked("index", _IDENTITY),
    _gpus,
    seconds=60,  # without persistence mode the driver may initialize every GPU first
    usable=lambda gpus: any(gpu.unread or gpu.warnings for gpu in gpus),  # otherwise a GPU may be missing
    warns=WARNS,
)
HEALTH = _query(
    "gpu-health",
    "index",
    (
        _Field("mig.mode.current", "mig", _flag),
        _Field("ecc.errors.uncorrected.volatile.total", "ecc_uncorrected", _whole),
        _Field("pcie.link.width.current", "pcie_width", _whole),
        _Field("pcie.link.width.max", "pcie_width_max", _whole),
    ),
)
REMAPS = _query(
    "gpu-remaps",
    "gpu_uuid",
    (
        _Field("remapped_rows.pending", "remap_pending", _flag),
        _Field("remapped_rows.failure", "remap_failed", _flag),
    ),
    of="remapped-rows",
)
CLOCKS = _query(
    "gpu-clocks",
    "index",
    (_Field("clocks_event_reasons.active", "clock_events", _whole),),
    # The second is the field's name until driver 535.
    text=verb("fact_gpu_clocks", "index,clocks_event_reasons.active", "index,clocks_throttle_reasons.active"),
)
CAPABILITIES = _query(  # driver 510 or newer
    "gpu-capabilities", "index", (_Field("compute_cap", "compute_capability", _version),)
)
RECOVERY = _query(  # driver 570 or newer
    "gpu-recovery", "index", (_Field("gpu_recovery_action", "recovery_action", _action),)
)
FABRIC = _query(  # driver 535 or newer
    "gpu-fabric", "index", (_Field("fabric.state", "fabric", _text), _Field("fabric.status", "fabric_status", _text))
)
CARDS = Fact("gpu-cards", verb("fact_gpu_cards"), int)  # on the PCI bus
TOPOLOGY = Fact("topology", "nvidia-smi topo -m", _as_printed, seconds=60, warns=WARNS)
P2P = Fact("p2p", "nvidia-smi topo -p2p r", _as_printed, seconds=60, warns=WARNS)
OF_EACH = (HEALTH, REMAPS, CLOCKS, CAPABILITIES, RECOVERY, FABRIC)
"""Queries that complete the GPUs."""


def with_host_memory(gpus: Sequence[HostGpu], host_mib: int | Unknown) -> tuple[HostGpu, ...]:
    """The GPUs; those without memory of their own share half of their machine's, the processes there have the rest."""
    sharing = [
        gpu
        for gpu in gpus
        if gpu.memory_total_mib is None and not gpu.broken and "memory.total" not in dict(gpu.unread)
    ]
    if isinstance(host_mib, Unknown) or not sharing:
        return tuple(gpus)
    each = host_mib // 2 // len(sharing)
    return tuple(
        replace(gpu, memory_total_mib=each, memory_free_mib=None, unified=True) if gpu in sharing else gpu
        for gpu in gpus
    )


def merged(gpus: Sequence[HostGpu], found: Iterable[Mapping[str, Values] | Unknown]) -> tuple[HostGpu, ...]:
    """GPUs with the values of the other queries; values of a failed query stay None."""
    queries = [known(each, {}) for each in found]
    return tuple(
        _completed(gpu, [each.get(str(gpu.index)) or each.get(gpu.uuid) or {} for each in queries]) for gpu in gpus
    )


def _completed(gpu: HostGpu, parts: Sequence[Values]) -> HostGpu:
    for values in parts:
        gpu = replace(gpu, **values | {"unread": (*gpu.unread, *values.get("unread", ()))})
    return gpu
