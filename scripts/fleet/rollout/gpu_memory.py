"""GPU memory that the processes of a container really hold, beside their limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.errors import HostFailedError
from fleet.facts.fact import Fact, Unknown
from fleet.rollout import commands
from fleet.ssh.connection_pool import Session

HEADROOM_MIB = 1024
"""Beside its limit a process holds what the driver and the libraries take: context, kernels, workspaces."""


@dataclass(frozen=True, slots=True)
class ComputeProcess:
    """A process that holds memory of a GPU."""

    gpu: str
    pid: int
    mib: int | None  # None: the driver does not tell


@dataclass(frozen=True, slots=True)
class GpuMemoryUse:
    """One GPU of a service."""

    gpu: str
    limit_mib: int
    mib: int | None  # None: the driver does not tell

    @property
    def over_limit(self) -> bool:
        """True where it holds more than its limit and what the driver needs."""
        return self.mib is not None and self.mib > self.limit_mib + HEADROOM_MIB

    def __str__(self) -> str:
        if self.mib is None:
            return f"{self.gpu}: the driver does not tell what is held of {self.limit_mib} MiB"
        if self.mib == 0:
            return f"{self.gpu}: holds nothing yet of {self.limit_mib} MiB"
        if self.over_limit:
            return f"{self.gpu}: holds {self.mib} MiB, {self.limit_mib} + {HEADROOM_MIB} MiB are allowed"
        return f"{self.gpu}: verified {self.mib} of {self.limit_mib} MiB"


def verify(session: Session, what: str, container: str, limits: Mapping[str, int]) -> tuple[str, ...]:
    """GPU memory that `container` holds where it has a limit, in words; `what` names it in messages.

    Raises HostFailedError where it holds more than its limit and 1 GiB, or where that cannot be known.
    """
    if not limits:
        return ("limits: not enforceable on CPU",)
    answers = session.run([APPS.command, processes(container).command])
    apps, pids = APPS.among(answers), processes(container).among(answers)
    for unknown in (apps, pids):
        if isinstance(unknown, Unknown):
            raise HostFailedError(f"{what}: its limits cannot be verified: {unknown.reason}")
    if isinstance(apps, Unknown) or isinstance(pids, Unknown):
        raise AssertionError
    found = tuple(gpu_memory_use(limits, apps, pids))
    if over := [each for each in found if each.over_limit]:
        raise HostFailedError(
            f"{what} does not keep its limits: {'; '.join(map(str, over))}. "
            "Set memory_policy or the limits lower, or find out why it takes more"
        )
    return tuple(map(str, found))


def gpu_memory_use(
    limits: Mapping[str, int], apps: Iterable[ComputeProcess], pids: frozenset[int]
) -> Iterable[GpuMemoryUse]:
    """GPU memory that the processes `pids` hold, a GPU after the other."""
    ours = [app for app in apps if app.pid in pids]
    for gpu, limit in limits.items():
        parts = [app.mib for app in ours if app.gpu == gpu]
        yield GpuMemoryUse(gpu, limit, None if None in parts else sum(part or 0 for part in parts))


def processes(container: str) -> Fact[frozenset[int]]:
    """The process ids of a container."""
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
