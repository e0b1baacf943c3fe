"""Compilation cache: XLA's compiled functions and autotuning results on disk, in one folder for all runs of a user.

TensorFlow is told of the folder by a link of this process's own. It reads the name once, and an entry that it cannot
read, or cannot write, fails the call that was to be compiled: then the link is led elsewhere.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import mmap
import os
import shutil
import tempfile
import threading
from collections.abc import MutableMapping
from pathlib import Path

from voxyard.trainer.devices.placement import DevicePlan

log = logging.getLogger("voxyard.trainer")

PERSISTENT = ("TF_XLA_FLAGS", "tf_xla_persistent_cache_directory")  # tensorflow/compiler/jit/flags.cc
AUTOTUNING = ("XLA_FLAGS", "xla_gpu_per_fusion_autotune_cache_dir")  # xla/debug_options_flags.cc
TRIALS = ("XLA_FLAGS", "xla_gpu_autotune_level")


class CompilationCache:
    """The folder of compiled code, and the link by which TensorFlow knows it."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError where nothing can be written into the folder, or no link can be made."""
        self.folder, self.in_use = folder, True
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"voxyard")
        self._own = Path(tempfile.mkdtemp(prefix="voxyard-xla-"))
        atexit.register(shutil.rmtree, self._own, ignore_errors=True)
        self.link = self._own / "cache"
        self.link.symlink_to(folder)
        self._leaving = threading.Lock()

    def leave(self) -> None:
        """Compiled code is kept in an empty folder of this process from here on, and is gone with it."""
        with self._leaving:
            if self.in_use:
                aside, elsewhere = self._own / "link", self._own / "elsewhere"
                elsewhere.mkdir()
                aside.symlink_to(elsewhere)
                aside.replace(self.link)
                self.in_use = False

    def blame(self, error: Exception) -> None:
        """Says once that the folder was of no use, since what failed with it went well without; empties it."""
        with self._leaving:
            removed = 0
            for entry in self.folder.glob("*"):
                if entry.is_file():
                    entry.unlink(missing_ok=True)
                    removed += 1
        if removed:
            log.warning(
                "The cache of compiled code in %s could not be used (%s): %d of its files are removed, and this "
                "run goes on without it",
                self.folder, str(error).splitlines()[0], removed,
            )  # fmt: skip


def user_cache(environment: MutableMapping[str, str]) -> Path:
    """Folder of compiled code of all runs of a user: below XDG_CACHE_HOME, else ~/.cache."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "voxyard" / "xla"


def leave_trials_out(environment: MutableMapping[str, str]) -> None:
    """Has XLA take the ways of cuBLAS and cuDNN that these name themselves, unless the user has set it.

    Must run before TensorFlow is imported, whose GPU build may read the flags then. Trying all ways takes minutes
    (model/convolution.py), and our models have products alone. A model of a user's own may have convolutions: for these
    the trials decide between milliseconds and seconds. XLA has had the flag since before TensorFlow 2.17.
    """
    variable, flag = TRIALS
    before = environment.get(variable, "")
    if flag not in before:
        environment[variable] = f"{before} --{flag}=0".strip()


def use_compilation_cache(
    plan: DevicePlan, directory: Path, environment: MutableMapping[str, str], *, library: Path, version: str
) -> CompilationCache | None:
    """Names the cache to TensorFlow by its environment; must run before its runtime starts, which reads that once.

    Compiled code is of one TensorFlow `version`, one kind of card or processor, and XLA's flags, which TensorFlow does
    not look at when it takes code from there: each has a folder of its own. A flag that the user has set is kept, and
    one that TensorFlow's `library` does not know is left out, since it would end the process. None where TensorFlow has
    no cache of ours; a sentence says why.
    """
    flags = environment.get("XLA_FLAGS", "")
    other = f"-{hashlib.sha256(flags.encode()).hexdigest()[:8]}" if flags else ""
    folder = (directory / f"{version}-{_kind(plan)}{other}").resolve()
    variable, flag = PERSISTENT
    if flag in environment.get(variable, ""):
        log.info("%s names a cache of compiled code: it is kept", variable)
        return None
    if not library.is_file():
        log.warning("No compilation cache: %s, which names the flags for it, is not there", library)
        return None
    try:
        cache = CompilationCache(folder)
    except OSError as error:
        log.warning(
            "The cache of compiled code in %s cannot be written (%s): this run compiles without it",
            folder, error.strerror or error,
        )  # fmt: skip
        return None
    if any(sign.isspace() for sign in str(cache.link)):
        log.warning("No compilation cache: XLA's flags take no path with spaces, and TMPDIR is %s", cache.link.parent)
        return None
    for variable, flag in (PERSISTENT, AUTOTUNING) if plan.kind == "gpu" else (PERSISTENT,):
        before = environment.get(variable, "")
        if flag not in before and _knows(library, flag):
            environment[variable] = f"{before} --{flag}={cache.link}".strip()
    return cache


def _kind(plan: DevicePlan) -> str:
    """Name of what code is compiled for: the capabilities of the cards, or the processor with its features."""
    if plan.kind == "gpu":
        capabilities = {one.gpu.compute_capability for one in plan.assigned if one.gpu is not None}
        return "-".join(sorted(f"sm{major}{minor}" for major, minor in filter(None, capabilities))) or "unknown"
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    of_one = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    return f"cpu-{hashlib.sha256(os.linesep.join(of_one).encode()).hexdigest()[:8]}"


def _knows(library: Path, flag: str) -> bool:
    """True where the library holds the flag's name."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(flag.encode()) >= 0
