"""Facts about GPU use: processes, Xid errors in the kernel log, NUMA nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.facts.fact import Fact, UnexpectedError, UnusableError
from fleet.facts.gpus import is_absent, is_row, number, short_bus_id
from fleet.ssh.command_batch import verb
from voxyard.host.errors import HostError
from voxyard.host.out_of_work import Mark, parse_marks

Marks = tuple[Mark, ...]
"""Sick GPUs of a host."""

_XID = re.compile(r"(?:\[\s*(\d+\.\d+)\].*?)?NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)(?: GPU-I:\d+)?\): (\d+)(.*)")


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """Compute process on a GPU, as listed by nvidia-smi."""

    gpu: str  # UUID
    pid: int
    name: str
    memory_mib: int | None
    user: str  # empty where the login cannot see the process
    cgroup: str  # of all hierarchies; a container's holds its id

    def is_in(self, container: str) -> bool:
        """True where it runs in the container with this id."""
        return bool(container) and container in self.cgroup


@dataclass(frozen=True, slots=True)
class XidError:
    """GPU error (Xid) in the kernel log."""

    bus_id: str
    xid: int
    age_seconds: float | None  # None: the kernel writes no times into its log
    text: str


@dataclass(frozen=True, slots=True)
class Numa:
    """Number of NUMA nodes, and the node of each GPU by PCI address; −1 where the machine reports none."""

    nodes: int
    by_bus_id: Mapping[str, int]


def _processes(text: str) -> tuple[GpuProcess, ...]:
    found = []
    for line in text.splitlines():
        said, user, cgroup = line.split("\t")
        if not is_row(said) or said.startswith("No running"):
            continue
        gpu, pid, memory, name = (cell.strip() for cell in said.split(",", 3))
        if pid.isdecimal():  # otherwise the card tells of no processes, or is lost, which its health says
            found.append(GpuProcess(gpu, int(pid), name, number(memory), user, cgroup.strip()))
        elif not (is_absent(pid) or pid.startswith("[")):
            raise UnexpectedError(f"expected the number of a process, found {pid}")
    return tuple(found)


def _xids(text: str) -> tuple[XidError, ...]:
    first, *lines = text.splitlines()
    up = float(first)
    found = [each for line in lines if (each := _XID.search(line))]
    ages = [max(0.0, up - float(each[1])) if each[1] else None for each in found]
    return tuple(
        XidError(each[2], int(each[3]), age, f"Xid {each[3]}{each[4]}") for each, age in zip(found, ages, strict=True)
    )


def _out_of_work(text: str) -> Marks:
    try:
        return tuple(parse_marks(text, "data/exporter/out_of_work.json").values())
    except HostError as error:
        raise UnusableError(str(error)) from error


def _numa(text: str) -> Numa:
    first, *lines = text.splitlines()
    pairs = (line.split() for line in lines if line.strip())
    return Numa(int(first), {short_bus_id(bus): int(node) for bus, node in pairs})


PROCESSES = Fact("gpu-processes", verb("fact_gpu_processes"), _processes, seconds=60)
XIDS = Fact("xids", verb("fact_xids"), _xids)
OUT_OF_WORK = Fact("out-of-work", verb("fact_out_of_work"), _out_of_work)
NUMA = Fact("numa", verb("fact_numa"), _numa, seconds=60)
