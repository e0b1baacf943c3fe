"""Cores that this process may use (by its affinity and its cgroups' quota), their name, and its waits for them."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from voxyard.host.control_groups import control_groups


def usable_cores(root: Path = Path("/")) -> float:
    """Cores that this process may use at once; less than one where a quota says so (`docker run --cpus 0.5`).

    The least of its affinity and of the quotas (`cpu.max`, cgroup v2; `cpu.cfs_quota_us`, v1) of its control group and
    of those above it, as far as they can be seen. `root` stands in for / in tests.
    """
    return min([float(len(os.sched_getaffinity(0))), *_quotas(root)])


def processor() -> str:
    """The processor's name, as Linux tells it; where it does not, its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def whole_cores() -> int:
    """Cores that this process may use, rounded up: for numbers of threads."""
    return math.ceil(usable_cores())


def quota_periods(root: Path = Path("/")) -> tuple[int, int] | None:
    """Periods of the least quota that holds for this process, and those of them in which all of it was used up.

    None where no quota holds, or the kernel does not tell (`cpu.stat` of the control group that has it).
    """
    held = [(quota, folder) for folder in control_groups("cpu", root) if (quota := _quota(folder)) is not None]
    if not held:
        return None
    try:
        lines = (min(held)[1] / "cpu.stat").read_text().splitlines()
    except OSError:
        return None
    counts = dict(line.split() for line in lines if len(line.split()) == 2)
    found = counts.get("nr_periods"), counts.get("nr_throttled")
    return None if None in found else (int(found[0] or 0), int(found[1] or 0))


def queued_seconds(root: Path = Path("/")) -> float | None:
    """Seconds in which this thread could have run and no core was free for it, since it began.

    None where the kernel does not count them (`schedstat`: time on a core, time in its queue, turns).
    """
    try:
        ran, queued, _ = map(int, (root / "proc/thread-self/schedstat").read_text().split())
    except (OSError, ValueError):
        return None
    return queued / 1e9 if ran else None


def _quotas(root: Path) -> Iterator[float]:
    for folder in control_groups("cpu", root):
        if (quota := _quota(folder)) is not None:
            yield quota


def _quota(folder: Path) -> float | None:
    quota, period = _read(folder / "cpu.max") or _read_v1(folder) or ("max", "")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _read(file: Path) -> list[str] | None:
    try:
        words = file.read_text().split()
    except OSError:
        return None
    return words if len(words) == 2 else None


def _read_v1(folder: Path) -> list[str] | None:
    try:
        return [(folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")]
    except OSError:
        return None
