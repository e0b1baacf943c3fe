"""Strategies that a host allows for a run, each as a configuration that can be timed. No TensorFlow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from voxyard.host import HostError
from voxyard.host.plan import Links, plan_trainer
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.device_ids import HostDevices, Placement
from voxyard.trainer.devices.placement import Kind

FEATURES = "single, precomputed features"
LOOK_AHEAD = 4  # host batches in a trial: a full buffer of an hour's clips would hide how slowly they are read


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy that can be timed. `precomputed`: from shards with features, which are still to be written."""

    name: str
    config: TrainConfig
    precomputed: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """Strategies that can be timed, and by name the reason why others cannot."""

    runnable: tuple[Candidate, ...]
    left_out: Mapping[str, str]


def find_candidates(
    config: TrainConfig, host: HostDevices, kind: Kind, links: Links, *, has_features: bool
) -> Candidates:
    """All strategies for `config` on this host; `has_features`: the corpus has precomputed features."""
    left_out: dict[str, str] = {}
    found = [Candidate("single", _as(config, "single", host, kind))]
    if why := _why_not_precomputed(config, has_features=has_features):
        left_out[FEATURES] = why
    else:
        found.append(Candidate(FEATURES, _as(config, "single", host, kind), precomputed=True))
    devices = config.training.cpu_devices if kind == "cpu" else len(host.gpus)
    if devices < 2:
        few = f"{devices} {'logical CPU device' if kind == 'cpu' else 'GPU'}, two are needed"
        return Candidates(tuple(found), left_out | {"split": few, "mirrored": few})
    try:
        found.append(Candidate("split", _split(config, host, kind, links)))
    except HostError as error:
        left_out["split"] = str(error).splitlines()[0]
    found.append(Candidate("mirrored", _as(config, "mirrored", host, kind)))
    return Candidates(tuple(found), left_out)


def trial(config: TrainConfig, directory: str, steps: int) -> TrainConfig:
    """Configuration of the run that times a candidate: some steps from the beginning, in a temporary directory."""
    return _with(
        config,
        data={"pipeline_buffer_size": min(config.data.pipeline_buffer_size, LOOK_AHEAD), "model_start_delay": 0.0},
        training={
            "checkpoint_dir": directory, "resume": False, "init_from": None, "epochs": None, "max_minutes": None,
            "max_steps": steps, "checkpoint_every": steps + 1,
        },
        telemetry={"metrics_port": 0, "tensorboard": False, "image_every": steps + 1, "sample_text": "", "judge": 0},
    )  # fmt: skip


def from_features(config: TrainConfig, directory: str) -> TrainConfig:
    """The same run from shards with features in `directory`; without a cache of decoded clips."""
    return _with(config, data={"train_data": directory, "cache_dataset": False, "cache_file": None})


def _split(config: TrainConfig, host: HostDevices, kind: Kind, links: Links) -> TrainConfig:
    data = config.data
    if data.data_gpu is None or data.model_gpu is None:
        ids: tuple[Any, Any] = (0, 1)
        if kind == "gpu":
            chosen = plan_trainer(host.gpus, links, data_gpu=data.data_gpu, model_gpu=data.model_gpu).limits
            if chosen.data is None:
                raise HostError("no two GPUs of this host make a pair")
            ids = chosen.data.index, chosen.model.index
        config = _with(config, data={"data_gpu": ids[0], "model_gpu": ids[1]})
    return _with(config, training={"strategy": "split"})


def _as(config: TrainConfig, strategy: Placement, host: HostDevices, kind: Kind) -> TrainConfig:
    """With another strategy, and without the settings that do not apply to it."""
    alone = strategy == "single" and kind == "gpu" and len(host.gpus) > 1
    return _with(
        config,
        data={"data_gpu": None, "model_gpu": config.data.model_gpu if alone else None},
        training={"strategy": strategy, "data_gpu_memory": None},
    )


def _why_not_precomputed(config: TrainConfig, *, has_features: bool) -> str | None:
    if has_features:
        return "the corpus has its features already"
    if config.model.module is not None:
        return "features are written for voxyard's own model, not for --model-module"
    if config.data.gain_augment_db > 0:
        return "--gain-augment-db changes the sound in every step"
    return None


def _with(config: TrainConfig, **sections: Mapping[str, Any]) -> TrainConfig:
    """A copy with these values, checked as if they had been given."""
    document = config.model_dump(mode="json")
    for name, values in sections.items():
        document[name] |= values
    return TrainConfig.model_validate(document)


def comparable(names: Collection[str], of_disk: Collection[str]) -> tuple[set[str], tuple[str, ...]]:
    """Those that can be compared, and those that cannot: whose clips came from memory while others' came from disk."""
    compared = set(names) & set(of_disk) or set(names)
    return compared, tuple(sorted(set(names) - compared))


def contenders(trials: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Names that may be the fastest, by the rates of their trials: the one with the highest median first.

    Beside it those with a trial that was as fast as its slowest. The result is clear where there are none.
    """
    ordered = sorted(trials, key=lambda name: -median(trials[name]))
    slowest = min(trials[ordered[0]])
    return tuple(name for name in ordered if name == ordered[0] or max(trials[name]) >= slowest)


def hosts_verdict(report: Mapping[str, Any], count: int, alone: float) -> Iterator[str]:
    """Sentences on a trial over `count` hosts; `alone` is the rate of this host, in clips a second."""
    rate = report["steps_per_second"] * report["batch_rows"]
    size, seconds = report["gradient_bytes"], report["all_reduce_seconds"]
    step = 1 / report["steps_per_second"] if report["steps_per_second"] else 0.0
    speed = size / seconds / 2**20
    yield (
        f"the network averages {size / 2**20:.1f} MiB of gradients in {seconds:.3g} s ({speed:.3g} MiB/s): no step "
        f"can be faster, one here takes {step:.3g} s"
    )
    pays = rate > alone
    verdict = "" if pays else ": they do not pay; a larger --batch-size does less often what the network is slow at"
    yield f"{count} hosts {rate:.3g} clips/s, this one alone {alone:.3g}{verdict}"


def table(rows: Sequence[tuple[str, float | None, str]]) -> Iterator[str]:
    """Name, clips a second (None: not timed) and a note of each, the fastest first."""
    best = max((rate for _, rate, _ in rows if rate), default=0.0)
    width = max(len(name) for name, _, _ in rows)
    for name, rate, note in sorted(rows, key=lambda row: -(row[1] or 0.0)):
        figures = f"{rate:9.3g} clips/s  {rate / best:5.0%}" if rate and best else f"{'—':>9}               "
        yield f"{name:<{width}}  {figures}  {note}".rstrip()
