"""Merges the host plan into a run's settings: the user's settings win, and a CPU run ignores its GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from voxyard.settings import Loaded
from voxyard.trainer.config import TrainConfig

PLAN = "host plan "  # how the origin of a value begins that comes from there
_IDS = ("data.data_gpu", "data.model_gpu")
_LIMITS = ("training.data_gpu_memory", "training.model_gpu_memory")


def apply_host_plan(loaded: Loaded[TrainConfig]) -> Loaded[TrainConfig]:
    """Settings without the values of the host plan that do not fit the run; each such case adds a note.

    The plan speaks of a pair of GPUs and of limits on them. With a strategy of the user's that needs no pair, or with
    the limits turned off, it has nothing to say. With --device cpu its pair means two logical CPU devices. Ids that
    the user gave stay as they are, and are refused later where they name no device.
    """
    changes, notes = _overridden(loaded)
    kept = {key for key in _IDS if _planned(loaded, key) and key not in changes}
    if loaded.config.training.device == "cpu" and kept:
        changes |= _on_cpu(loaded.config, kept)
        named = " and ".join(str(_value(loaded.config, key)) for key in _IDS if key in kept)
        where = " and ".join(str(changes[key]) for key in _IDS if key in kept and changes[key] is not None)
        notes.append(
            f"The host's plan names {named}; with --device cpu they mean the logical CPU devices {where}"
            if where
            else f"The host's plan names {named}; one logical CPU device has no place for a pair, so it is left out"
        )
    if not changes:
        return loaded
    return replace(loaded, config=loaded.config.changed(changes), notes=(*loaded.notes, *notes))


def _overridden(loaded: Loaded[TrainConfig]) -> tuple[dict[str, Any], list[str]]:
    """Settings of the plan that have no effect beside the user's own, each as None, and notes that say so."""
    training = loaded.config.training
    dropped: list[str] = []
    strategy = training.strategy if _is_the_users(loaded, "training.strategy") else None
    if strategy in ("single", "mirrored"):
        dropped += ["data.data_gpu", "training.data_gpu_memory"]
    if strategy == "mirrored":
        dropped += ["data.model_gpu"]
    if _is_the_users(loaded, "training.enable_memory_isolation") and not training.enable_memory_isolation:
        dropped += _LIMITS
    changes = {key: None for key in dropped if _planned(loaded, key) and _value(loaded.config, key) is not None}
    why = f"--strategy {strategy}" if strategy in ("single", "mirrored") else "--no-enable-memory-isolation"
    notes = [f"With {why}, the host's plan has no {', '.join(changes)} for this run"] if changes else []
    return dict(changes), notes


def _on_cpu(config: TrainConfig, kept: set[str]) -> dict[str, Any]:
    """Numbers of logical CPU devices for the plan's ids, other ones than the user's."""
    if config.training.cpu_devices < 2:
        return dict.fromkeys(kept)
    taken = {str(_value(config, key)) for key in _IDS if key not in kept}
    free = (number for number in range(config.training.cpu_devices) if str(number) not in taken)
    return {key: next(free) for key in _IDS if key in kept}


def _planned(loaded: Loaded[TrainConfig], key: str) -> bool:
    return loaded.origins[key].startswith(PLAN) and _value(loaded.config, key) is not None


def _is_the_users(loaded: Loaded[TrainConfig], key: str) -> bool:
    return loaded.origins[key] != "default" and not loaded.origins[key].startswith(PLAN)


def _value(config: TrainConfig, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)
