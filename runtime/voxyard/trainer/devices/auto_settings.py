"""Settings that `--auto` takes from this host: the pair, its limits, batch and buffers, for all that is not set."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from voxyard.host.limits import TrainerLimits
from voxyard.host.nvml import Gpu, every_gpu
from voxyard.host.plan import NO_GPU, Links, TrainerPlan, listing, plan_trainer, read_links
from voxyard.settings import settings_of
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.batch_size import fitting_batch
from voxyard.trainer.devices.device_ids import INSUFFICIENT
from voxyard.trainer.devices.placement import requested_strategy
from voxyard.trainer.errors import TrainerError

log = logging.getLogger("voxyard.trainer")


@dataclass(frozen=True, slots=True)
class AutoSettings:
    """Configuration with `--auto` applied, and the values that were taken, a line each."""

    config: TrainConfig
    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def apply_auto_settings(config: TrainConfig) -> TrainConfig:
    """`config` with `--auto` applied on this host and logged; `config` itself without `--auto`.

    Raises TrainerError or HostError where the host has no GPU that can train.
    """
    if not config.training.auto:
        return config
    _refuse_cpu(config)
    gpus = every_gpu()
    found = take_recommended(config, gpus, read_links() if len(gpus) > 1 else Links())
    for warning in found.warnings:
        log.warning("%s", warning)
    for line in found.lines:
        log.info("--auto: %s", line)
    return found.config


def take_recommended(config: TrainConfig, gpus: Sequence[Gpu], links: Links) -> AutoSettings:
    """Configuration that `--auto` chooses on a host with these GPUs and links.

    What a flag, a variable, a file, the host's plan or a program has set stays. Raises TrainerError or HostError.
    """
    _refuse_cpu(config)
    if not gpus:
        raise TrainerError(f"--auto takes its settings from GPUs: {NO_GPU}; leave it out to train on the CPU")
    warnings = links.notes
    if config.training.strategy == "mirrored":
        limits = _on_every_gpu(gpus)
        values, lines = _mirrored(limits), ["every GPU trains, the smallest sets the limits"]
    else:
        plan = _planned(config, gpus, links)
        limits, values, lines = plan.limits, _of_plan(plan, len(gpus)), [plan.reason]
        warnings += plan.warnings
    card = next(gpu for gpu in gpus if gpu.uuid == limits.model.uuid)
    batch = fitting_batch(config, limits.batch_size, limits.model.limit_mib, capability=card.compute_capability)
    if batch.reduced:
        values["training.batch_size"] = batch.clips, batch.reduced.removeprefix("Batch: ")
    if config.training.hosts is not None:  # the batch is that of all hosts, and each has one model GPU in any case
        values = {key: text for key, text in values.items() if key not in _OF_ONE_HOST}
    if not _isolates(config):
        values = {key: text for key, text in values.items() if key not in _LIMITS}
    taken = {key: value for key, value in values.items() if not _is_set(config, key)}
    flags = {each.key: each for each in settings_of(TrainConfig)}
    for key, (value, why) in taken.items():
        unit = f" {flags[key].unit}" if flags[key].unit else ""
        lines.append(flags[key].flag + ("" if value is True else f" {value}{unit}") + f" ({why})")
    changes = {key: value for key, (value, _) in taken.items()} | {"training.auto": False}
    return AutoSettings(config.changed(changes), tuple(lines), warnings)


Values = dict[str, tuple[Any, str]]  # by key: the value, and where it comes from

_OF_ONE_HOST = frozenset({"training.batch_size", "training.strategy"})
_LIMITS = frozenset({"training.enable_memory_isolation", "training.data_gpu_memory", "training.model_gpu_memory"})


def _planned(config: TrainConfig, gpus: Sequence[Gpu], links: Links) -> TrainerPlan:
    data, strategy = config.data, config.training.strategy
    if strategy == "auto":
        strategy = None  # which of them is decided later: the pair is for the split among them
    if strategy is not None:
        requested_strategy(config)  # refuses those that come later
    plan = plan_trainer(
        gpus,
        links,
        data_gpu=None if strategy == "single" else data.data_gpu,
        model_gpu=data.model_gpu,
        single=strategy == "single",
    )
    if strategy == "split" and plan.limits.data is None:
        raise TrainerError(f"{INSUFFICIENT}: {plan.reason}\n{listing(gpus)}")
    return plan


def _on_every_gpu(gpus: Sequence[Gpu]) -> TrainerLimits:
    """The limits of the smallest GPU, all of which train; raises HostError where one cannot."""
    each = [plan_trainer(gpus, Links(), model_gpu=gpu.index, single=True).limits for gpu in gpus]
    return min(each, key=lambda limits: (limits.model.limit_mib, limits.batch_size))


def _of_plan(plan: TrainerPlan, gpus: int) -> Values:
    limits, model, data = plan.limits, plan.limits.model, plan.limits.data
    values: Values = {"training.device": ("gpu", "this host has GPUs")}
    if data is not None:
        values["data.data_gpu"] = data.index, data.name
    elif gpus > 1:
        values["training.strategy"] = "single", "no pair of GPUs"
    if data is not None or gpus > 1:
        values["data.model_gpu"] = model.index, model.name
    return values | _sizes(limits)


def _mirrored(limits: TrainerLimits) -> Values:
    return {"training.device": ("gpu", "this host has GPUs"), **_sizes(limits)}


def _sizes(limits: TrainerLimits) -> Values:
    model, data = limits.model, limits.data
    by_model = f"by the {model.memory_total_mib} MiB of GPU {model.index}"
    values: Values = {
        "training.batch_size": (limits.batch_size, by_model),
        "data.prefetch_buffer_size": (limits.ring_slots, by_model),
        "data.pipeline_buffer_size": (limits.buffer_size, by_model),
        "training.enable_memory_isolation": (True, "puts the limits in force"),
    }
    for key, card in (("training.data_gpu_memory", data), ("training.model_gpu_memory", model)):
        if card is not None:
            free = f"{card.memory_free_mib} of {card.memory_total_mib} MiB are free on GPU {card.index}"
            values[key] = card.limit_mib, free
    return values


def _isolates(config: TrainConfig) -> bool:
    return config.training.enable_memory_isolation or not _is_set(config, "training.enable_memory_isolation")


def _is_set(config: TrainConfig, key: str) -> bool:
    section, _, name = key.partition(".")
    group = getattr(config, section)
    default = {"training.device": "auto"}.get(key)
    return name in group.model_fields_set and getattr(group, name) not in (None, default)


def _refuse_cpu(config: TrainConfig) -> None:
    if config.training.device == "cpu":
        raise TrainerError("--auto takes its settings from GPUs and has no effect with --device cpu: leave it out")
