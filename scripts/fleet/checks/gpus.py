"""Preflight checks of the GPUs: driver, toolkit, health, the pair and its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fleet.checks.finding import ON_GPUS, TRAINER, Finding
from fleet.facts.fact import Unknown, known
from fleet.facts.gpu_use import short_bus_id
from fleet.facts.gpus import HostGpu
from fleet.facts.host import HostFacts
from fleet.inventory.hosts import Host
from fleet.release.gpu_assignment import Assignment

DRIVER_MINIMUM = {11: 450, 12: 525, 13: 580}  # CUDA's major version → the driver's
# nvml.h, nvmlClocksEventReason…: what slows a GPU down for lack of power or of cooling.
_THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}


def expects_gpus(host: Host) -> bool:
    """True where the inventory says, or its roles imply, that the host has GPUs."""
    if host.gpus is None:
        return bool({"trainer", "bark"} & set(host.roles))
    return host.gpus not in (0, ())


def check_all(facts: HostFacts, host: Host, cuda: Mapping[str, int], assignment: Assignment) -> Iterator[Finding]:
    """Every finding about the host's GPUs."""
    if isinstance(facts.gpus, Unknown):
        if expects_gpus(host):
            remedy = "repair the driver until nvidia-smi works there (dmesg: NVRM and Xid), then deploy again"
            yield _fail("nvidia_smi", f"nvidia-smi fails: {facts.gpus.reason}", remedy)
        return
    yield from inventory(facts.gpus, host)
    if facts.gpus:
        yield from driver(facts.gpus[0], host, cuda)
        yield from toolkit(facts)
        yield from numa(facts)
    for gpu in facts.gpus:
        for check in _EACH:
            yield from check(gpu)
    yield from pair(assignment)
    yield from limits(assignment)


def inventory(gpus: tuple[HostGpu, ...], host: Host) -> Iterator[Finding]:
    """The GPUs that the inventory names are there."""
    remedy = "look with nvidia-smi -L and dmesg for one that fell off the bus, or correct gpus in the inventory"
    if isinstance(host.gpus, int) and len(gpus) != host.gpus:
        yield _fail("gpu_inventory", f"{len(gpus)} GPUs, the inventory says {host.gpus}", remedy)
    elif isinstance(host.gpus, tuple):
        there = {gpu.uuid for gpu in gpus}
        if missing := [uuid for uuid in host.gpus if uuid not in there]:
            yield _fail("gpu_inventory", f"missing: {', '.join(missing)}", remedy)
        if more := sorted(there - set(host.gpus)):
            yield _fail("gpu_inventory", f"not in the inventory: {', '.join(more)}", remedy)


def driver(gpu: HostGpu, host: Host, cuda: Mapping[str, int]) -> Iterator[Finding]:
    """The driver can run the CUDA of the images of the host's roles; the exporter needs none."""
    number = gpu.driver_version.partition(".")[0]
    for role in (role for role in host.roles if role in cuda):
        least = DRIVER_MINIMUM[cuda[role]]
        if not number.isdigit():
            found = f"the driver's version is not known: {gpu.driver_version}"
            remedy = f"{role}: CUDA {cuda[role]} needs at least {least}: compare yourself"
            yield Finding("WARN", "driver", found, remedy, services=(role,))
        elif int(number) < least:
            found = f"driver {gpu.driver_version}; CUDA {cuda[role]} needs at least {least}"
            remedy = f"{role}: install an NVIDIA driver of the {least} branch or newer, and reboot"
            yield Finding("FAIL", "driver", found, remedy, services=(role,))


def toolkit(facts: HostFacts) -> Iterator[Finding]:
    """Containers can get GPUs, and keep them."""
    if isinstance(facts.docker, Unknown):
        return
    if isinstance(facts.toolkit, Unknown) or not facts.toolkit.present:
        found = "no NVIDIA container toolkit: neither its hook, nor its runtime in Docker, nor a CDI specification"
        remedy = "install nvidia-container-toolkit, sudo nvidia-ctk runtime configure --runtime=docker, restart Docker"
        yield _fail("toolkit", found, remedy)
        return
    # systemd gives the devices of a container anew at each reload, and knows only those that it finds by number.
    if facts.docker.cgroup_driver == "systemd" and not facts.toolkit.cdi and not facts.toolkit.links:
        found = "Docker's cgroup driver is systemd and nothing names the GPUs' devices to it: a reload takes them away"
        remedy = (
            "sudo nvidia-ctk system create-dev-char-symlinks --create-all (at each boot, by a udev rule), or a CDI "
            "specification (sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)"
        )
        yield Finding("WARN", "cgroup_driver", found, remedy)


