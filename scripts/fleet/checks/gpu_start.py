"""Preflight check: a container with the release's GPU request starts and sees its GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fleet.checks.finding import EXPORTER, ON_GPUS, Finding
from fleet.facts.fact import Unknown, known
from fleet.facts.gpu_start import GpuStart, gpu_start
from fleet.facts.host import HostFacts
from fleet.release.gpu_assignment import Assignment
from fleet.ssh.connection_pool import Session

_LONGEST = 300  # characters of a message: the reason is at the end
_TIMED_OUT = 124
_CONFIGURE = "sudo nvidia-ctk runtime configure --runtime=docker, then restart Docker"
_REMEDIES = (  # words of the engine or the toolkit → what helps
    (
        "could not select device driver",
        "this engine finds no nvidia-container-runtime-hook, and a CDI specification alone does not serve its --gpus: "
        f"install nvidia-container-toolkit, {_CONFIGURE}",
    ),
    (
        "unresolvable CDI devices",
        "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, after each driver update",
    ),
    (
        "unsatisfied condition",
        "the image demands a newer driver (NVIDIA_REQUIRE_CUDA): update it, or take another image",
    ),
    ("version mismatch", "the driver was updated, and its old kernel module is still loaded: reboot the host"),
    ("driver not loaded", "sudo modprobe nvidia says what is wrong; nvidia-smi must work on the host first"),
    (
        "nvidia-uvm",
        "sudo nvidia-modprobe -u -c=0 loads nvidia-uvm and makes its devices (at each boot: nvidia-persistenced)",
    ),
    (
        "ldcache error",
        "ldconfig in /etc/nvidia-container-runtime/config.toml must be that of the host (@/sbin/ldconfig)",
    ),
    (
        "bpf_prog_query",
        "the engine may not set rules for devices, as in a virtual container (LXC): no-cgroups = true in "
        "/etc/nvidia-container-runtime/config.toml, and the devices allowed in the outer container",
    ),
    (
        "cgroup subsystem devices not found",
        "this toolkit does not know cgroup v2: install nvidia-container-toolkit 1.8 or newer",
    ),
    ("file exists", "the image brings files of a driver: remove libnvidia-* and libcuda.so.1 from it, or take another"),
    ("load library failed", f"the toolkit does not find the driver's libraries: sudo ldconfig, {_CONFIGURE}"),
    (
        "mount error",
        "toolkit and driver do not fit: update nvidia-container-toolkit; reboot after an update of the driver",
    ),
    ("unknown device id", "GPUs have changed since the plan: check nvidia-smi -L and gpus in the inventory"),
    ("executable file not found", f"install nvidia-container-toolkit again, {_CONFIGURE}"),
    ("Failed to initialize NVML", "check the cgroup driver (exec-opts of dockerd) and the permissions of /dev/nvidia*"),
)


def with_gpu_start(session: Session, facts: HostFacts, assignment: Assignment) -> HostFacts:
    """Facts with the result of the container; without it on hosts that have no GPUs or no toolkit for them."""
    toolkit = known(facts.toolkit, None)
    if isinstance(facts.docker, Unknown) or toolkit is None or not toolkit.present or not known(facts.gpus, ()):
        return facts
    fact = gpu_start({each.gpu for each in assignment.workloads})
    return replace(facts, gpu_start=fact.among(session.run([fact.command])))


def check_all(facts: HostFacts) -> Iterator[Finding]:
    """Check: the container saw all GPUs that it requested."""
    found, services = facts.gpu_start, (EXPORTER, *ON_GPUS)
    if found is None:
        return
    if isinstance(found, Unknown):
        said = f"no container with GPUs could be tried: {found.reason}"
        yield Finding("WARN", "toolkit", said, "run a container with --gpus all on the host", services=services)
    elif not found.image:
        said = "no container with GPUs was tried: the host has no image yet"
        yield Finding("INFO", "toolkit", said, "none: check again after the first deploy")
    elif found.not_mounted and not found.own:
        said = f"a container started with its GPUs; the image {found.image} cannot run nvidia-smi ({found.command})"
        yield Finding("INFO", "toolkit", said, "none: check again after the first deploy")
    elif (problem := _problem(found, facts)) is not None:
        remedy = next(
            (each for words, each in _REMEDIES if words.lower() in found.said.lower()),
            f"{_CONFIGURE}; then check again",
        )
        yield Finding("FAIL", "toolkit", f"{problem} ({found.command})", remedy, services=services)
    else:
        said = f"a container of image {found.image} saw {len(found.seen)} GPUs ({found.command})"
        yield Finding("INFO", "toolkit", said, "none")


def _problem(found: GpuStart, facts: HostFacts) -> str | None:
    """Reason why the container does not count as started with its GPUs; None where it does."""
    said = " ".join(found.said.split())
    said = said if len(said) <= _LONGEST else f"…{said[-_LONGEST:]}"
    if found.code == _TIMED_OUT:
        return "a container with GPUs did not list them in time"
    if found.not_mounted:
        return "a container started with its GPUs, and the toolkit mounted no nvidia-smi into it"
    if found.code:
        return f"a container with GPUs fails: {said or f'exit code {found.code}'}"
    wanted = found.wanted or tuple(gpu.uuid for gpu in known(facts.gpus, ()))
    missing = [uuid for uuid in wanted if uuid not in found.seen]
    return f"a container does not see GPUs that it requested: {', '.join(missing)}" if missing else None
