"""Corpora: recordings with their texts, checked, decoded and made ready to be trained on. No TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from voxyard.corpus.check import CorpusReport, check
from voxyard.corpus.coverage import MAX_DROPPED_TEXT, Coverage, corpus_advice, log_coverage, refuse_dropped, total
from voxyard.corpus.demo import Demo, make_demo
from voxyard.corpus.directories import whole_directory
from voxyard.corpus.examples import CorpusError, Example, ExampleSource, allowed_bad
from voxyard.corpus.layouts.lines import Split
from voxyard.corpus.layouts.ljspeech import has_eval_metadata
from voxyard.corpus.layouts.recognize import LayoutName
from voxyard.corpus.recordings import HOP_LENGTH, CorpusRequirements, Recordings
from voxyard.corpus.shard_writer import Features, Prepared, Progress, write_shards
from voxyard.corpus.shards import EVAL, ShardRequirements, Shards, is_shards, only_shards
from voxyard.corpus.text import Normaliser, Units

__all__ = [
    "CorpusError",
    "CorpusReport",
    "Coverage",
    "Demo",
    "Example",
    "ExampleSource",
    "Prepared",
    "allowed_bad",
    "check",
    "has_eval_split",
    "make_demo",
    "open_source",
    "prepare",
    "version_of",
]


def open_source(
    path: Path,
    *,
    sample_rate: int,
    text_units: Units,
    language: str | None,
    max_bad_share: float,
    normaliser: Normaliser | None = None,
    max_dropped_text: float = MAX_DROPPED_TEXT,
    layout: LayoutName = "auto",
    split: Split = "train",
    hop_length: int = HOP_LENGTH,
    speakers: tuple[str, ...] | None = None,
    feature_settings: Mapping[str, Any] | None = None,
) -> Recordings | Shards:
    """A corpus by what lies at `path`: shards, or recordings in a `layout`; `auto` recognizes it.

    A clip needs a frame of `hop_length` samples for each token. `speakers` are those of the training corpus, so that
    a number means the same speaker in a validation corpus; the evaluation split of a corpus knows them by itself.
    Precomputed features are refused where they were made with others than `feature_settings`, texts of which more than
    the share `max_dropped_text` was dropped in any case; what was dropped or folded is told. Raises CorpusError.
    """
    shards = path / EVAL if split == "eval" else path
    if is_shards(shards):
        reading = version_of(normaliser)
        found = Shards(
            shards,
            ShardRequirements(sample_rate, text_units, language, hop_length, speakers, feature_settings, reading),
        )
        if found.coverage is not None:
            advice = f"{corpus_advice(text_units, language)}; then prepare the corpus again"
            refuse_dropped(found.coverage, max_dropped_text, str(shards), advice)
            log_coverage(found.coverage, shards, text_units)
        return found
    needs = CorpusRequirements(sample_rate, hop_length, speakers, max_dropped_text)
    return Recordings(
        path, split, needs, units=text_units, language=language, max_bad_share=max_bad_share, normaliser=normaliser,
        layout=layout,
    )  # fmt: skip


def version_of(normaliser: Normaliser | None) -> int:
    """Version of the reading that an index of shards names; 0 for none."""
    return 0 if normaliser is None else normaliser.version


def has_eval_split(path: Path) -> bool:
    """True where the corpus has validation clips of its own (metadata_eval.csv)."""
    return is_shards(path / EVAL) or has_eval_metadata(path)


def prepare(
    source: Path,
    destination: Path,
    *,
    sample_rate: int,
    text_units: Units,
    language: str | None,
    max_bad_share: float,
    normaliser: Normaliser | None = None,
    max_dropped_text: float = MAX_DROPPED_TEXT,
    layout: LayoutName = "auto",
    hop_length: int = HOP_LENGTH,
    workers: int = 4,
    features: Features | None = None,
    feature_settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Writes recordings as shards, the evaluation split too where there is one; all of it or nothing.

    Raises CorpusError where the source cannot be used, the disk is full, or `destination` holds something else.
    """
    description = {
        "text_units": text_units, "language": language, "reading": version_of(normaliser),
        "feature_settings": feature_settings,
    }  # fmt: skip
    needs = CorpusRequirements(sample_rate, hop_length, max_dropped_text=max_dropped_text)

    layouts: set[str] = set()

    def write(split: Split, where: Path) -> Prepared:
        found = Recordings(
            source, split, needs, units=text_units, language=language, max_bad_share=max_bad_share,
            normaliser=normaliser, layout=layout, log_bad=False,
        )  # fmt: skip
        layouts.add(found.layout)
        return write_shards(
            found, where, description, origin=source, max_bad_share=max_bad_share, already_bad=found.bad,
            coverage=found.coverage, features=features, workers=workers, progress=progress,
        )  # fmt: skip

    if Path(os.path.realpath(source)).is_relative_to(os.path.realpath(destination)):
        raise CorpusError(f"{destination} holds the recordings themselves: give another directory for the shards")
    with whole_directory(destination, "shards", only_shards) as directory:
        made = [write("train", directory)]
        if has_eval_metadata(source):
            (directory / EVAL).mkdir()
            made.append(write("eval", directory / EVAL))
    return Prepared(
        path=destination,
        clips=sum(one.clips for one in made),
        seconds=sum(one.seconds for one in made),
        bytes=sum(one.bytes for one in made),
        bad=tuple(clip for one in made for clip in one.bad),
        coverage=total(one.coverage for one in made if one.coverage is not None),
        layout=layouts.pop(),
    )
