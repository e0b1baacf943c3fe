"""Memory that a process may still take: the host's, or what its cgroup leaves of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxyard.host.memory import available_bytes
from voxyard.speech.pool.worker_process import memory_kills


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


V1 = ("memory/job/memory.limit_in_bytes", "memory/job/memory.usage_in_bytes", "memory/job/memory.stat")
V2 = ("slice/job/memory.max", "slice/job/memory.current", "slice/job/memory.stat")
# After vertti/preflight#226, Hal0ai/hal0#565, lxc/lxcfs#44.
GROUPS: list[tuple[str, str, dict[str, str], int]] = [
    ("the group of a job, not the root", "0::/slice/job", {V2[0]: "5000000", V2[1]: "1000000"}, 4_000_000),
    (
        "the least on the way up", "0::/slice/job",
        {V2[0]: "max", V2[1]: "1000000", "slice/memory.max": "3000000", "slice/memory.current": "1000000"}, 2_000_000,
    ),
    (
        "a group that slows down before its limit", "0::/slice/job",
        {V2[0]: "5000000", "slice/job/memory.high": "2000000", V2[1]: "500000"}, 1_500_000,
    ),
    (
        "files that were read are no use of memory", "0::/slice/job",
        {V2[0]: "5000000", V2[1]: "4900000", V2[2]: "anon 1000000\ninactive_file 3900000\n"}, 4_000_000,
    ),
    ("v1", "4:cpu:/\n3:memory:/job", {V1[0]: "5000000", V1[1]: "1000000"}, 4_000_000),
    ("v1 without a limit", "3:memory:/job", {V1[0]: "9223372036854771712", V1[1]: "1000000"}, 8000 * 1024),
    (
        "v1 with files that were read", "3:memory:/job",
        {V1[0]: "5000000", V1[1]: "4900000", V1[2]: "inactive_file 1\ntotal_inactive_file 3900000\n"}, 4_000_000,
    ),
    ("v1 in a container, whose path is the host's", "3:memory:/docker/1f", {
        "memory/memory.limit_in_bytes": "5000000", "memory/memory.usage_in_bytes": "1000000",
    }, 4_000_000),
    ("a path outside of what is seen", "0::/../other", {V2[0]: "5000000", V2[1]: "1000000"}, 8000 * 1024),
    ("another controller", "3:cpu:/job", {"cpu/job/memory.max": "5", "cpu/job/memory.current": "1"}, 8000 * 1024),
]  # fmt: skip


@pytest.mark.parametrize(("said", "groups", "files", "available"), GROUPS, ids=[each[0] for each in GROUPS])
def test_the_control_groups_of_the_process_count(
    tmp_path: Path, said: str, groups: str, files: dict[str, str], available: int
) -> None:
    root = host(tmp_path, 8000)
    for name, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{name}": files[name] for name in files}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    assert available_bytes(root) == available


def test_kills_for_want_of_memory_are_the_kernels_count(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert memory_kills(tmp_path) is None
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 1\noom_kill_like 9\n")
    assert memory_kills(tmp_path) is None  # kernels before 4.13 do not count them
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 1\noom_kill 3\nzone_reclaim 0\n")
    assert memory_kills(tmp_path) == 3
