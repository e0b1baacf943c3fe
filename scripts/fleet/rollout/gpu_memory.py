"""GPU memory use of a container, compared with its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.errors import HostFailedError
from fleet.facts.fact import Fact, Unknown
from fleet.rollout import commands
from fleet.ssh.connection_pool import Session

HEADROOM_MIB = 1024
"""Overhead of driver and libraries beyond the limit: context, kernels, workspaces."""


@dataclass(frozen=True, slots=True)
class ComputeProcess:
    """Process that uses memory of a GPU."""

    gpu: str
    pid: int
    mib: int | None  # None: not reported by the driver


@dataclass(frozen=True, slots=True)
class GpuMemoryUse:
    """Memory use of a service on one GPU."""

    gpu: str
    limit_mib: int
    mib: int | None  # None: not reported by the driver

    @property
    def over_limit(self) -> bool:
        """True where it exceeds the limit plus the overhead."""
        return self.mib is not None and self.mib > self.limit_mib + HEADROOM_MIB

    def __str__(self) -> str:
        if self.mib is None:
            return f"{self.gpu}: memory use not reported by the driver, limit {self.limit_mib} MiB"
        if self.mib == 0:
            return f"{self.gpu}: no memory in use yet, limit {self.limit_mib} MiB"
        if self.over_limit:
            return f"{self.gpu}: uses {self.mib} MiB, allowed {self.limit_mib} + {HEADROOM_MIB} MiB"
        return f"{self.gpu}: verified {self.mib} of {self.limit_mib} MiB"


def verify(session: Session, what: str, container: str, limits: Mapping[str, int]) -> tuple[str, ...]:
    """Verify the GPU memory limits of `container`; one line of text per GPU. `what` is its name in messages.

    Raises HostFailedError where it exceeds a limit by more than 1 GiB, or where the use is unknown.
    """
    if not limits:
        return ("limits: not enforceable on CPU",)
    answers = session.run([APPS.command, processes(container).command])
    apps, pids = APPS.among(answers), processes(container).among(answers)
    for unknown in (apps, pids):
        if isinstance(unknown, Unknown):
            raise HostFailedError(f"{what}: memory limits cannot be verified: {unknown.reason}")
    if isinstance(apps, Unknown) or isinstance(pids, Unknown):
        raise AssertionError
    found = tuple(gpu_memory_use(limits, apps, pids))
    if over := [each for each in found if each.over_limit]:
        raise HostFailedError(
            f"{what} exceeds its memory limits: {'; '.join(map(str, over))}. "
            "Lower memory_policy or the limits, or find the cause of the excess"
        )
    return tuple(map(str, found))


def gpu_memory_use(
    limits: Mapping[str, int], apps: Iterable[ComputeProcess], pids: frozenset[int]
) -> Iterable[GpuMemoryUse]:
    """GPU memory use of the processes `pids`, per GPU."""
    ours = [app for app in apps if app.pid in pids]
    for gpu, limit in limits.items():
        parts = [app.mib for app in ours if app.gpu == gpu]
        yield GpuMemoryUse(gpu, limit, None if None in parts else sum(part or 0 for part in parts))


def processes(container: str) -> Fact[frozenset[int]]:
    """Process ids of a container."""
    command = commands.processes(container)
    return Fact(command.name, command.text, _pids)


def _compute_processes(text: str) -> tuple[ComputeProcess, ...]:
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    if any(len(row) != 3 for row in rows):
        raise ValueError("expected UUID, process id and MiB")
    return tuple(ComputeProcess(gpu, int(pid), int(mib) if mib.isdigit() else None) for gpu, pid, mib in rows)


def _pids(text: str) -> frozenset[int]:
    head, *rows = text.splitlines()
    if head.strip() != "PID":
        raise ValueError("expected a column PID")
    return frozenset(int(row) for row in rows)


APPS = Fact("compute-apps", commands.compute_apps().text, _compute_processes, commands.compute_apps().seconds)