def numa(facts: HostFacts) -> Iterator[Finding]:
    """The machine says to which of its sockets each GPU belongs."""
    if isinstance(facts.numa, Unknown) or facts.numa.nodes < 2:
        return
    for gpu in known(facts.gpus, ()):
        if facts.numa.by_bus_id.get(short_bus_id(gpu.pci_bus_id), 0) < 0:
            found = f"GPU {gpu.index} has NUMA node -1 on a machine of {facts.numa.nodes} nodes: none is near to it"
            remedy = "look for NUMA in the firmware's settings (and for a virtual machine, in its hypervisor's)"
            yield Finding("WARN", "numa", found, remedy)


def mig(gpu: HostGpu) -> Iterator[Finding]:
    """The GPU is whole."""
    if gpu.mig:
        remedy = f"sudo nvidia-smi -i {gpu.index} -mig 0 while nothing uses it, then reset or reboot"
        yield _fail("mig", f"GPU {gpu.index} is in MIG mode", remedy)


def memory_errors(gpu: HostGpu) -> Iterator[Finding]:
    """The GPU's memory is sound."""
    reset = f"stop what uses it, then sudo nvidia-smi -i {gpu.index} -r (or reboot); if it comes back, replace the card"
    if gpu.ecc_uncorrected:
        found = f"GPU {gpu.index} had {gpu.ecc_uncorrected} uncorrectable memory errors since the driver was loaded"
        yield _fail("ecc", found, reset)
    if gpu.remap_failed:
        found = f"GPU {gpu.index} could not remap a broken row of memory"
        yield _fail("row_remap", found, "replace the card")
    elif gpu.remap_pending:
        yield _fail("row_remap", f"GPU {gpu.index} waits for a reset to remap a broken row of memory", reset)


def persistence(gpu: HostGpu) -> Iterator[Finding]:
    """The driver stays loaded when nothing runs."""
    if gpu.persistence is False:
        remedy = "sudo systemctl enable --now nvidia-persistenced (or nvidia-smi -pm 1 until the next reboot)"
        yield Finding("WARN", "persistence", f"GPU {gpu.index}: persistence mode is off, so each start is slow", remedy)


def pcie_width(gpu: HostGpu) -> Iterator[Finding]:
    """All lanes are in use. The generation is no matter: it drops while a GPU idles."""
    if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
        found = f"GPU {gpu.index} has {gpu.pcie_width} PCIe lanes of {gpu.pcie_width_max}"
        yield Finding("WARN", "pcie_width", found, "seat the card anew, or put it into a slot with all lanes")


def throttling(gpu: HostGpu) -> Iterator[Finding]:
    """Nothing slows the GPU down now."""
    if causes := [name for bit, name in _THROTTLES.items() if (gpu.clock_events or 0) & bit]:
        found = f"GPU {gpu.index} is slowed down now: {', '.join(causes)}"
        remedy = "look at fans, air flow and the power limit (nvidia-smi -q -d PERFORMANCE,POWER)"
        yield Finding("WARN", "throttling", found, remedy)


_EACH: tuple[Callable[[HostGpu], Iterator[Finding]], ...] = (mig, memory_errors, persistence, pcie_width, throttling)


def pair(assignment: Assignment) -> Iterator[Finding]:
    """The workloads have GPUs, and data and model GPU are close to each other."""
    if assignment.problem is not None:
        remedy = "look with voxyard topology on the host, or take the role from it in the inventory"
        yield _fail("pair", f"no GPUs for the workloads: {assignment.problem}", remedy)
    if assignment.reason:
        yield Finding("INFO", "pair", assignment.reason, "nothing to do")
    for said in assignment.warnings:
        remedy = "use the better pair where there is one; else move a card to another slot, or acknowledge this"
        yield Finding("WARN", "pair_link", said, remedy, services=(TRAINER,))
    for said in assignment.notes:
        remedy = "run nvidia-smi topo -m (and -p2p r) there; without it any pair is as good"
        yield Finding("WARN", "topology", said, remedy, services=(TRAINER,))
    if assignment.peer_access is False:
        found = "the GPUs of the pair cannot read each other's memory (no P2P): transfers go through the host"
        yield Finding("INFO", "p2p", found, "nothing to do: consumer cards have none")


def limits(assignment: Assignment) -> Iterator[Finding]:
    """The memory limits that fit this host."""
    fit = assignment.limits
    if fit is not None:
        data = "" if fit.data is None else f"data {fit.data.limit_mib} MiB, "
        found = (
            f"limits ({fit.policy}): {data}model {fit.model.limit_mib} MiB, "
            f"batch {fit.batch_size}, ring {fit.ring_slots}, buffer {fit.buffer_size}"
        )
        yield Finding("INFO", "limits", found, "nothing to do: a deploy writes them into the host's plan")


def _fail(check: str, found: str, remedy: str) -> Finding:
    """Failure for services that compute on GPUs; the exporter is not concerned, as it reports such faults."""
    return Finding("FAIL", check, found, remedy, services=ON_GPUS)
