"""Main memory: what this process may still take of it, and how often the kernel killed for want of it."""

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


def memory_kills(root: Path = Path("/")) -> int | None:
    """Processes that the kernel has killed for want of memory since it started, on the whole machine.

    None where it does not count them (Linux before 4.13). `root` stands in for / in tests.
    """
    try:
        lines = (root / "proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


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
