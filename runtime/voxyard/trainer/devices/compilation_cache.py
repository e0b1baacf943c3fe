"""Compilation cache: XLA's compiled functions and autotuning results on disk, in the run's directory. GPUs only."""

from __future__ import annotations

import logging
import mmap
from collections.abc import MutableMapping
from pathlib import Path

from voxyard.trainer.devices.placement import DevicePlan

log = logging.getLogger("voxyard.trainer")

FOLDER = "xla"  # below the run's directory
FLAGS = (
    ("TF_XLA_FLAGS", "tf_xla_persistent_cache_directory"),  # tensorflow/compiler/jit/flags.cc
    ("XLA_FLAGS", "xla_gpu_per_fusion_autotune_cache_dir"),  # xla/debug_options_flags.cc
)


def use_compilation_cache(
    plan: DevicePlan, directory: Path, environment: MutableMapping[str, str], *, library: Path, version: str
) -> Path | None:
    """Names the cache to TensorFlow by its environment; must run before its runtime starts, which reads that once.

    Compiled code is of one TensorFlow `version` and one kind of card: each has a folder of its own. A flag that the
    user has set is kept, and one that TensorFlow's `library` does not know is left out, since it would end the process.
    Returns the folder; None for CPUs, where XLA is off by default.
    """
    if plan.kind != "gpu":
        return None
    capabilities = {one.gpu.compute_capability for one in plan.assigned if one.gpu is not None}
    cards = "-".join(sorted(f"sm{major}{minor}" for major, minor in filter(None, capabilities))) or "unknown"
    folder = (directory / FOLDER / f"{version}-{cards}").resolve()
    if any(sign.isspace() for sign in str(folder)):
        log.warning("No compilation cache: XLA's flags take no path with spaces, and the run is in %s", directory)
        return None
    if not library.is_file():
        log.warning("No compilation cache: %s, which names the flags for it, is not there", library)
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for variable, flag in FLAGS:
        before = environment.get(variable, "")
        if flag not in before and _knows(library, flag):
            environment[variable] = f"{before} --{flag}={folder}".strip()
    return folder


def _knows(library: Path, flag: str) -> bool:
    """True where the library holds the flag's name."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(flag.encode()) >= 0
