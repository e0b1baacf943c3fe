"""Preflight checks of GPUs: driver, container toolkit, health, GPU pair, memory limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from fleet.checks.finding import ON_GPUS, TRAINER, Finding, Level, package
from fleet.command_line import fab
from fleet.facts.fact import Unknown, known
from fleet.facts.gpus import HostGpu, is_absent, short_bus_id
from fleet.facts.host import HostFacts
from fleet.images.cuda import CudaNeed, supported
from fleet.images.cuda import text as cuda_text
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import WORKER
from fleet.release.gpu_assignment import Assignment
from fleet.release.gpu_selection import GpuSelection

RESTART_DOCKER = "systemctl restart docker"
_DRIVER = (
    f"{package('ubuntu-drivers-common')} && ubuntu-drivers install --gpgpu || "  # Ubuntu, else Debian
    f'{package("nvidia-driver nvidia-smi")} linux-headers-"$(dpkg --print-architecture)"'
)
_BLOCKED = r"blocked by the operating system"  # of WSL, which has no PCI bus
_NO_SMI = (  # words of nvidia-smi → what helps
    (r"version mismatch", "the driver was updated, and its old kernel module is still loaded: reboot the host"),
    (
        r"couldn't communicate",
        "load the kernel module: sudo modprobe nvidia says what is wrong (after a kernel update: install its headers, "
        "then sudo dkms autoinstall; with Secure Boot: sign the module, mokutil --import)",
    ),
    (
        r"No devices were found",
        "sudo dmesg | grep NVRM says why the driver refuses the cards: power, PCIe, open kernel modules too new or too "
        "old for them, or a hypervisor that keeps them",
    ),
    (
        r"initialize NVML: (Unknown Error|Insufficient Permissions)",
        "the login may not open the devices: ls -l /dev/nvidia*; in a virtual container (LXC) allow them in its cgroup",
    ),
    (
        r"device handle|GPU is lost",
        "that card has fallen off the bus, and this nvidia-smi answers for no other: reboot the host; where it "
        "recurs, see sudo dmesg (NVRM, Xid), reseat the card and its power, or have it replaced",
    ),
    (
        _BLOCKED,
        "restart the virtual machine that Windows runs (wsl --shutdown), then Windows",
    ),
    (
        r"libnvidia-ml",
        "install the driver's libraries in the version of its kernel module (cat /proc/driver/nvidia/version)",
    ),
    (r"^timed out$", "the driver hangs: see sudo dmesg (NVRM, Xid), then reboot the host"),
    (r"", "repair the driver until nvidia-smi works (dmesg: NVRM and Xid), then deploy again"),
)
NAME_THE_OTHERS = "name the GPUs to use, without it, as gpus in the inventory"
# nvml.h, nvmlClocksEventReason…: throttling by power or temperature.
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
        return "trainer" in host.roles or host.speaks_on_gpus or host.own_gpus > 0
    return host.gpus not in (0, ())


def check_all(facts: HostFacts, host: Host, cuda: Mapping[str, CudaNeed], assignment: Assignment) -> Iterator[Finding]:
    """All findings on the GPUs of the host."""
    if isinstance(facts.gpus, Unknown):
        if expects_gpus(host):
            yield _without_gpus(facts.gpus.reason, facts.gpu_cards)
        return
    selection = assignment.selection
    yield from inventory(facts.gpus, host, selection)
    if facts.gpus:
        yield from driver(_readable(facts.gpus), host, cuda)
        yield from kernels(facts.gpus, host, cuda, assignment)
        yield from toolkit(facts)
        yield from numa(facts)
    for gpu in (gpu for gpu in facts.gpus if gpu.uuid not in selection.unlisted):
        yield from memory_errors(gpu, selection)
        yield from state(gpu, selection)
        for check in () if gpu.uuid in selection.left_out else _EACH:
            yield from check(gpu)
    for said in facts.unread_health:
        remedy = "run it on the host: nvidia-smi -q; a driver that answers other queries only needs a reboot"
        yield Finding("WARN", "gpu_state", f"the health of the GPUs is not known: {said}", remedy)
    yield from pair(assignment)
    yield from limits(assignment)


def _without_gpus(said: str, cards: int | Unknown | None) -> Finding:
    if cards == 0 and not re.search(_BLOCKED, said):
        found = f"the host has no NVIDIA GPU on its PCI bus (nvidia-smi: {said})"
        remedy = "seat the card (a virtual machine: pass it through), or write gpus: 0 and other roles in the inventory"
        return _fail("nvidia_smi", found, remedy)
    remedy = next(each for words, each in _NO_SMI if re.search(words, said))
    absent = re.search(r"nvidia-smi: (command )?not found", said)
    return _fail("nvidia_smi", f"nvidia-smi fails: {said}", remedy, (_DRIVER,) if absent else ())


def inventory(gpus: tuple[HostGpu, ...], host: Host, selection: GpuSelection) -> Iterator[Finding]:
    """Check: the GPUs match the inventory. Missing ones are left out where enough others remain."""
    remedy = "check nvidia-smi -L and dmesg for a GPU that fell off the bus, or correct gpus in the inventory"
    found = ""
    if isinstance(host.gpus, int) and len(gpus) != host.gpus:
        found = f"{len(gpus)} GPUs, the inventory says {host.gpus}"
    elif isinstance(host.gpus, tuple):
        there = {gpu.uuid for gpu in gpus}
        missing = [uuid for uuid in host.gpus if uuid not in there]
        found = f"missing: {', '.join(missing)}" if missing else ""
        if more := sorted(there - set(host.gpus)):
            said = f"not in the inventory, and not used: {', '.join(more)}"
            yield Finding("INFO", "gpu_inventory", said, "none: add them to gpus in the inventory to use them")
    if found:
        spare = selection.spare and selection.missing > 0
        found += left_out(selection) if spare else ""
        yield Finding("WARN" if spare else "FAIL", "gpu_inventory", found, remedy, services=ON_GPUS)


def left_out(selection: GpuSelection) -> str:
    """Part of a finding on a GPU that is left out."""
    return f"; left out: the services use the other {len(selection.used)}"


def _readable(gpus: tuple[HostGpu, ...]) -> HostGpu:
    """The first GPU whose driver answers for it, else the first."""
    return next((gpu for gpu in gpus if gpu.driver_version[:1].isdigit()), gpus[0])


def driver(gpu: HostGpu, host: Host, cuda: Mapping[str, CudaNeed]) -> Iterator[Finding]:
    """Check: the driver supports the CUDA version of the images of the host's roles."""
    number = gpu.driver_version.partition(".")[0]
    images = {role: "bark" if role == WORKER else role for role in host.roles if role != "bark" or host.speaks_on_gpus}
    for role in (role for role, image in images.items() if image in cuda):
        need = cuda[images[role]]
        if not number.isdigit():
            found = f"unknown driver version: {gpu.driver_version}"
            remedy = f"{role}: the image needs a driver of the {need.least_driver} branch: check it by hand"
            yield Finding("WARN", "driver", found, remedy, services=(role,))
        elif refusal := need.refusal(int(number), gpu.name):
            found = f"driver {gpu.driver_version} does not suit the image of {role}: {refusal}"
            remedy = (
                f"install an NVIDIA driver of the {need.least_driver} branch or newer, and reboot; or build {role} for "
                f"CUDA {cuda_text(supported(int(number)))} or older ({fab()} images --framework)"
            )
            yield Finding("FAIL", "driver", found, remedy, services=(role,), steps=(_DRIVER,))

        elif need.relies_on_base(int(number), gpu.name):
            # NVIDIA's entrypoint, which would select the base's libraries, does not run: see images/trainer/Dockerfile.
            found = (
                f"driver {gpu.driver_version} is older than CUDA {cuda_text(need.version)} of the image of {role}: it "
                "depends on the compatibility libraries of the base"
            )
            remedy = (
                f"install a driver of the {need.least_driver} branch or newer; or, for data centre cards only, NVIDIA "
                "Container Toolkit 1.17.7 or newer, which selects those libraries"
            )
            yield Finding("WARN", "driver_compat", found, remedy, services=(role,))


