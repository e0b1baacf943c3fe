"""Disk cache of the trials of `--strategy auto`, per model and host."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from voxyard.host.cores import processor
from voxyard.host.durable_files import write_file
from voxyard.trainer.autotune.trials import Timed, Trials
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.placement import Kind
from voxyard.trainer.reporting.figures import ago

log = logging.getLogger("voxyard.trainer")

MEASURED = "interleaved trials"  # an entry that was measured in another way is timed again
KEPT_SECONDS = 86400.0  # of trials that were cut off: the host may be another one tomorrow

# What decides how long a step takes, beside the model itself.
_TRAINING = (
    "device", "cpu_devices", "gpu_parts", "device_threads", "batch_size", "grad_accum", "precision", "xla", "recompute",
    "enable_memory_isolation", "data_gpu_memory", "model_gpu_memory", "vocoder_on",
)  # fmt: skip
_DATA = ("data_gpu", "model_gpu", "num_workers", "prefetch_buffer_size", "static_shapes", "buckets", "gain_augment_db")


@dataclass(frozen=True, slots=True)
class KeptTrials:
    """Trials by the names of the ways, the ways that failed, the Unix time of the last one, and if they decided."""

    timed: Mapping[str, list[Timed]]
    failed: Mapping[str, str]
    at: float
    decided: bool

    def age(self) -> str:
        """Age of the last trial in words, such as `3 days ago`."""
        return ago(time.time() - self.at)


def path() -> Path:
    """Path of the cache file: below XDG_CACHE_HOME, else ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "voxyard" / "strategies.json"


def key(config: TrainConfig, host: HostDevices, kind: Kind, *, has_features: bool, discriminators: bool = True) -> str:
    """Cache key: a hash of the host, the model and the settings that decide which strategy is the fastest.

    `discriminators`: a vocoder was timed with them.
    """
    training, data = config.training.model_dump(mode="json"), config.data.model_dump(mode="json")
    parts: dict[str, Any] = {
        "host": [gpu.uuid for gpu in host.gpus] if kind == "gpu" else [processor(), host.cores],
        "model": config.model.model_dump(mode="json"),
        "training": {name: training[name] for name in _TRAINING},
        "data": {name: data[name] for name in _DATA},
        "features": has_features,
        "discriminators": discriminators,
        "tensorflow": _tensorflow(),
        "measured": MEASURED,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def load(name: str, steps: int) -> KeptTrials | None:
    """Trials under this key, or None; a file that cannot be parsed is logged and ignored.

    Those of a choice that was cut off count for a day, and where they had as many steps.
    """
    try:
        found = _entries().get(name)
        if found is None:
            return None
        timed = {way: [Timed.from_json(each) for each in trials] for way, trials in found["timed"].items()}
        kept = KeptTrials(timed, dict(found["failed"]), float(found["at"]), bool(found["decided"]))
        fresh = found["steps"] == steps and time.time() - kept.at <= KEPT_SECONDS
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("%s cannot be read (%s): the strategies are timed again", path(), error)
        return None
    return kept if kept.decided or fresh else None


def save(name: str, steps: int, trials: Trials, *, decided: bool) -> None:
    """Keeps the trials of a choice, which is made or not yet; a file that cannot be written is logged."""
    entry = trials.to_json() | {"steps": steps, "at": time.time(), "decided": decided}
    _write({name: entry}, "the timed strategies are not cached")


def drop(name: str) -> None:
    """Removes the trials of a choice that is not to be repeated."""
    _write({name: None}, "the trials stay")


def _entries() -> dict[str, Any]:
    """All entries of the file, none where there is no file. Raises OSError, ValueError or TypeError."""
    try:
        found = json.loads(path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict):
        raise TypeError(f"found {type(found).__name__}, expected an object")
    return found


def _write(changed: dict[str, Any], failure: str) -> None:
    """Replaces entries of the file, whole or not at all; None removes one."""
    file = path()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            known = _entries()
        except (ValueError, TypeError):
            known = {}
        entries = {name: entry for name, entry in (known | changed).items() if entry is not None}
        part = file.with_name(f".{file.name}.{os.getpid()}")  # other runs may write it, too
        write_file(file, json.dumps(entries, indent=1) + "\n", part=part)
    except OSError as error:
        log.warning("%s: %s cannot be written (%s)", failure, file, error.strerror)


def _tensorflow() -> str:
    for package in ("tensorflow", "tensorflow-cpu"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "unknown"
