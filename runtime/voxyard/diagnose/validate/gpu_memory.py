"""GPU memory that this process uses, as NVML reports it, against the limits that were applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from voxyard.host.limits import HEADROOM_MIB
from voxyard.host.nvml import Gpu, every_gpu

Used = Mapping[str, int]  # UUID → MiB in use on the card, by whomever

MIB = 2**20


@dataclass(frozen=True)
class GpuMemoryUse:
    """Memory that this process holds on one card; `allocator_mib` is the peak of TensorFlow's own allocator.

    Context and library workspaces come on top of the allocator: `headroom_mib` is what is planned for them.
    """

    role: str
    index: int
    name: str
    held_mib: int
    limit_mib: int | None
    allocator_mib: int | None = None
    beyond_refused: bool | None = None  # whether the allocator refused more than its limit; None: there is no limit
    headroom_mib: int = HEADROOM_MIB

    @property
    def fault(self) -> str | None:
        """Fault of the card's memory, in words; None where there is none."""
        if self.limit_mib is None:
            return None
        if self.held_mib > self.limit_mib + self.headroom_mib:
            return (
                f"GPU {self.index} ({self.role}) holds {self.held_mib} MiB, {self.limit_mib} MiB is the limit and "
                f"{self.headroom_mib} MiB are planned for context and libraries: the limit is not kept"
            )
        if self.beyond_refused is False:
            return (
                f"GPU {self.index} ({self.role}): TensorFlow gave out more than the limit of {self.limit_mib} MiB, "
                "which is therefore not in force"
            )
        return None

    def __str__(self) -> str:
        limit = "no limit (growth)" if self.limit_mib is None else f"a limit of {self.limit_mib} MiB"
        allocator = "" if self.allocator_mib is None else f", of which TensorFlow's allocator {self.allocator_mib} MiB"
        refused = "; more than the limit was refused" if self.beyond_refused else ""
        card = f"GPU {self.index} ({self.role}, {self.name})"
        return f"{card}: {self.held_mib} MiB held{allocator}, against {limit}{refused}"

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {**asdict(self), "fault": self.fault}


def used_on_every_gpu() -> Used:
    """MiB in use by UUID, of the cards that report it; nothing on a host without GPUs. Raises HostError."""
    return {
        gpu.uuid: gpu.memory_total_mib - gpu.memory_free_mib
        for gpu in every_gpu()
        if gpu.memory_total_mib is not None and gpu.memory_free_mib is not None
    }


def measure(
    cards: Sequence[tuple[str, Gpu]],
    before: Used,
    now: Used,
    limits: Mapping[str, int | None],
    *,
    allocator_mib: Mapping[str, int] | None = None,
    beyond_refused: Mapping[str, bool] | None = None,
) -> tuple[GpuMemoryUse, ...]:
    """Memory that each card of a run holds: what is in use `now` less what was `before` TensorFlow started.

    `limits`, `allocator_mib` and `beyond_refused` go by role. Cards that do not report their memory are left out.
    """
    return tuple(
        GpuMemoryUse(
            role=role,
            index=gpu.index,
            name=gpu.name,
            held_mib=max(0, now[gpu.uuid] - before[gpu.uuid]),
            limit_mib=limits.get(role),
            allocator_mib=(allocator_mib or {}).get(role),
            beyond_refused=None if limits.get(role) is None else (beyond_refused or {}).get(role),
        )
        for role, gpu in cards
        if gpu.uuid in now and gpu.uuid in before
    )


def misplaced(cards: Sequence[tuple[str, Gpu]], before: Used, now: Used) -> str | None:
    """Reason why TensorFlow's work is not on the chosen cards, by the memory that grew; None where it is."""
    grew = {uuid: now[uuid] - before[uuid] for uuid in now.keys() & before.keys()}
    idle = [(role, gpu) for role, gpu in cards if grew.get(gpu.uuid, 1) <= 0]
    if not idle:
        return None
    ours = {gpu.uuid for _, gpu in cards}
    others = ", ".join(f"{uuid} by {more} MiB" for uuid, more in sorted(grew.items()) if more > 0 and uuid not in ours)
    named = ", ".join(f"the {role} GPU {gpu.index} ({gpu.uuid})" for role, gpu in idle)
    return f"after work on it, no memory is held on {named}" + (f"; instead it grew on {others}" if others else "")