def kernels(
    gpus: tuple[HostGpu, ...], host: Host, cuda: Mapping[str, CudaNeed], assignment: Assignment
) -> Iterator[Finding]:
    """Check: the TensorFlow of the trainer's image has kernels for the GPUs that train."""
    if TRAINER not in host.roles or TRAINER not in cuda:
        return
    of_image = cuda[TRAINER].kernels
    planned = {each.gpu for each in assignment.workloads if each.workload == "trainer"}
    for gpu in (gpu for gpu in gpus if not planned or gpu.uuid in planned):
        if fault := of_image.fault(gpu.compute_capability):
            found = f"GPU {gpu.index} ({gpu.name}) cannot run the image of the trainer: {fault.partition(': take ')[0]}"
            remedy = (
                "build the image on NVIDIA's TensorFlow 25.02, which has them: "
                'make images ARGS="--image trainer --framework trainer=base", then deploy'
            )
            yield Finding("FAIL", "cuda_kernels", found, remedy, services=(TRAINER,))
        elif of_image.compiled_at_start(gpu.compute_capability):
            found = (
                f"GPU {gpu.index} ({gpu.name}): the driver compiles TensorFlow's kernels at the first start of a run"
            )
            yield Finding("INFO", "cuda_kernels", found, "none: it takes minutes, once", services=(TRAINER,))


