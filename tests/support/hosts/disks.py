"""Disks for tests: a real one where temporary files are in memory, a small one to fill up."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from voxyard.host.page_cache import Extent, drop


@contextmanager
def on_disk(folder: Path) -> Iterator[Path]:
    """The folder itself where what is written to it can leave the page cache; else one below /var/tmp."""
    probe = folder / "probe"
    probe.write_bytes(b"a page")
    lies_on_disk = drop([Extent(probe)]).state == "cold"
    probe.unlink()
    if lies_on_disk:
        yield folder
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp") as other:
        yield Path(other)


@contextmanager
def slow_reads(folder: Path, bytes_per_second: int) -> Iterator[list[str]]:
    """Words before a command that hold its reads of the folder's disk to a rate, by a control group.

    Where none can be had (no root, no throttling in the kernel), the test is skipped with the reason.
    """
    number = folder.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    if Path(f"/sys/dev/block/{device}/partition").exists():  # rates belong to whole disks
        device = Path(f"/sys/dev/block/{device}").resolve().parent.joinpath("dev").read_text().strip()
    group = Path(f"/sys/fs/cgroup/blkio/voxyard-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "blkio.throttle.read_bps_device").write_text(f"{device} {bytes_per_second}\n")
    except OSError as error:
        pytest.skip(f"reads of {folder} cannot be slowed down here: {error}")
    try:
        yield ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "tasks")]
    finally:
        group.rmdir()


def run_on_small_disk(size: str, disk: Path, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a Python program with a tmpfs of this size on `disk`, in a mount namespace of its own.

    Where none can be had (a container without the right, a chroot), the test is skipped with the reason.
    """
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    tried = subprocess.run([*namespace, *mount], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {tried.stderr.strip()}")
    script = f'{shlex.join(mount)} && exec "$@"'
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run([*namespace, "sh", "-c", script, "sh", *words], capture_output=True, text=True, timeout=60)
