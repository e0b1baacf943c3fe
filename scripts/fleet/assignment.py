"""Which workload gets which GPU of a host, and within which limits; decided by the code that the host itself runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fleet.fact import Unknown
from fleet.facts import HostFacts
from fleet.gpu_facts import HostGpu
from fleet.inventory import Host
from voxyard.host import Gpu, HostError
from voxyard.host.limits import BARK_WORKER_MIB, TrainerLimits
from voxyard.host.pairing import unusable
from voxyard.host.plan import Links, plan_trainer
from voxyard.host.topology import TopologyError, parse, parse_p2p


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing that is to run on a GPU."""

    workload: Literal["trainer", "bark"]
    role: Literal["data", "model", "bark"]
    gpu: str  # UUID


@dataclass(frozen=True, slots=True)
class Assignment:
    """What runs where on one host, and why; all of it empty where the inventory wants nothing of its GPUs."""

    workloads: tuple[Workload, ...] = ()
    limits: TrainerLimits | None = None
    reason: str = ""
    warnings: tuple[str, ...] = ()  # of the pair's link
    notes: tuple[str, ...] = ()  # what is not known of the links
    peer_access: bool | None = None  # between the pair; None: not told, or no pair
    problem: str | None = None  # why what the inventory wants has no GPUs


def assign(facts: HostFacts, host: Host) -> Assignment:
    """What the roles of the inventory mean on this host."""
    wanted = {"trainer", "bark"} & set(host.roles)
    if not wanted or isinstance(facts.gpus, Unknown) or not facts.gpus:
        return Assignment()
    gpus = tuple(_as_empty(gpu) for gpu in facts.gpus)
    if "trainer" not in wanted:
        return Assignment(_bark(gpus))
    links = _links(facts)
    shared = BARK_WORKER_MIB["large"] if len(gpus) == 1 and "bark" in wanted else 0
    try:
        plan = plan_trainer(gpus, links, policy=host.memory_policy, shared_with_bark_mib=shared)
    except HostError as error:
        return Assignment(problem=str(error), notes=links.notes)
    data, model = plan.limits.data, plan.limits.model
    taken = {model.uuid} if data is None else {data.uuid, model.uuid}
    left = [gpu for gpu in gpus if shared or gpu.uuid not in taken]
    return Assignment(
        workloads=(
            *([] if data is None else [Workload("trainer", "data", data.uuid)]),
            Workload("trainer", "model", model.uuid),
            *(_bark(left) if "bark" in wanted else ()),
        ),
        limits=plan.limits,
        reason=plan.reason,
        warnings=plan.warnings,
        notes=links.notes,
        peer_access=None if data is None or links.p2p is None else links.p2p.ok(data.index, model.index),
    )


def _bark(gpus: Iterable[Gpu]) -> tuple[Workload, ...]:
    return tuple(Workload("bark", "bark", gpu.uuid) for gpu in gpus if unusable(gpu) is None)


def _links(facts: HostFacts) -> Links:
    """What the host's nvidia-smi says of the links, read as the host itself reads it."""
    if isinstance(facts.topology, Unknown):
        return Links(notes=(f"the links between the GPUs are not known: {facts.topology.why}",))
    try:
        topology = parse(facts.topology)
    except TopologyError as error:
        return Links(notes=(f"the links between the GPUs are not known: {error}",))
    if len(topology.gpus) < 2:
        return Links(topology)
    if isinstance(facts.p2p, Unknown):
        return Links(topology, notes=(f"peer access between the GPUs is not known: {facts.p2p.why}",))
    try:
        return Links(topology, parse_p2p(facts.p2p))
    except TopologyError as error:
        return Links(topology, notes=(f"peer access between the GPUs is not known: {error}",))


def _as_empty(gpu: HostGpu) -> Gpu:
    """The GPU as `voxyard.host` knows it, with all its memory free.

    What is free changes while our own workloads run: a plan that followed it would never be the same twice.
    """
    return Gpu(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        pci_bus_id=gpu.pci_bus_id,
        memory_total_mib=gpu.memory_total_mib,
        memory_free_mib=gpu.memory_total_mib,
        compute_capability=None,
        mig=gpu.mig,
        problem="it could not remap a broken row of memory" if gpu.remap_failed else None,
    )
