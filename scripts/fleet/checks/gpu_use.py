"""Preflight checks of GPU use: foreign processes, free memory against the limits, recent Xid errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet.checks.finding import ON_GPUS, Finding
from fleet.checks.gpus import NAME_THE_OTHERS, left_out
from fleet.command_line import fab
from fleet.facts.fact import Unknown
from fleet.facts.gpu_health import gpu_of, names_a_gpu, recent_critical
from fleet.facts.gpu_use import GpuProcess
from fleet.facts.gpus import HostGpu
from fleet.facts.host import HostFacts
from fleet.release.gpu_assignment import Assignment
from fleet.release.gpu_selection import GpuSelection
from voxyard.host.limits import HEADROOM_MIB

DESKTOP_MIB = 256  # less than any CUDA context uses
_OF_THE_DRIVER = "nvidia-cuda-mps"


def check_all(facts: HostFacts, assignment: Assignment) -> Iterator[Finding]:
    """All findings on GPU use; none where no workload is planned."""
    if isinstance(facts.gpus, Unknown) or not facts.gpus:
        return
    yield from xids(facts, facts.gpus, assignment.selection)
    yield from out_of_work(facts, assignment.selection)
    limits = limits_by_gpu(assignment)
    for gpu in facts.gpus:
        services = tuple(sorted({each.workload for each in assignment.workloads if each.gpu == gpu.uuid}))
        if services:
            yield from compute_mode(gpu, services)
            yield from foreign(facts, gpu, services)
            yield from memory(facts, gpu, services, limits.get(gpu.uuid))
    if assignment.workloads and isinstance(facts.processes, Unknown):
        found = f"GPU processes are not known: {facts.processes.reason}"
        yield Finding("WARN", "gpu_process", found, "check with nvidia-smi on the host", services=ON_GPUS)


def limits_by_gpu(assignment: Assignment) -> Mapping[str, int]:
    """Memory limits of the workloads on each GPU, in MiB, by its UUID."""
    found: dict[str, int] = dict(assignment.bark_limits)
    fit = assignment.limits
    for card in () if fit is None else (fit.data, fit.model):
        if card is not None:
            found[card.uuid] = found.get(card.uuid, 0) + card.limit_mib
    return found


def xids(facts: HostFacts, gpus: tuple[HostGpu, ...], selection: GpuSelection) -> Iterator[Finding]:
    """Check: no recent critical Xid error; a GPU with one is left out where enough others remain."""
    if isinstance(facts.xids, Unknown):
        found = f"Xid errors are not known: {facts.xids.reason}"
        remedy = "sudo usermod -aG systemd-journal USER allows reading them; the exporter reports new ones"
        yield Finding("INFO", "xid", found, remedy)
        return
    for each in recent_critical(facts.xids):
        gpu = gpu_of(each, gpus)
        name = f"GPU at {each.bus_id}" if gpu is None else f"GPU {gpu.index}"
        found = f"{name}, {_ago(each.age_seconds)}: {each.text}"
        lost = gpu is None and names_a_gpu(each)
        if (gpu is not None and gpu.uuid in selection.unlisted) or (lost and selection.unlisted_lost):
            yield Finding("INFO", "xid", f"{found} (not in the inventory, and not used)", "none for the services")
            continue
        spare = selection.spare and (selection.missing > 0 if lost else gpu is not None and gpu.uuid in selection.sick)
        also = "a deploy then uses it again" if spare else f"or {NAME_THE_OTHERS}"
        remedy = (
            "reset it (sudo nvidia-smi -r) or reboot; if it recurs, replace the card (runbook: GpuXidCritical); "
        ) + also
        if spare:
            found += f"{'' if gpu is None else f' ({gpu.uuid})'}{left_out(selection)}"
        yield Finding("WARN" if spare else "FAIL", "xid", found, remedy, services=ON_GPUS)


def out_of_work(facts: HostFacts, selection: GpuSelection) -> Iterator[Finding]:
    """Check: no GPU is marked as sick on the host; one that is stays out where enough others remain."""
    if isinstance(facts.out_of_work, Unknown):
        found = f"sick GPUs are not known: {facts.out_of_work.reason}"
        yield Finding("WARN", "out_of_work", found, "mend the file of marks on the host", services=ON_GPUS)
        return
    for mark in facts.out_of_work:
        spare = selection.spare and mark.uuid in selection.sick
        found = f"{mark}{left_out(selection)}" if spare else str(mark)
        remedy = f"then let it work again: {fab()} gpus --return {mark.uuid} (runbook: GpuOutOfWork)"
        yield Finding("WARN" if spare or mark.works else "FAIL", "out_of_work", found, remedy, services=ON_GPUS)


def compute_mode(gpu: HostGpu, services: tuple[str, ...]) -> Iterator[Finding]:
    """Check: the compute mode allows the planned number of processes."""
    mode = (gpu.compute_mode or "").lower().replace(" ", "_")
    remedy = f"sudo nvidia-smi -i {gpu.index} -c DEFAULT"
    if mode == "prohibited":
        yield Finding(
            "FAIL", "compute_mode", f"GPU {gpu.index} is in compute mode Prohibited", remedy, services=services
        )
    elif mode.startswith("exclusive") and len(services) > 1:
        found = f"GPU {gpu.index} allows one process ({gpu.compute_mode}), {' and '.join(services)} are planned on it"
        yield Finding("FAIL", "compute_mode", found, remedy, services=services)


def foreign(facts: HostFacts, gpu: HostGpu, services: tuple[str, ...]) -> Iterator[Finding]:
    """Check: no foreign process holds memory of the GPU."""
    foreign_processes = [
        each
        for each in processes_on(facts, gpu)
        if not is_ours(facts, each) and not each.name.startswith(_OF_THE_DRIVER)
    ]
    for each in foreign_processes:
        small = each.memory_mib is not None and each.memory_mib < DESKTOP_MIB
        holds = "an unknown amount" if each.memory_mib is None else f"{each.memory_mib} MiB"
        owner = f" of {each.user}" if each.user else ""
        found = f"GPU {gpu.index}: process {each.pid}{owner} ({each.name}), not of voxyard, holds {holds}"
        remedy = f"stop it (ps -fp {each.pid} there shows its command line), or move the roles to another host"
        yield Finding("INFO" if small else "FAIL", "gpu_process", found, remedy, services=services)


def memory(facts: HostFacts, gpu: HostGpu, services: tuple[str, ...], limit: int | None) -> Iterator[Finding]:
    """Check: free memory, plus memory held by our own processes, covers the limits."""
    own_use = [each.memory_mib for each in processes_on(facts, gpu) if is_ours(facts, each)]
    if limit is None or gpu.memory_free_mib is None or None in own_use:
        return
    free = gpu.memory_free_mib + sum(each or 0 for each in own_use)
    remedy = "free memory (nvidia-smi lists its holders), or set memory_policy: recommended"
    if free < limit:
        found = f"GPU {gpu.index} has {free} MiB free, the limits need {limit}"
        yield Finding("FAIL", "gpu_memory", found, remedy, services=services)
    elif free < limit + HEADROOM_MIB // 2:
        found = f"GPU {gpu.index}: {free - limit} MiB free beyond the limits, {HEADROOM_MIB} MiB planned"
        yield Finding("WARN", "gpu_memory", found, remedy, services=services)


def processes_on(facts: HostFacts, gpu: HostGpu) -> tuple[GpuProcess, ...]:
    """Processes that compute on the GPU."""
    return () if isinstance(facts.processes, Unknown) else tuple(p for p in facts.processes if p.gpu == gpu.uuid)


def is_ours(facts: HostFacts, process: GpuProcess) -> bool:
    """True where the process runs in a voxyard container."""
    containers = () if isinstance(facts.containers, Unknown) else facts.containers
    return any(process.is_in(each.id) for each in containers)


def _ago(seconds: float | None) -> str:
    if seconds is None:
        return "since the host's start (its kernel log has no times: kernel.printk_time)"
    return f"{seconds / 3600:.0f} h ago" if seconds >= 3600 else f"{seconds / 60:.0f} min ago"
