"""Cores that this process may use: those of its affinity, or what its cgroups' quota leaves of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path


def usable_cores(root: Path = Path("/")) -> float:
    """Cores that this process may use at once; less than one where a quota says so (`docker run --cpus 0.5`).

    The least of its affinity and of the quotas (`cpu.max`, cgroup v2; `cpu.cfs_quota_us`, v1) of its control group and
    of those above it, as far as they can be seen. `root` stands in for / in tests.
    """
    return min([float(len(os.sched_getaffinity(0))), *_quotas(root)])


def whole_cores() -> int:
    """Cores that this process may use, rounded up: for numbers of threads."""
    return math.ceil(usable_cores())


def _quotas(root: Path) -> Iterator[float]:
    for folder in _groups(root):
        quota, period = _read(folder / "cpu.max") or _read_v1(folder) or ("max", "")
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)


def _groups(root: Path) -> Iterator[Path]:
    """Folders of the control groups of this process, each with those above it. A container sees its own as the root."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in ["0::/", *lines]:
        _, controllers, path = line.split(":", 2)
        mounted = root / "sys/fs/cgroup"
        if controllers:
            if "cpu" not in controllers.split(","):
                continue
            mounted /= controllers
        group = mounted / path.lstrip("/")
        yield from (each for each in (group, *group.parents) if each.is_relative_to(mounted))


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
