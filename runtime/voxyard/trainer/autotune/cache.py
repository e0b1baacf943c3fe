"""Disk cache of the fastest strategy per model and host."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from voxyard.host.cores import processor
from voxyard.host.durable_files import write_file
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.placement import Kind
from voxyard.trainer.reporting.figures import ago

log = logging.getLogger("voxyard.trainer")

MEASURED = "medians of interleaved trials"  # an entry that was measured in another way is timed again
CUT_OFF = " cut off"  # behind the key: trials of a choice that is not made
KEPT_SECONDS = 86400.0  # of such trials: the host may be another one tomorrow

# What decides how long a step takes, beside the model itself.
_TRAINING = (
    "device", "cpu_devices", "gpu_parts", "device_threads", "batch_size", "grad_accum", "precision", "xla", "recompute",
    "enable_memory_isolation", "data_gpu_memory", "model_gpu_memory", "vocoder_on",
)  # fmt: skip
_DATA = ("data_gpu", "model_gpu", "num_workers", "prefetch_buffer_size", "static_shapes", "buckets", "gain_augment_db")


@dataclass(frozen=True, slots=True)
class CachedStrategy:
    """Name of the fastest candidate, the median rate of each in clips a second, and the measurement's Unix time.

    `stages` are the times of a step's stages (`StepStages`), empty where no candidate could tell them; `skipped` are
    the rates that ways could not exceed which were not timed for that; `steps` are the fewest timed steps of a trial
    of each.
    """

    name: str
    rates: Mapping[str, float]
    at: float
    stages: Mapping[str, Any] = field(default_factory=dict)
    skipped: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)

    def age(self) -> str:
        """Age of the entry in words, such as `3 days ago`."""
        return ago(time.time() - self.at)


@dataclass(frozen=True, slots=True)
class KeptTrials:
    """Trials of a choice that was cut off, by the names of the candidates, and the Unix time of the last one."""

    trials: Mapping[str, Sequence[Mapping[str, Any]]]
    at: float

    def age(self) -> str:
        """Age of the last trial in words."""
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


def load(name: str) -> CachedStrategy | None:
    """Entry under this key, or None; a file that cannot be parsed is logged and ignored."""
    try:
        found = _entries().get(name)
        if found is None:
            return None
        return CachedStrategy(
            str(found["name"]),
            dict(found["rates"]),
            float(found["at"]),
            dict(found["stages"]),
            dict(found.get("skipped", {})),
            dict(found.get("steps", {})),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("%s cannot be read (%s): the strategies are timed again", path(), error)
        return None


def save(name: str, choice: CachedStrategy) -> None:
    """Writes the entry; a file that cannot be written is logged, and the next run times again."""
    _write(lambda known: known | {name: asdict(choice)}, "the timed strategy is not cached")


def load_trials(name: str, steps: int) -> KeptTrials | None:
    """Trials of so many steps under this key that were cut off, at most KEPT_SECONDS ago; None where there are none."""
    try:
        found = _entries().get(f"{name}{CUT_OFF}")
        if found is None or found["steps"] != steps or time.time() - found["at"] > KEPT_SECONDS:
            return None
        return KeptTrials({each: list(timed) for each, timed in found["trials"].items()}, float(found["at"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("%s cannot be read (%s): all strategies are timed", path(), error)
        return None


def save_trials(name: str, steps: int, trials: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Keeps the trials of a choice that is not made yet; a file that cannot be written is logged."""
    entry = {"steps": steps, "at": time.time(), "trials": trials}
    _write(lambda known: known | {f"{name}{CUT_OFF}": entry}, "the trials are not kept")


def drop_trials(name: str) -> None:
    """Removes the trials of a choice that is made."""
    if path().exists():
        left = f"{name}{CUT_OFF}"
        _write(lambda known: {each: entry for each, entry in known.items() if each != left}, "the trials stay")


def _entries() -> dict[str, Any]:
    """All entries of the file, none where there is no file. Raises OSError or ValueError."""
    try:
        found = json.loads(path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict):
        raise TypeError(f"found {type(found).__name__}, expected an object")
    return found


def _write(change: Callable[[dict[str, Any]], dict[str, Any]], failure: str) -> None:
    """Replaces the file by what `change` makes of its entries, whole or not at all."""
    file = path()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            known = _entries()
        except (ValueError, TypeError):
            known = {}
        part = file.with_name(f".{file.name}.{os.getpid()}")  # other runs may write it, too
        write_file(file, json.dumps(change(known), indent=1) + "\n", part=part)
    except OSError as error:
        log.warning("%s: %s cannot be written (%s)", failure, file, error.strerror)


def _tensorflow() -> str:
    for package in ("tensorflow", "tensorflow-cpu"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "unknown"
