"""Preflight checks of space: disks, shared memory, lockable memory."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.checks.finding import ON_GPUS, Finding
from fleet.checks.requirements import HostRequirements
from fleet.facts.fact import Unknown, known
from fleet.facts.host import HostFacts
from fleet.inventory.hosts import Host

SHARED_BYTES = 1 << 30  # what worker processes and NCCL pass to each other through /dev/shm
LOCKED_BYTES = 1 << 30  # pinned buffers; the compose files ask for no limit at all


def check_all(facts: HostFacts, host: Host, requirements: HostRequirements) -> Iterator[Finding]:
    """All findings about space."""
    yield from disks(facts, host, requirements)
    if {"trainer", "bark"} & set(host.roles):
        yield from shared_memory(facts)
        yield from locked_memory(facts)


def disks(facts: HostFacts, host: Host, requirements: HostRequirements) -> Iterator[Finding]:
    """The images that are missing fit under Docker's root, the artefacts into the home, with something to spare."""
    docker = requirements.docker_bytes(host, known(facts.images, frozenset()))
    home = requirements.home_bytes(host, known(facts.artefact_bytes_present, 0))
    if isinstance(facts.disk, Unknown):
        if not isinstance(facts.docker, Unknown):
            found = f"the free space under Docker's root is not known: {facts.disk.reason}"
            yield Finding("WARN", "disk", found, "look with df on the host")
    else:
        one = not isinstance(facts.home_disk, Unknown) and facts.home_disk.path == facts.disk.path
        wanted = docker + (home if one and host.name in requirements.artefact_bytes else 0)
        if facts.disk.free_bytes < wanted:
            free = _gib(facts.disk.free_bytes)
            found = f"{free} free under Docker's root ({facts.disk.path}), {_gib(wanted)} needed"
            remedy = "make room: docker system df shows what images take, docker image prune"
            yield Finding("FAIL", "disk", found, remedy)
        if one:
            return
    if isinstance(facts.home_disk, Unknown):
        found = f"the free space in the home of {host.user} is not known: {facts.home_disk.reason}"
        yield Finding("WARN", "disk", found, "look with df on the host; the home must be there, and writable")
    elif facts.home_disk.free_bytes < home:
        found = f"{_gib(facts.home_disk.free_bytes)} free in the home ({facts.home_disk.path}), {_gib(home)} needed"
        yield Finding("FAIL", "disk", found, "make room: du -sh ~/.voxyard/* shows what is kept there")


def shared_memory(facts: HostFacts) -> Iterator[Finding]:
    """Check: the data that processes exchange fits into the machine's shared memory, which GPU containers use."""
    if isinstance(facts.shared_memory, Unknown):
        found = f"there is no shared memory: {facts.shared_memory.reason}"
        yield Finding("WARN", "shm", found, "mount a tmpfs on /dev/shm there", services=ON_GPUS)
    elif facts.shared_memory.size_bytes < SHARED_BYTES:
        size = _gib(facts.shared_memory.size_bytes)
        found = f"{size} of shared memory ({facts.shared_memory.path}), at least {_gib(SHARED_BYTES)} is good"
        remedy = "sudo mount -o remount,size=8g /dev/shm, and the same in /etc/fstab"
        yield Finding("WARN", "shm", found, remedy, services=ON_GPUS)


def locked_memory(facts: HostFacts) -> Iterator[Finding]:
    """The engine can give a container as much locked memory as the compose files ask for."""
    if isinstance(facts.engine_limits, Unknown):
        return  # the engine runs where this login does not see it: nothing speaks against it
    locked = facts.engine_limits.locked_bytes
    if locked is not None and locked < LOCKED_BYTES and not facts.engine_limits.raises:
        found = f"Docker may lock {locked >> 20} MiB and cannot raise that: containers that ask for more do not start"
        remedy = "LimitMEMLOCK=infinity for docker.service (sudo systemctl edit docker), then restart Docker"
        yield Finding("WARN", "memlock", found, remedy, services=ON_GPUS)


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
