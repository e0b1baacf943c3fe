"""Corpora of a run: training and validation clips, with their lengths. No TensorFlow."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from voxyard.corpus import CorpusSettings, Coverage, ExampleSource, allowed_bad, has_eval_split, open_source
from voxyard.corpus.cache import CachedSource
from voxyard.corpus.examples import Subset
from voxyard.corpus.layouts.lines import Split
from voxyard.host.memory import available_bytes
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.batch_size import longest_bucket
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.model.mel import EDGES
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.text.front_end import choose, tokenizer_of, with_text_front_end

log = logging.getLogger("voxyard.trainer")

CACHE_SHARE = 0.5  # of the available memory, that --cache-dataset may take


@dataclass(frozen=True)
class Corpora:
    """The two corpora of a run; `validation` may be None."""

    training: ExampleSource
    validation: ExampleSource | None
    coverage: Coverage | None = None  # of the training corpus' texts; None where they were not counted

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names of the training corpus' speakers."""
        return self.training.speakers


def longest_of(config: TrainConfig, source: Subset | ExampleSource) -> Bucket | None:
    """Bucket of a corpus's longest clip and longest text; None of a corpus without clips."""
    if not len(source):
        return None
    return longest_bucket(int(source.samples.max()), int(source.token_lengths.max()), config.model.hop_length)


def open_corpora(config: TrainConfig) -> Corpora:
    """Opens what the settings name. Raises CorpusError or TrainerError with what was found and what to do."""
    data = config.data
    if data.train_data is None:
        raise TrainerError("no corpus: give --train-data DIR (`voxyard corpus demo DIR` makes a small one)")
    config = with_text_front_end(config)
    training, coverage = _open(data.train_data, config)
    if data.val_data is not None:
        validation: ExampleSource | None = _open(data.val_data, config, speakers=training.speakers)[0]
    elif has_eval_split(data.train_data):
        validation = _open(data.train_data, config, split="eval")[0]
    else:
        training, validation = hold_out(training, data.validation_share)
    if validation is None:
        log.info("No validation: nothing is held out of %d clips (--val-data, --validation-share)", len(training))
    return Corpora(_cached(training, config), validation, coverage)


def hold_out(source: ExampleSource, share: float) -> tuple[ExampleSource, ExampleSource | None]:
    """Every n-th clip for validation, the others for training; the same clips each time."""
    held = int(len(source) * share)
    if held == 0:
        return source, None
    chosen = np.linspace(0, len(source) - 1, held + 2, dtype=np.int64)[1:-1]
    others = np.setdiff1d(np.arange(len(source)), chosen)
    return Subset(source, others), Subset(source, chosen)


def feature_settings(config: TrainConfig) -> dict[str, Any]:
    """Settings that precomputed features depend on."""
    names = ("hop_length", "fft_size", "mels", "mel_low_hz", "mel_high_hz")
    more = {"pre_emphasis": config.data.pre_emphasis, "mel_edges": EDGES}
    return {name: getattr(config.model, name) for name in names} | more


def corpus_settings(config: TrainConfig) -> CorpusSettings:
    """What the clips of a run are read with, and their features are made with."""
    text = tokenizer_of(config.model)
    return CorpusSettings(
        sample_rate=config.model.sample_rate,
        hop_length=config.model.hop_length,
        text_units=text.units,
        language=text.language,
        normaliser=text.normaliser,
        layout=config.data.corpus_layout,
        max_bad_share=config.data.max_bad_share,
        max_dropped_text=config.data.max_dropped_text,
        feature_settings=feature_settings(config),
    )


def settings_for(config: TrainConfig, corpus: Path) -> CorpusSettings:
    """The same for a corpus that no run was chosen for, whose texts are read as it says. Raises CorpusError."""
    model = choose(config.model, corpus, layout=config.data.corpus_layout)
    return corpus_settings(config.model_copy(update={"model": model}))


def _open(
    path: Path, config: TrainConfig, split: Split = "train", speakers: tuple[str, ...] | None = None
) -> tuple[ExampleSource, Coverage | None]:
    source = open_source(path, corpus_settings(config), split=split, speakers=speakers)
    _refuse_features(source, config)
    return _without_long_clips(source, config), source.coverage


def _without_long_clips(source: ExampleSource, config: TrainConfig) -> ExampleSource:
    longest = config.data.max_clip_seconds
    long = np.flatnonzero(source.samples > longest * source.sample_rate)
    if len(long) == 0:
        return source
    names = ", ".join(f"{source.ids[i]} ({source.samples[i] / source.sample_rate:.1f} s)" for i in long[:10])
    what = f"{len(long)} of {len(source)} clips are longer than --max-clip-seconds {longest:g}: {names}"
    if len(long) > allowed_bad(len(source), config.data.max_bad_share):
        raise TrainerError(f"{what}; raise --max-clip-seconds, cut the clips, or allow more with --max-bad-share")
    log.warning("%s; they are left out", what)
    return Subset(source, np.setdiff1d(np.arange(len(source)), long))


def _refuse_features(source: ExampleSource, config: TrainConfig) -> None:
    if source.feature_names and config.model.networks != "acoustic":
        raise TrainerError(
            f"--networks {config.model.networks} learns from samples, and shards of `corpus prepare --features` have "
            "none: give the recordings, or shards made without --features"
        )


def _cached(source: ExampleSource, config: TrainConfig) -> ExampleSource:
    data = config.data
    if not (data.cache_dataset or data.cache_file):
        return source
    if data.cache_dataset and data.cache_file:
        raise TrainerError("--cache-dataset keeps clips in memory, --cache-file in a file: give one of them")
    if source.feature_names:
        raise TrainerError(
            "precomputed features are read straight from their files: leave out --cache-dataset and --cache-file"
        )
    size, available = CachedSource.size(source), available_bytes()
    if data.cache_dataset and size > CACHE_SHARE * available:
        raise TrainerError(
            f"--cache-dataset needs {size / 2**30:.1f} GiB and {available / 2**30:.1f} GiB are available "
            f"(it may take half): use --cache-file PATH"
        )
    log.info("Dataset cache: %.0f MiB in %s", size / 2**20, data.cache_file or "memory")
    return CachedSource(source, data.cache_file)
