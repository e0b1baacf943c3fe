"""Cores that a process may use: its affinity, or what a quota of its cgroups leaves of it; waits for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from voxyard.host.cores import queued_seconds, quota_periods, usable_cores, whole_cores


@pytest.fixture(autouse=True)
def _thirty_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)))


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 32),  # none
        ("400000 100000", 4),  # docker run --cpus 4
        ("50000 100000", 0.5),  # half a core
        ("9900000 100000", 32),  # more than there are
        ("400000 0", 32), ("nonsense", 32), ("", 32),  # cannot be read: no limit
    ],
)  # fmt: skip
def test_the_least_of_affinity_and_quota_counts(tmp_path: Path, quota: str, cores: float) -> None:
    assert usable_cores(write(tmp_path, sys__fs__cgroup__cpu_dot_max=quota)) == cores


def test_a_group_has_no_more_than_those_above_it(tmp_path: Path) -> None:
    root = write(tmp_path, proc__self__cgroup="0::/slice/job")
    for folder, quota in (("slice", "300000 100000"), ("slice/job", "800000 100000")):
        path = root / "sys/fs/cgroup" / folder / "cpu.max"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(quota)

    assert usable_cores(root) == 3


def test_the_older_control_groups_count(tmp_path: Path) -> None:
    root = write(tmp_path, proc__self__cgroup="4:cpu,cpuacct:/\n3:memory:/")
    group = root / "sys/fs/cgroup/cpu,cpuacct"
    group.mkdir(parents=True)
    (group / "cpu.cfs_quota_us").write_text("-1\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(root) == 32

    (group / "cpu.cfs_quota_us").write_text("250000\n")
    assert usable_cores(root) == 2.5


def test_a_machine_without_control_groups_has_its_cores(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == 32


def test_threads_are_counted_in_whole_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxyard.host.cores.usable_cores", lambda: 2.5)
    assert whole_cores() == 3


STAT = "usage_usec 7\nnr_periods 200\nnr_throttled 80\nthrottled_usec 9"


@pytest.mark.parametrize(
    ("quota", "stat", "periods"),
    [
        ("400000 100000", STAT, (200, 80)),
        ("max 100000", STAT, None),  # no quota holds: what it did once is no news
        ("400000 100000", "usage_usec 7", None),
        ("400000 100000", None, None),
    ],
)
def test_the_periods_of_a_quota_are_told_where_one_holds(
    tmp_path: Path, quota: str, stat: str | None, periods: tuple[int, int] | None
) -> None:
    root = write(tmp_path, sys__fs__cgroup__cpu_dot_max=quota)
    if stat is not None:
        write(root, sys__fs__cgroup__cpu_dot_stat=stat)
    assert quota_periods(root) == periods


def test_the_periods_are_those_of_the_least_quota(tmp_path: Path) -> None:
    root = write(tmp_path, proc__self__cgroup="0::/slice/job")
    for folder, quota, periods in (("slice", 300000, 20), ("slice/job", 800000, 10)):
        group = root / "sys/fs/cgroup" / folder
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.max").write_text(f"{quota} 100000")
        (group / "cpu.stat").write_text(f"nr_periods {periods}\nnr_throttled 5\n")

    assert quota_periods(root) == (20, 5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5000000 2500000000 7", 2.5), ("0 0 0", None), ("", None), (None, None)],  # zeros: the kernel counts none
)
def test_waits_for_a_core_are_the_kernels_count(tmp_path: Path, text: str | None, seconds: float | None) -> None:
    if text is not None:
        write(tmp_path, **{"proc__thread-self__schedstat": text})
    assert queued_seconds(tmp_path) == seconds
