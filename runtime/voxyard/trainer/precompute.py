"""Writes a run's corpus, or its first clips, as shards with the features in them."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from voxyard.corpus import ExampleSource, has_eval_split, open_source
from voxyard.corpus.directories import whole_directory
from voxyard.corpus.examples import Subset
from voxyard.corpus.layouts.lines import Split
from voxyard.corpus.shard_writer import Prepared, write_shards
from voxyard.corpus.shards import EVAL, only_shards
from voxyard.trainer.api import prepare_features
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.corpora import corpus_settings
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.text.front_end import with_text_front_end

log = logging.getLogger("voxyard.trainer")


def precompute(config: TrainConfig, destination: Path, *, clips: int | None = None) -> Prepared:
    """Writes all clips of `config`'s training corpus, or the first `clips`, with mel, pitch and energy.

    The evaluation split comes too where the whole corpus is written. All of it or nothing. Starts TensorFlow.
    Raises CorpusError, or TrainerError where there is no corpus.
    """
    source = config.data.train_data
    if source is None:
        raise TrainerError("no corpus: give --train-data DIR")
    config = with_text_front_end(config)
    features, settings = prepare_features(config), corpus_settings(config)

    def write(split: Split, where: Path) -> Prepared:
        found = open_source(source, replace(settings, feature_settings=None), split=split)
        some = _first(found, clips)
        return write_shards(some, where, settings, origin=source, coverage=found.coverage, features=features)

    with whole_directory(destination, "shards", only_shards) as directory:
        made = write("train", directory)
        if clips is None and has_eval_split(source):
            (directory / EVAL).mkdir()
            write("eval", directory / EVAL)
    return Prepared(destination, made.clips, made.seconds, made.bytes, made.bad, made.coverage)


def _first(source: ExampleSource, clips: int | None) -> ExampleSource:
    return source if clips is None or clips >= len(source) else Subset(source, np.arange(clips))
