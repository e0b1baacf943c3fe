"""CPU and NUMA affinity in `nvidia-smi topo -m`: cells that may be blank, lists, or glued to each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

_COLUMN = re.compile(r"\S+\s+Affinity|GPU\s+NUMA\s+ID|\S+", re.IGNORECASE)
_LIST = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")
_MOST_NODES = 256
_MOST_CPUS = 65_536  # no host has as many: such a number is none

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Affinity:
    """The CPUs near a GPU as nvidia-smi lists them, and the NUMA nodes that they belong to; empty where unknown."""

    cpus: str = ""
    numa: frozenset[int] = frozenset()


def read_affinity(header: str, rests: Mapping[str, str]) -> dict[str, Affinity]:
    """The affinity of each GPU, from what the header and the GPUs' rows have after the links.

    A cell that cannot be told apart from its neighbour counts as unknown: no link depends on it.
    """
    columns = [" ".join(name.upper().split()) for name in _COLUMN.findall(header)]
    split = {name: _cells(columns, rest) for name, rest in rests.items()}
    cells = {name: _named(columns, row) for name, row in split.items()}
    if "NUMA AFFINITY" in columns:
        cells |= _unglued({
            name: cpus
            for name, (cpus, numa) in cells.items()
            if len(split[name]) < len(columns) or not _numbers(numa)
        })  # fmt: skip
    return {name: Affinity(cpus if _numbers(cpus) else "", _numbers(numa)) for name, (cpus, numa) in cells.items()}


def _cells(columns: list[str], rest: str) -> list[str]:
    """A row's cells. Tabs keep blank ones; with spaces it is known which are blank only where none or all but the
    CPUs could be.
    """
    rest = re.sub(r", +(?=\d)", ",", rest)
    if "\t" in rest:
        return [cell.strip() for cell in rest.strip(" ").removeprefix("\t").split("\t")]
    cells = rest.replace("N/A", " N/A ").split()
    if len(cells) < len(columns) and not (cells and re.search(r"[-,]", cells[0])):
        return []
    return cells


def _named(columns: list[str], cells: list[str]) -> tuple[str, str]:
    found = dict(zip(columns, cells, strict=False))
    return found.get("CPU AFFINITY", ""), found.get("NUMA AFFINITY", "")


def _unglued(cells: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """CPU and NUMA cells that stand together without a space, as in `0-45,92-1370`: taken apart where it is certain.

    It is certain where the list would fall otherwise, where only then all its ranges are of one length (threads of
    the same cores), or where only then no two GPUs have CPUs that overlap without being the same.
    """
    apart = {name: pair for name, cell in cells.items() if (pair := _by_its_ranges(cell))}
    if apart or not _clash(cells.values()):
        return apart
    last = {name: (cell[:-1], cell[-1:]) for name, cell in cells.items()}
    alike = all((one[0] == other[0]) == (one[1] == other[1]) for one, other in combinations(last.values(), 2))
    return last if alike and not _clash(cpus for cpus, _ in last.values()) else {}


def _by_its_ranges(cell: str) -> tuple[str, str] | None:
    ranges = _ranges(cell)
    if ranges is not None and _even(ranges):
        return None
    for end in range(len(cell) - 1, 0, -1):
        cpus, numa = _ranges(cell[:end]), _ranges(cell[end:])
        if cpus is None or numa is None or numa[-1][1] >= _MOST_NODES:
            continue
        if ranges is None or (len(cpus) > 1 and _even(cpus)):
            return cell[:end], cell[end:]
    return None


def _even(ranges: Ranges) -> bool:
    return len({last - first for first, last in ranges}) == 1


def _clash(cells: Iterable[str]) -> bool:
    """True where two lists overlap without being the same."""
    known = [ranges for cell in cells if (ranges := _ranges(cell))]
    return any(
        one != other and any(a[0] <= b[1] and b[0] <= a[1] for a in one for b in other)
        for one, other in combinations(known, 2)
    )


def _ranges(cell: str) -> Ranges | None:
    """0-3,9 as ((0, 3), (9, 9)); None where it is no list that rises."""
    if not _LIST.fullmatch(cell):
        return None
    found = []
    for part in cell.split(","):
        first, _, last = part.partition("-")
        if any(len(number) > 1 and number.startswith("0") for number in (first, last)):
            return None
        found.append((int(first), int(last or first)))
    bounds = [bound for each in found for bound in each]
    rising = all(first <= last for first, last in found) and all(a[1] < b[0] for a, b in pairwise(found))
    return tuple(found) if rising and bounds[-1] < _MOST_CPUS else None


def _numbers(cell: str) -> frozenset[int]:
    return frozenset(number for first, last in _ranges(cell) or () for number in range(first, last + 1))
