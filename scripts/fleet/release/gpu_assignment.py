"""GPU assignment: workloads to GPUs of a host, with memory limits; uses the placement code of voxyard.host."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fleet.facts.fact import Unknown, known
from fleet.facts.gpus import HostGpu
from fleet.facts.host import HostFacts
from fleet.inventory.hosts import Host
from fleet.release.gpu_selection import GpuSelection, select_gpus
from voxyard.host.errors import HostError
from voxyard.host.limits import BARK_WORKER_MIB, TrainerLimits, bark_limit_mib
from voxyard.host.nvml import Gpu
from voxyard.host.pairing import unusable
from voxyard.host.plan import Links, TrainerPlan, plan_trainer
from voxyard.host.topology import TopologyError, parse, parse_p2p


@dataclass(frozen=True, slots=True)
class Workload:
    """Workload on one GPU."""

    workload: str  # trainer, bark, or a service of the operator's own
    role: Literal["data", "model", "bark", "custom"]
    gpu: str  # UUID


@dataclass(frozen=True, slots=True)
class Assignment:
    """GPU assignment of one host; empty where no role needs GPUs."""

    workloads: tuple[Workload, ...] = ()
    limits: TrainerLimits | None = None
    bark_limits: Mapping[str, int] = field(default_factory=dict)  # MiB per worker, by UUID
    reason: str = ""
    warnings: tuple[str, ...] = ()  # about the link of the pair
    notes: tuple[str, ...] = ()  # unknown link properties
    peer_access: bool | None = None  # between the pair; None: unknown or no pair
    problem: str | None = None  # reason why workloads have no GPUs
    selection: GpuSelection = field(default_factory=GpuSelection)


def assign(facts: HostFacts, host: Host) -> Assignment:
    """Assign the roles of the inventory to the GPUs of the host.

    GPUs that the inventory does not list get nothing, nor do sick ones where enough others remain.
    """
    selection = select_gpus(facts, host)
    found = _assign(facts, host, selection)
    if selection.spare and (found.problem is not None or not found.workloads):
        selection = replace(selection, used=selection.used | selection.sick, spare=False)
        found = _assign(facts, host, selection)
    return replace(found, selection=selection)


def _assign(facts: HostFacts, host: Host, selection: GpuSelection) -> Assignment:
    wanted = ({"trainer"} & set(host.roles)) | ({"bark"} if host.speaks_on_gpus else set())
    if not (wanted or host.own_gpus) or isinstance(facts.gpus, Unknown) or not facts.gpus:
        return Assignment()
    gpus = tuple(_as_empty(gpu, selection) for gpu in facts.gpus)
    links = _links(facts)
    try:
        own = _own(gpus, links, host)
    except HostError as error:
        return Assignment(problem=str(error), notes=links.notes)
    taken = {each.gpu for each in own}
    found = _ours(tuple(gpu for gpu in gpus if gpu.uuid not in taken), links, host, wanted)
    return replace(found, workloads=(*found.workloads, *own))


def _own(gpus: Sequence[Gpu], links: Links, host: Host) -> tuple[Workload, ...]:
    """GPUs of the operator's own services: the last of those that the trainer leaves, the pair's before one GPU's.

    Raises HostError where there are not so many.
    """
    if not host.own_gpus:
        return ()
    fit, spared = _fit(gpus), 1 if host.speaks_on_gpus else 0
    if "trainer" in host.roles:
        for single in (False, True):
            fit = _fit(_left(gpus, plan_trainer(gpus, links, policy=host.memory_policy, single=single)))
            if len(fit) >= host.own_gpus + spared:
                break
    if len(fit) < host.own_gpus + spared:
        who = ", ".join(name for name, each in host.own_services.items() if each.gpus)
        raise HostError(
            f"{who}: expected {host.own_gpus} GPUs beside those of the other roles, found {max(0, len(fit) - spared)}"
        )
    names = [name for name, each in host.own_services.items() for _ in range(each.gpus)]
    return tuple(Workload(name, "custom", gpu.uuid) for name, gpu in zip(names, fit[-host.own_gpus :], strict=True))


def _ours(gpus: Sequence[Gpu], links: Links, host: Host, wanted: Collection[str]) -> Assignment:
    """Assignment of these GPUs to the trainer and to Bark."""
    if not wanted:
        return Assignment()
    if "trainer" not in wanted:
        return _with_bark(Assignment(), gpus, host, 0)
    try:
        plan, shared = _trainer(gpus, links, host, beside_bark="bark" in wanted)
    except HostError as error:
        return Assignment(problem=str(error), notes=links.notes)
    data, model = plan.limits.data, plan.limits.model
    assignment = Assignment(
        workloads=(
            *([] if data is None else [Workload("trainer", "data", data.uuid)]),
            Workload("trainer", "model", model.uuid),
        ),
        limits=plan.limits,
        reason=plan.reason,
        warnings=plan.warnings,
        notes=links.notes,
        peer_access=None if data is None or links.p2p is None else links.p2p.ok(data.index, model.index),
    )
    if "bark" not in wanted:
        return assignment
    return _with_bark(assignment, gpus if shared else _left(gpus, plan), host, shared)


def _trainer(gpus: Sequence[Gpu], links: Links, host: Host, *, beside_bark: bool) -> tuple[TrainerPlan, int]:
    """Trainer plan, and the MiB that it leaves for Bark on shared GPUs; 0 where Bark has GPUs of its own.

    Bark must get a GPU: a pair that takes all GPUs is shared where memory suffices for both; otherwise the trainer
    uses one GPU alone, and only the last GPU is shared. Raises HostError.
    """
    plan = plan_trainer(gpus, links, policy=host.memory_policy)
    if not beside_bark or _fit(_left(gpus, plan)):
        return plan, 0
    worker = BARK_WORKER_MIB["large"]
    shared = plan_trainer(gpus, links, policy=host.memory_policy, shared_with_bark_mib=worker)
    alone = plan_trainer(gpus, links, policy=host.memory_policy, single=True)
    if shared.limits.data is not None or not _fit(_left(gpus, alone)):
        return shared, worker
    return replace(alone, reason=f"GPU{alone.limits.model.index} trains alone, the other GPUs are assigned to Bark"), 0


def _with_bark(assignment: Assignment, gpus: Sequence[Gpu], host: Host, shared: int) -> Assignment:
    """Assignment with a Bark worker on each usable GPU; `shared`: MiB that a trainer leaves there."""
    fit = _fit(gpus)
    if not fit and assignment.problem is None:
        reasons = ", ".join(f"GPU{gpu.index} ({unusable(gpu)})" for gpu in gpus) or "the trainer has all of them"
        return replace(assignment, problem=f"no GPU of this host can speak: {reasons}")
    try:
        limits = {gpu.uuid: bark_limit_mib(gpu, policy=host.memory_policy, shared_mib=shared) for gpu in fit}
    except HostError as error:
        return replace(assignment, problem=str(error))
    workers = tuple(Workload("bark", "bark", gpu.uuid) for gpu in fit)
    return replace(assignment, workloads=(*assignment.workloads, *workers), bark_limits=limits)


def _fit(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    return tuple(gpu for gpu in gpus if unusable(gpu) is None)


def _left(gpus: Iterable[Gpu], plan: TrainerPlan) -> tuple[Gpu, ...]:
    """GPUs that the trainer does not use."""
    taken = {plan.limits.model.uuid} | ({plan.limits.data.uuid} if plan.limits.data is not None else set())
    return tuple(gpu for gpu in gpus if gpu.uuid not in taken)


def _links(facts: HostFacts) -> Links:
    """GPU links from nvidia-smi, parsed by voxyard.host."""
    if isinstance(facts.topology, Unknown):
        if len(known(facts.gpus, ())) < 2:
            return Links()
        return Links(notes=(f"the links between the GPUs are not known: {facts.topology.reason}",))
    try:
        topology = parse(facts.topology)
    except TopologyError as error:
        return Links(notes=(f"the links between the GPUs are not known: {error}",))
    if len(topology.gpus) < 2:
        lacking = sorted({gpu.index for gpu in known(facts.gpus, ()) if not gpu.broken} - set(topology.indices))
        if not lacking:
            return Links(topology)
        return Links(notes=(f"the links between the GPUs are not known: nvidia-smi topo -m lacks GPU{lacking[0]}",))
    if isinstance(facts.p2p, Unknown):
        return Links(topology, notes=(f"peer access between the GPUs is not known: {facts.p2p.reason}",))
    try:
        return Links(topology, parse_p2p(facts.p2p))
    except TopologyError as error:
        return Links(topology, notes=(f"peer access between the GPUs is not known: {error}",))


def _as_empty(gpu: HostGpu, selection: GpuSelection) -> Gpu:
    """GPU in terms of `voxyard.host`, with all memory free.

    Free memory changes while our workloads run: a plan based on it would not be reproducible.
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
        problem=_problem(gpu, selection),
    )


def _problem(gpu: HostGpu, selection: GpuSelection) -> str | None:
    """Reason why a GPU gets no workload; None where it may get one."""
    if gpu.uuid in selection.unlisted:
        return "the inventory does not list it"
    if gpu.uuid in selection.left_out:
        return "it is left out for its faults"
    return "row remapping failed" if gpu.remap_failed else None
