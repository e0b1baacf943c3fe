"""Preflight checks of disk space and locked memory."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.checks.finding import ON_GPUS, Finding
from fleet.checks.requirements import SPARE_FILES, HostRequirements
from fleet.facts.fact import Unknown, known
from fleet.facts.host import HostFacts
from fleet.facts.machine import Disk
from fleet.inventory.hosts import Host
from fleet.release.compose import parse

_ELSEWHERE = (
    "; data-root does not move it: root in /etc/containerd/config.toml does, with sudo systemctl restart containerd"
)


def check_all(facts: HostFacts, host: Host, requirements: HostRequirements) -> Iterator[Finding]:
    """All findings on disk and memory."""
    yield from disks(facts, host, requirements)
    if set(ON_GPUS) & set(host.roles):
        yield from locked_memory(facts, host)


def disks(facts: HostFacts, host: Host, requirements: HostRequirements) -> Iterator[Finding]:
    """Check: missing images fit into Docker's directory, missing artefacts into the home, by bytes and by inodes."""
    there = {each.id for each in known(facts.images, ())}
    docker = requirements.docker_bytes(host, there)
    home = requirements.home_bytes(host, known(facts.artefact_bytes_present, 0))
    place, elsewhere = "under Docker's root", ""
    if not isinstance(facts.docker, Unknown) and facts.docker.in_containerd:
        place, elsewhere = "for Docker's images, in containerd's directory", _ELSEWHERE
    if isinstance(facts.disk, Unknown):
        if not isinstance(facts.docker, Unknown):
            found = f"the free space {place} is not known: {facts.disk.reason}"
            yield Finding("WARN", "disk", found, "check df on the host")
    else:
        one = not isinstance(facts.home_disk, Unknown) and facts.home_disk.path == facts.disk.path
        wanted = docker + (home if one and host.name in requirements.artefact_bytes else 0)
        if facts.disk.free_bytes < wanted:
            free = _gib(facts.disk.free_bytes)
            found = f"{free} free {place} ({facts.disk.path}), {_gib(wanted)} needed"
            remedy = "free disk space: docker system df shows usage, docker image prune removes images"
            yield Finding("FAIL", "disk", found, remedy + elsewhere)
        yield from _files(facts.disk, place, requirements.docker_files(host, there))
        if one:
            return
    if isinstance(facts.home_disk, Unknown):
        found = f"the free space in the home of {host.user} is not known: {facts.home_disk.reason}"
        yield Finding("WARN", "disk", found, "check df on the host; the home must exist and be writable")
    elif facts.home_disk.free_bytes < home:
        found = f"{_gib(facts.home_disk.free_bytes)} free in the home ({facts.home_disk.path}), {_gib(home)} needed"
        yield Finding("FAIL", "disk", found, "free disk space: du -sh ~/.voxyard/* shows usage")
    if not isinstance(facts.home_disk, Unknown):
        yield from _files(facts.home_disk, "in the home", SPARE_FILES)


def _files(disk: Disk, place: str, wanted: int) -> Iterator[Finding]:
    if disk.free_files is not None and disk.free_files < wanted:
        found = f"{max(0, disk.free_files)} inodes free {place} ({disk.path}), {wanted} needed"
        remedy = "remove files: sudo du --inodes -xd 3 MOUNT_POINT | sort -n shows where they are (df -i counts them)"
        yield Finding("FAIL", "disk", found, remedy)


def locked_memory(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """Check: the engine can lift the limit of locked memory, as the compose files request it for pinned buffers."""
    if isinstance(facts.engine_limits, Unknown):
        return  # the engine is not visible to this login: no finding
    locked = facts.engine_limits.locked_bytes
    wanted = tuple(name for name in ON_GPUS if name in host.roles and not _own_limits(host, name))
    if locked is not None and not facts.engine_limits.raises and wanted:
        found = (
            f"Docker's memlock limit is {locked >> 20} MiB and it may not raise limits: containers of "
            f"{' and '.join(wanted)}, which request no limit, do not start"
        )
        remedy = "LimitMEMLOCK=infinity for docker.service (sudo systemctl edit docker), then restart Docker"
        yield Finding("FAIL", "memlock", found, remedy, services=wanted)


def _own_limits(host: Host, service: str) -> bool:
    """True where a compose override of the host sets the limits of the service: those decide then."""
    documents = [parse(path.read_bytes(), str(path)) for path in host.compose_overrides if path.is_file()]
    return any("ulimits" in ((each.get("services") or {}).get(service) or {}) for each in documents)


def _gib(count: int) -> str:
    return f"{max(0, count) / (1 << 30):.1f} GiB"
