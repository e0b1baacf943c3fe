"""Memory that a process may still take: the host's, or what its cgroup leaves of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxyard.host.memory import available_bytes, memory_kills


def host(root: Path, available_kib: int, limit: str | None = None, used: int = 0) -> Path:
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {available_kib} kB\n")
    if limit is not None:
        group = root / "sys/fs/cgroup"
        group.mkdir(parents=True)
        (group / "memory.max").write_text(f"{limit}\n")
        (group / "memory.current").write_text(f"{used}\n")
    return root


@pytest.mark.parametrize(
    ("limit", "used", "available"),
    [
        (None, 0, 8000 * 1024),  # no cgroup
        ("max", 500, 8000 * 1024),  # one without a limit
        ("5000000", 1_000_000, 4_000_000),  # a container's limit is less than what the host has
        ("99000000000", 0, 8000 * 1024),  # or more
        ("1000", 2000, 0),  # never negative
    ],
)
def test_the_least_of_host_and_cgroup_counts(tmp_path: Path, limit: str | None, used: int, available: int) -> None:
    assert available_bytes(host(tmp_path, 8000, limit, used)) == available


def test_kills_for_want_of_memory_are_the_kernels_count(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert memory_kills(tmp_path) is None
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 1\noom_kill_like 9\n")
    assert memory_kills(tmp_path) is None  # kernels before 4.13 do not count them
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 1\noom_kill 3\nzone_reclaim 0\n")
    assert memory_kills(tmp_path) == 3