def toolkit(facts: HostFacts) -> Iterator[Finding]:
    """Check: containers can use GPUs, and keep them after a systemd reload."""
    if isinstance(facts.docker, Unknown):
        return
    if isinstance(facts.toolkit, Unknown) or not facts.toolkit.present:
        found = "no NVIDIA container toolkit: no hook, no Docker runtime, no CDI specification"
        remedy = (
            "install nvidia-container-toolkit (Debian and Ubuntu lack it: add NVIDIA's apt repository first, as its "
            "installation guide says), sudo nvidia-ctk runtime configure --runtime=docker, restart Docker"
        )
        steps = package("nvidia-container-toolkit"), "nvidia-ctk runtime configure --runtime=docker", RESTART_DOCKER
        yield _fail("toolkit", found, remedy, steps)
        return
    # systemd reapplies device permissions at each reload, for devices that /dev/char lists only.
    if facts.docker.cgroup_driver == "systemd" and not facts.toolkit.cdi and not facts.toolkit.links:
        found = "cgroup driver systemd without /dev/char links of the GPUs: a systemd reload removes them"
        remedy = (
            "sudo nvidia-ctk system create-dev-char-symlinks --create-all (at each boot, by a udev rule), or a CDI "
            "specification (sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)"
        )
        yield Finding("WARN", "cgroup_driver", found, remedy)


def numa(facts: HostFacts) -> Iterator[Finding]:
    """Check: the NUMA node of each GPU is known."""
    if isinstance(facts.numa, Unknown) or facts.numa.nodes < 2:
        return
    for gpu in known(facts.gpus, ()):
        if facts.numa.by_bus_id.get(short_bus_id(gpu.pci_bus_id), 0) < 0:
            found = f"GPU {gpu.index} has NUMA node -1 on a machine with {facts.numa.nodes} nodes: locality unknown"
            remedy = "check the NUMA settings of the firmware (of a virtual machine: of the hypervisor)"
            yield Finding("WARN", "numa", found, remedy)


