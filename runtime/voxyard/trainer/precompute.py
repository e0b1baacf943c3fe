"""Writes a run's corpus, or its first clips, as shards with the features in them."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from voxyard.corpus import ExampleSource, has_eval_split, version_of
from voxyard.corpus.directories import whole_directory
from voxyard.corpus.examples import Subset
from voxyard.corpus.layouts.lines import Split
from voxyard.corpus.shard_writer import Prepared, write_shards
from voxyard.corpus.shards import EVAL, only_shards
from voxyard.trainer.api import prepare_features
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.corpora import feature_settings, open_clips
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.text.front_end import tokenizer_of, with_text_front_end

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
    features, text = prepare_features(config), tokenizer_of(config.model)
    description = {
        "text_units": text.units,
        "language": text.language,
        "reading": version_of(text.normaliser),
        "feature_settings": feature_settings(config),
    }

    def write(split: Split, where: Path) -> Prepared:
        found = open_clips(source, config, split)
        return write_shards(
            _first(found, clips),
            where,
            description,
            origin=source,
            max_bad_share=config.data.max_bad_share,
            coverage=found.coverage,
            features=features,
        )

    with whole_directory(destination, "shards", only_shards) as directory:
        made = write("train", directory)
        if clips is None and has_eval_split(source):
            (directory / EVAL).mkdir()
            write("eval", directory / EVAL)
    return Prepared(destination, made.clips, made.seconds, made.bytes, made.bad, made.coverage)


def _first(source: ExampleSource, clips: int | None) -> ExampleSource:
    return source if clips is None or clips >= len(source) else Subset(source, np.arange(clips))
