#!/usr/bin/python3
"""Fake NVIDIA container hook: records the GPUs of a container, and can mount the driver."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

DRIVER = Path(os.environ.get("BED_DRIVER", "/opt/nvidia"))
LOG = Path(os.environ.get("BED_HOOK_LOG", "/var/log/nvidia-hook.log"))


def record(container: str, environment: dict[str, str]) -> None:
    """One line of JSON for each container."""
    names = {"visible_devices": "NVIDIA_VISIBLE_DEVICES", "capabilities": "NVIDIA_DRIVER_CAPABILITIES"}
    line = {"container": container} | {key: environment.get(name, "") for key, name in names.items()}
    with LOG.open("a", encoding="utf-8") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.write(json.dumps(line) + "\n")


def mount_driver(pid: int, root: Path) -> None:
    """The library, nvidia-smi and their files, where the real toolkit would put them, before the root is read-only."""
    library = Path("usr/lib") / str(sysconfig.get_config_var("MULTIARCH")) / "libnvidia-ml.so.1"
    for source, target in [
        (DRIVER, root / "opt/nvidia"),
        (DRIVER / "lib/libnvidia-ml.so.1", root / library),
        (Path(__file__).resolve().with_name("nvidia_smi.py"), root / "usr/bin/nvidia-smi"),
    ]:
        make = ["mkdir", "-p"] if source.is_dir() else ["touch"]
        inside = ["nsenter", "--target", str(pid), "--mount"]
        subprocess.run([*inside, *make, str(target)], check=True)
        subprocess.run([*inside, "mount", "--bind", str(source), str(target)], check=True)
        subprocess.run([*inside, "mount", "-o", "remount,bind,ro", str(target)], check=True)


def main() -> None:
    """Called by runc before the container's program starts, with the container's state on standard input."""
    if sys.argv[1:] != ["prestart"]:
        return
    state = json.load(sys.stdin)
    bundle = Path(state["bundle"])
    config = json.loads((bundle / "config.json").read_text(encoding="utf-8"))
    environment = dict(pair.split("=", 1) for pair in config["process"]["env"])
    record(state["id"], environment)
    if (DRIVER / "mount-driver").exists():
        mount_driver(state["pid"], bundle / config["root"]["path"])


main()
