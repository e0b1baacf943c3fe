"""GPU selection: GPUs of a host that services may use; unlisted and, where others suffice, sick ones are left out."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.fact import Unknown, known
from fleet.facts.gpu_health import gpu_of, has_memory_fault, names_a_gpu, recent_critical
from fleet.facts.gpus import HostGpu
from fleet.facts.host import HostFacts
from fleet.inventory.hosts import Host


@dataclass(frozen=True, slots=True)
class GpuSelection:
    """Selected and left out GPUs, by UUID.

    `spare` is true where sick or missing GPUs are left out because enough others remain: the trainer keeps its pair,
    Bark a GPU, and no GPU is shared that was not. Without it, nothing is left out for its health.
    """

    used: frozenset[str] = frozenset()
    unlisted: frozenset[str] = frozenset()  # not in the inventory's list
    sick: frozenset[str] = frozenset()  # with a fault
    missing: int = 0  # expected GPUs that nvidia-smi does not list
    spare: bool = False
    unlisted_lost: bool = False  # a GPU that nvidia-smi does not list is none of the inventory's list
    total: int | None = None  # GPUs that the host should have, used or not; None: neither given nor found

    @property
    def left_out(self) -> frozenset[str]:
        """GPUs that are left out for their health."""
        return self.sick if self.spare else frozenset()


def select_gpus(facts: HostFacts, host: Host) -> GpuSelection:
    """Select the GPUs for the services of a host."""
    gpus = () if isinstance(facts.gpus, Unknown) else facts.gpus
    listed = None if not isinstance(host.gpus, tuple) else frozenset(host.gpus)
    mine = [gpu for gpu in gpus if listed is None or gpu.uuid in listed]
    unlisted = frozenset(gpu.uuid for gpu in gpus if gpu not in mine)
    errors = recent_critical(known(facts.xids, ()))
    named = {gpu.uuid for error in errors if (gpu := gpu_of(error, mine)) is not None}
    named |= {mark.uuid for mark in known(facts.out_of_work, ()) if not mark.works}
    sick = frozenset(gpu.uuid for gpu in mine if gpu.broken or has_memory_fault(gpu) or gpu.uuid in named)
    lost = {error.bus_id for error in errors if names_a_gpu(error) and gpu_of(error, gpus) is None}
    expected = _expected(host, len(mine) + len(lost))
    missing = max(0, expected - len(mine))
    healthy = [gpu for gpu in mine if gpu.uuid not in sick and _can_work(gpu)]
    needed = _needed(host, expected)
    spare = bool(sick or missing) and 0 < needed <= len(healthy)
    used = frozenset(gpu.uuid for gpu in mine if not (spare and gpu.uuid in sick))
    total = None if isinstance(facts.gpus, Unknown) and host.gpus is None else expected + len(unlisted)
    return GpuSelection(used, unlisted, sick, missing, spare, listed is not None and not missing, total)


def _expected(host: Host, found: int) -> int:
    """Number of GPUs that the inventory says, else those that were found."""
    if isinstance(host.gpus, tuple):
        return len(host.gpus)
    return found if host.gpus is None else host.gpus


def _needed(host: Host, expected: int) -> int:
    """GPUs that the roles of a host with `expected` GPUs need to work as they do with all of them."""
    pair = min(expected, 2) if "trainer" in host.roles else 0
    return min(expected, pair + host.own_gpus + (1 if host.speaks_on_gpus else 0))


def _can_work(gpu: HostGpu) -> bool:
    return not gpu.mig and gpu.memory_total_mib is not None
