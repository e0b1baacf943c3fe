"""Strategies that a host allows for a run, each as a configuration that can be timed. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from voxyard.host.errors import HostError
from voxyard.host.plan import Links, plan_trainer
from voxyard.trainer.config import DEFAULT_EPOCHS, TrainConfig, VocoderOn
from voxyard.trainer.devices.device_ids import HostDevices, Placement
from voxyard.trainer.devices.placement import Kind, requested_strategy
from voxyard.trainer.reporting.bounds import FEATURES, MIRRORED, ON_DATA, ON_MODEL, SINGLE, SPLIT

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
    devices: int = 1  # that mirrored trains on


def find_candidates(
    config: TrainConfig, host: HostDevices, kind: Kind, links: Links, *, has_features: bool
) -> Candidates:
    """All strategies for `config` on this host; `has_features`: the corpus has precomputed features."""
    left_out: dict[str, str] = {}
    found = [Candidate(SINGLE, _as(config, SINGLE, host, kind))]
    if why := _why_not_precomputed(config, has_features=has_features):
        left_out[FEATURES] = why
    else:
        found.append(Candidate(FEATURES, _as(config, SINGLE, host, kind), precomputed=True))
    devices = config.training.cpu_devices if kind == "cpu" else len(host.gpus) * config.training.gpu_parts
    places = _places(config)
    if devices < 2:
        few = f"{devices} {'logical CPU device' if kind == 'cpu' else 'GPU'}, two are needed"
        return Candidates(tuple(found), left_out | dict.fromkeys([*places, MIRRORED], few))
    asked = config.training.vocoder_on
    for name, place in places.items():
        if place != asked and asked is not None:
            left_out[name] = f"--vocoder-on {asked} was given"
            continue
        try:
            split = _split(config, host, kind, links)
        except HostError as error:
            left_out[name] = str(error).splitlines()[0]
        else:
            found.append(Candidate(name, _with(split, training={"vocoder_on": place})))
    found.append(Candidate(MIRRORED, _as(config, MIRRORED, host, kind)))
    return Candidates(tuple(found), left_out, devices)


def _places(config: TrainConfig) -> dict[str, VocoderOn | None]:
    """Names of the splits and where each trains the vocoder; a model of the user's own is placed by --vocoder-on."""
    if config.model.networks == "acoustic":
        return {SPLIT: config.training.vocoder_on}
    return {ON_DATA: "data", ON_MODEL: "model"}


def way_of_config(config: TrainConfig) -> str:
    """Name of the candidate that a chosen configuration is."""
    strategy = requested_strategy(config)
    if strategy != "split" or config.model.networks == "acoustic":
        return strategy
    return ON_MODEL if config.training.vocoder_on == "model" else ON_DATA


def has_discriminators(config: TrainConfig, clips: int, rows: int) -> bool:
    """True where most steps of a run have a vocoder's discriminators: what its trials have to time.

    `clips` is the size of the corpus, `rows` about the clips of a batch on one device.
    """
    training = config.training
    ends = [] if training.max_steps is None else [training.max_steps]
    if training.epochs is not None or not ends:
        ends.append((training.epochs or DEFAULT_EPOCHS) * max(1, clips // (rows * training.grad_accum)))
    return 2 * training.discriminators_after < min(ends)


def trial(config: TrainConfig, directory: str, steps: int, *, discriminators: bool = True) -> TrainConfig:
    """Configuration of the run that times a candidate: some steps from the beginning, in a temporary directory.

    A vocoder has its discriminators in all of these steps, or in none.
    """
    return _with(
        config,
        data={
            "pipeline_buffer_size": min(config.data.pipeline_buffer_size, LOOK_AHEAD), "model_start_delay": 0.0,
            "adapt": False,
        },
        training={
            "checkpoint_dir": directory, "resume": False, "init_from": None, "epochs": None, "max_minutes": None,
            "max_steps": steps, "checkpoint_every": steps + 1, "discriminators_after": 0 if discriminators else steps,
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
        if kind == "gpu" and config.training.gpu_parts == 1:
            chosen = plan_trainer(host.gpus, links, data_gpu=data.data_gpu, model_gpu=data.model_gpu).limits
            if chosen.data is None:
                raise HostError("no two GPUs of this host make a pair")
            ids = chosen.data.index, chosen.model.index
        config = _with(config, data={"data_gpu": ids[0], "model_gpu": ids[1]})
    return _with(config, training={"strategy": "split"})


def _as(config: TrainConfig, strategy: Placement, host: HostDevices, kind: Kind) -> TrainConfig:
    """With another strategy, and without the settings that do not apply to it."""
    alone = strategy == "single" and kind == "gpu" and len(host.gpus) * config.training.gpu_parts > 1
    return _with(
        config,
        data={"data_gpu": None, "model_gpu": config.data.model_gpu if alone else None},
        training={"strategy": strategy, "data_gpu_memory": None, "vocoder_on": None},
    )


def _why_not_precomputed(config: TrainConfig, *, has_features: bool) -> str | None:
    if has_features:
        return "the corpus has its features already"
    if config.model.networks != "acoustic":
        return "a vocoder learns from samples, which shards with features do not have"
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
