"""Main memory: what this process may still take of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from voxyard.host.control_groups import control_groups

# Files of a control group: its limits, its use, and the line of memory.stat with what it can drop at once.
_VERSIONS = (
    (("memory.max", "memory.high"), "memory.current", "inactive_file"),
    (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
)


def available_bytes(root: Path = Path("/")) -> int:
    """Bytes that can be taken without swapping.

    The least of /proc/meminfo's MemAvailable and of what the limits leave of the control groups of this process and
    those above it, as far as they can be seen; pages of files that it can drop are free. `root` stands in for / in
    tests.
    """
    return min([_meminfo_available(root / "proc/meminfo"), *_left(root)])


def _meminfo_available(meminfo: Path) -> int:
    for line in meminfo.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{meminfo} has no MemAvailable line")


def _left(root: Path) -> Iterator[int]:
    for folder in control_groups("memory", root):
        for limits, use, dropped in _VERSIONS:
            used = _number(folder / use)
            for limit in (found for name in limits if (found := _number(folder / name)) is not None):
                if used is not None:
                    yield max(0, limit - max(0, used - _counted(folder / "memory.stat", dropped)))


def _counted(stat: Path, name: str) -> int:
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
