"""`--strategy auto`: times each strategy the host allows in a process of its own, and takes the fastest."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from voxyard.corpus import CorpusError
from voxyard.host.nvml import Gpu
from voxyard.host.plan import Links, read_links
from voxyard.trainer import checkpoint
from voxyard.trainer.autotune import cache, trial_process
from voxyard.trainer.autotune.candidates import (
    Candidate,
    Candidates,
    find_candidates,
    from_features,
    has_discriminators,
    hosts_verdict,
    trial,
    way_of_config,
)
from voxyard.trainer.autotune.timing import LARGEST_BATCH, time_all, told_where_ended
from voxyard.trainer.autotune.trial_process import FailedTrialError
from voxyard.trainer.config import TrainConfig, trained_config
from voxyard.trainer.corpora import open_corpora
from voxyard.trainer.devices.placement import CPU_BATCH_SIZE, Kind, kind_of, refuse_vocoder_on, requested_strategy
from voxyard.trainer.devices.tensorflow_setup import inspect_host
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.hosts.addresses import HostGroup, host_group, refuse_uneven, without_hosts
from voxyard.trainer.reporting.bounds import MIRRORED, ON_DATA

log = logging.getLogger("voxyard.trainer")

FEATURES_DIRECTORY = "features"  # below the run's directory


@dataclass(frozen=True, slots=True)
class ChosenStrategy:
    """A configuration whose strategy is chosen, and what was timed for that (`Report.trials`); empty: nothing."""

    config: TrainConfig
    trials: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)


def choose_strategy(config: TrainConfig) -> TrainConfig:
    """`config` with `--strategy auto` resolved; see `timed_strategy`."""
    return timed_strategy(config).config


def timed_strategy(config: TrainConfig) -> ChosenStrategy:
    """`config` with `--strategy auto` resolved; `config` itself with any other strategy.

    Over hosts see `_over_hosts`. A resumed run keeps its strategy; else the cached one of this host and model is taken,
    else the strategies that the host allows are timed on the run's own corpus. Of two networks a split has two
    placements, each timed as a strategy of its own. Raises TrainerError where nothing can be timed.
    """
    if config.training.strategy != "auto":
        return ChosenStrategy(config)
    group = host_group(config)
    refuse_vocoder_on(config, None, over_hosts=group is not None)
    if group is not None:
        return ChosenStrategy(_over_hosts(config, group))
    if (kept := _of_checkpoint(config)) is not None:
        return ChosenStrategy(kept)
    corpus = open_corpora(_uncached(config)).training
    has_features = bool(corpus.feature_names)
    host = inspect_host(config)
    kind = kind_of(config, host)
    found = find_candidates(config, host, kind, _links(host.gpus, kind), has_features=has_features)
    judged = _has_discriminators(config, len(corpus), kind)
    name = cache.key(config, host, kind, has_features=has_features, discriminators=judged)
    trials = time_all(config, found, kind, discriminators=judged, key=name)
    for line in trials.told_bounds():
        log.info("--strategy auto: %s", line)
    winner = next(each for each in found.runnable if each.name == trials.close()[0])
    chosen = _with_features(winner) if winner.precomputed else winner.config
    return ChosenStrategy(chosen, trials.gains())


def _has_discriminators(config: TrainConfig, clips: int, kind: Kind) -> bool:
    """True where the trials of a vocoder have its discriminators, as most steps of the run will."""
    rows = config.training.batch_size or (CPU_BATCH_SIZE if kind == "cpu" else LARGEST_BATCH)
    judged = has_discriminators(config, clips, rows)
    if config.model.networks != "acoustic":
        log.info(
            "--strategy auto: the vocoder is timed %s discriminators, as most steps of this run are",
            "with its" if judged else "without",
        )
    return judged


def _over_hosts(config: TrainConfig, group: HostGroup) -> TrainConfig:
    """`config` over its hosts, split or not within this one, whichever this host alone is faster with.

    Both are timed here on this host's part of a batch, and what is faster on all hosts together, which is printed
    beside it and beside the network's bound. Nothing is cached: all hosts have to time at the same time.
    """
    if config.training.batch_size is not None:
        refuse_uneven(group, config.training.batch_size)
    part = config.training.batch_size and config.training.batch_size // group.count
    alone = without_hosts(config.changed({"training.batch_size": part}))
    host = inspect_host(alone)
    kind = kind_of(alone, host)
    found = find_candidates(alone, host, kind, _links(host.gpus, kind), has_features=True)
    # Over hosts a split trains both networks on the model device.
    inner = Candidates(
        tuple(each for each in found.runnable if each.name not in (MIRRORED, ON_DATA)), {}, found.devices
    )
    corpus = open_corpora(_uncached(config)).training
    judged = _has_discriminators(alone, len(corpus) // group.count, kind)
    trials = time_all(alone, inner, kind, discriminators=judged, key=None)
    fastest = trials.close()[0]
    ids = next(each.config.data for each in inner.runnable if each.name == fastest)
    chosen = config.model_copy(update={"data": ids}).changed({"training.strategy": "multiworker"})
    log.info("--strategy auto: timing %d steps on all %d hosts", config.training.strategy_steps, group.count)
    with tempfile.TemporaryDirectory(prefix="voxyard-trial-") as folder, told_where_ended(lambda: None):
        try:
            steps = config.training.strategy_steps
            report = trial_process.ask(
                {"config": trial(chosen, folder, steps, discriminators=judged).model_dump(mode="json")}
            )
        except FailedTrialError as error:
            raise TrainerError(f"--strategy auto could not time the hosts: {error}", exit_code=1) from error
    for line in hosts_verdict(report, group.count, median(trials.rates(fastest))):
        log.info("--strategy auto: %s", line)
    return chosen


def _with_features(winner: Candidate) -> TrainConfig:
    """The winner's configuration, its features written, once a run."""
    folder = winner.config.training.checkpoint_dir / FEATURES_DIRECTORY
    wanted = open_corpora(_uncached(winner.config)).training.fingerprint
    config = from_features(winner.config, str(folder))
    if folder.exists() and _is_of(config, wanted):
        log.info("--strategy auto: the features in %s are those of this corpus", folder)
        return config
    log.info("--strategy auto: writing the features of the whole corpus to %s", folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with told_where_ended(lambda: None):
            document = winner.config.model_dump(mode="json")
            made = trial_process.ask({"config": document, "features": str(folder), "clips": None}, seconds=None)
    except FailedTrialError as error:
        raise TrainerError(f"the features were not written: {error}", exit_code=1) from error
    log.info("--strategy auto: %d clips, %.0f MiB", made["clips"], made["bytes"] / 2**20)
    return config


def _is_of(config: TrainConfig, wanted: str) -> bool:
    """True where the features that `config` names were made of the wanted corpus, with its settings."""
    try:
        return open_corpora(config).training.fingerprint == wanted
    except CorpusError as error:
        log.info("--strategy auto: the features are made again: %s", error)
        return False


def _of_checkpoint(config: TrainConfig) -> TrainConfig | None:
    """Configuration of a resumed run: with another strategy it would not be the same run."""
    if not config.training.resume:
        return None
    found = checkpoint.newest_good(config.training.checkpoint_dir)
    if found is None:
        return None
    was = trained_config(found.meta["config"])
    strategy = requested_strategy(was)
    place = config.training.vocoder_on or was.training.vocoder_on if strategy == "split" else None
    kept = was.changed({"training.vocoder_on": place})
    log.info("--strategy auto: the resumed run keeps its strategy %s", way_of_config(kept))
    values: dict[str, Any] = {"training.strategy": strategy, "training.vocoder_on": place}
    values |= {"data.data_gpu": was.data.data_gpu, "data.model_gpu": was.data.model_gpu}
    if was.data.train_data is not None and was.data.train_data.name == FEATURES_DIRECTORY:
        values["data.train_data"] = was.data.train_data
    return config.changed(values)


def _links(gpus: tuple[Gpu, ...], kind: Kind) -> Links:
    return read_links() if kind == "gpu" and len(gpus) > 1 else Links()


def _uncached(config: TrainConfig) -> TrainConfig:
    """Without a cache, which is not needed to read the metadata of a corpus."""
    return config.changed({"data.cache_dataset": False, "data.cache_file": None})