def mig(gpu: HostGpu) -> Iterator[Finding]:
    """Check: MIG mode is off."""
    if gpu.mig:
        remedy = f"sudo nvidia-smi -i {gpu.index} -mig 0 while it is idle, then reset or reboot"
        yield _fail("mig", f"GPU {gpu.index} is in MIG mode", remedy)


def memory_errors(gpu: HostGpu, selection: GpuSelection) -> Iterator[Finding]:
    """Check: no ECC or row-remapping errors; a GPU with them is left out where enough others remain."""
    spare = gpu.uuid in selection.left_out
    reset = f"stop its processes, then sudo nvidia-smi -i {gpu.index} -r (or reboot); if it recurs, replace the card"
    also = "; a deploy then uses it again" if spare else f"; or {NAME_THE_OTHERS}"
    out = f" ({gpu.uuid}){left_out(selection)}" if spare else ""
    if gpu.ecc_uncorrected:
        found = f"GPU {gpu.index}: {gpu.ecc_uncorrected} uncorrectable ECC errors since the driver was loaded{out}"
        yield Finding("WARN" if spare else "FAIL", "ecc", found, reset + also, services=ON_GPUS)
    if gpu.remap_failed:
        found = f"GPU {gpu.index}: row remapping failed{out}"
        yield Finding("WARN" if spare else "FAIL", "row_remap", found, f"replace the card{also}", services=ON_GPUS)
    elif gpu.remap_pending:
        found = f"GPU {gpu.index}: row remapping pending until a reset{out}"
        yield Finding("WARN" if spare else "FAIL", "row_remap", found, reset + also, services=ON_GPUS)


def state(gpu: HostGpu, selection: GpuSelection) -> Iterator[Finding]:
    """Check: the driver asks for no recovery, and answers what it is asked. A GPU that needs one may be left out."""
    for each in gpu.warnings:
        remedy = "update driver and firmware of the card; have it replaced where it is not what it was"
        yield Finding("WARN", "gpu_state", f"GPU {gpu.index}: nvidia-smi warns: {each}", remedy, services=ON_GPUS)
    said = [f"the driver asks for a recovery ({gpu.recovery_action})"] if gpu.recovery_action else []
    said += [
        f"nvidia-smi cannot read {', '.join(name for name, other in gpu.unread if other == cell)}: {cell}"
        for cell in dict.fromkeys(cell for _, cell in gpu.unread)
    ]
    if not said:
        return
    spare = gpu.uuid in selection.left_out
    found = f"GPU {gpu.index}: {'; '.join(said)}{f' ({gpu.uuid}){left_out(selection)}' if spare else ''}"
    remedy = f"stop its processes, then sudo nvidia-smi -i {gpu.index} -r; reboot where it is lost, or that fails"
    if all(is_absent(cell) for _, cell in gpu.unread) and not gpu.broken:
        remedy = "the driver does not give it to this login: sudo nvidia-smi -q shows whether it gives it to root"
    if gpu.broken:
        remedy += "; a deploy then uses it again" if spare else f"; or {NAME_THE_OTHERS}"
    level: Level = "FAIL" if gpu.broken and not spare else "WARN"
    yield Finding(level, "gpu_state", found, remedy, services=ON_GPUS)


def fabric(gpu: HostGpu) -> Iterator[Finding]:
    """Check: a GPU behind NVSwitch has joined its fabric; before that no program can compute on it (CUDA error 802)."""
    if gpu.fabric is not None and (gpu.fabric != "Completed" or gpu.fabric_status not in (None, "Success")):
        said = ", ".join(filter(None, (gpu.fabric, gpu.fabric_status)))
        found = f"GPU {gpu.index} has not joined its NVLink fabric ({said}): programs fail there with CUDA error 802"
        remedy = (
            "install nvidia-fabricmanager in the driver's version, sudo systemctl enable --now nvidia-fabricmanager; "
            "its log says what is wrong (journalctl -u nvidia-fabricmanager)"
        )
        yield _fail("fabric", found, remedy)


