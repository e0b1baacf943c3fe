"""Facts of the host that checks and archives ask for: driver, operating system, cores, memory, disks."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voxyard.host.cores import processor, usable_cores
from voxyard.host.memory import available_bytes
from voxyard.host.nvml import Session

OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
"""The first driver series that runs programs of a CUDA major version (CUDA's release notes, minor compatibility)."""


def driver_version() -> str | None:
    """The NVIDIA driver's version; None where it is not reported. Raises HostError where the driver does not answer."""
    with Session() as session:
        answer = session.ask("nvmlSystemGetDriverVersion")
    return None if answer is None else str(answer)


def driver_fault(driver: str | None, cuda: str | None) -> str | None:
    """Reason why this driver cannot run a build for this CUDA; None where it can, or where one of them is unknown."""
    if driver is None or cuda is None:
        return None
    major, series = cuda.partition(".")[0], driver.partition(".")[0]
    oldest = OLDEST_DRIVER.get(int(major)) if major.isdigit() else None
    if oldest is None or not series.isdigit() or int(series) >= oldest:
        return None
    return f"driver {driver} is too old for CUDA {cuda}, which needs {oldest} or newer"


def system(paths: Sequence[Path] = ()) -> dict[str, Any]:
    """This machine as plain data: kernel, distribution, processor, cores, memory, file systems of `paths`."""
    uname = platform.uname()
    return {
        "host": uname.node,
        "kernel": f"{uname.system} {uname.release} {uname.machine}",
        "distribution": _distribution(),
        "processor": processor(),
        "cores": {"machine": os.cpu_count(), "usable": usable_cores()},
        "load": os.getloadavg(),
        "memory_available_bytes": available_bytes(),
        "memory": _lines("/proc/meminfo", ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "HugePages_Total")),
        "control_group": {
            name: text.strip()
            for name in ("memory.max", "memory.current", "cpu.max", "pids.max")
            if (text := _read(f"/sys/fs/cgroup/{name}"))
        },
        "container": Path("/.dockerenv").exists() or Path("/run/.containerenv").exists(),
        "shared_memory_bytes": _disk(Path("/dev/shm")),  # noqa: S108 (it is looked at, not written to)
        "disks": {str(path): _disk(path) for path in paths},
        "limits": _lines(
            "/proc/self/limits", ("Max open files", "Max locked memory", "Max processes", "Max stack size")
        ),
        "uptime_seconds": float((_read("/proc/uptime") or "0").split()[0]),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": platform.python_version(),
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "unknown"


def _disk(path: Path) -> dict[str, int] | None:
    """Bytes of the file system in which `path` is or would be; None where there is none such."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        found = shutil.disk_usage(path)
    except OSError:
        return None
    return {"size": found.total, "free": found.free}


def _lines(path: str, begins: tuple[str, ...]) -> list[str]:
    return [" ".join(line.split()) for line in (_read(path) or "").splitlines() if line.startswith(begins)]


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
