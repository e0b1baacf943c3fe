"""Memory this process may still take: the machine's, or its control group's where that is less."""

from __future__ import annotations

from pathlib import Path


def available_bytes(root: Path = Path("/")) -> int:
    """Bytes that can be taken without swapping.

    The least of /proc/meminfo's MemAvailable and, where a cgroup (v2) sets a limit, what is left of it.
    `root` stands in for / in tests.
    """
    left = [_meminfo_available(root / "proc/meminfo")]
    group = root / "sys/fs/cgroup"
    limit, used = _number(group / "memory.max"), _number(group / "memory.current")
    if limit is not None and used is not None:
        left.append(max(0, limit - used))
    return min(left)


def _meminfo_available(meminfo: Path) -> int:
    for line in meminfo.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{meminfo} has no MemAvailable line")


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