def persistence(gpu: HostGpu) -> Iterator[Finding]:
    """Check: persistence mode is on."""
    if gpu.persistence is False:
        remedy = "sudo systemctl enable --now nvidia-persistenced (or nvidia-smi -pm 1 until the next reboot)"
        found = f"GPU {gpu.index}: persistence mode is off, starts are slow"
        step = "systemctl enable --now nvidia-persistenced || nvidia-smi -pm 1"
        yield Finding("WARN", "persistence", found, remedy, steps=(step,))


def pcie_width(gpu: HostGpu) -> Iterator[Finding]:
    """Check: all PCIe lanes are in use. The generation is not checked: it drops while a GPU idles.

    A GPU in the memory of its machine is not on PCIe, whatever it reports.
    """
    if not gpu.unified and gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
        found = f"GPU {gpu.index} uses {gpu.pcie_width} of {gpu.pcie_width_max} PCIe lanes"
        yield Finding("WARN", "pcie_width", found, "reseat the card, or move it to a slot with all lanes")


def throttling(gpu: HostGpu) -> Iterator[Finding]:
    """Check: the GPU is not throttled now."""
    if causes := [name for bit, name in _THROTTLES.items() if (gpu.clock_events or 0) & bit]:
        found = f"GPU {gpu.index} is throttled: {', '.join(causes)}"
        remedy = "check fans, air flow and the power limit (nvidia-smi -q -d PERFORMANCE,POWER)"
        yield Finding("WARN", "throttling", found, remedy)


def unified(gpu: HostGpu) -> Iterator[Finding]:
    """Report what a GPU without memory of its own has of its machine's."""
    if gpu.unified:
        found = f"GPU {gpu.index} ({gpu.name}) works in the host's memory: {gpu.memory_total_mib} MiB are its part"
        yield Finding("INFO", "memory", found, "none: containers share the other half")


_EACH: tuple[Callable[[HostGpu], Iterator[Finding]], ...] = (mig, fabric, persistence, pcie_width, throttling, unified)


def pair(assignment: Assignment) -> Iterator[Finding]:
    """Check: workloads have GPUs, and data and model GPU have a fast link."""
    if assignment.problem is not None:
        remedy = "check voxyard topology on the host, or remove the role in the inventory"
        yield _fail("pair", f"no GPUs for the workloads: {assignment.problem}", remedy)
    if assignment.reason:
        yield Finding("INFO", "pair", assignment.reason, "none")
    for said in assignment.warnings:
        remedy = "use a better pair, move a card to another slot, or acknowledge the warning"
        yield Finding("WARN", "pair_link", said, remedy, services=(TRAINER,))
    for said in assignment.notes:
        remedy = "run nvidia-smi topo -m (and -p2p r) there; without it any pair counts as equal"
        yield Finding("WARN", "topology", said, remedy, services=(TRAINER,))
    if assignment.peer_access is False:
        found = "no P2P between the GPUs of the pair: transfers go through host memory"
        yield Finding("INFO", "p2p", found, "none: consumer cards have no P2P")


def limits(assignment: Assignment) -> Iterator[Finding]:
    """Report the memory limits of this host."""
    fit = assignment.limits
    if fit is not None:
        data = "" if fit.data is None else f"data {fit.data.limit_mib} MiB, "
        found = (
            f"limits ({fit.policy}): {data}model {fit.model.limit_mib} MiB, "
            f"batch {fit.batch_size}, ring {fit.ring_slots}, buffer {fit.buffer_size}"
        )
        yield Finding("INFO", "limits", found, "none: a deploy writes them into the host plan")


def _fail(check: str, found: str, remedy: str, steps: tuple[str, ...] = ()) -> Finding:
    """Failure that blocks services on GPUs, but not the exporter, which reports such faults."""
    return Finding("FAIL", check, found, remedy, services=ON_GPUS, steps=steps)
