"""Corpora: recordings with their texts, checked, decoded and made ready to be trained on. No TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path

from voxyard.corpus.check import CorpusReport, check
from voxyard.corpus.coverage import Coverage, log_coverage, refuse_dropped, total
from voxyard.corpus.demo import Demo, make_demo
from voxyard.corpus.directories import whole_directory
from voxyard.corpus.examples import CorpusError, Example, ExampleSource, allowed_bad
from voxyard.corpus.layouts.lines import Split
from voxyard.corpus.layouts.ljspeech import has_eval_metadata
from voxyard.corpus.recordings import Recordings
from voxyard.corpus.settings import CorpusSettings
from voxyard.corpus.shard_writer import Features, Prepared, Progress, write_shards
from voxyard.corpus.shards import EVAL, Shards, is_shards, only_shards

__all__ = [
    "CorpusError",
    "CorpusReport",
    "CorpusSettings",
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
]


def open_source(
    path: Path, settings: CorpusSettings, *, split: Split = "train", speakers: tuple[str, ...] | None = None
) -> Recordings | Shards:
    """A corpus by what lies at `path`: shards, or recordings.

    `speakers` are those of the training corpus, so that a number means the same speaker in a validation corpus; the
    evaluation split of a corpus knows them by itself. Texts of which too much was dropped are refused in either; what
    was dropped or folded is told. Raises CorpusError.
    """
    shards = path / EVAL if split == "eval" else path
    if not is_shards(shards):
        return Recordings(path, split, settings, speakers=speakers)
    found = Shards(shards, settings, speakers=speakers)
    if found.coverage is not None:
        advice = f"{settings.advice}; then prepare the corpus again"
        refuse_dropped(found.coverage, settings.max_dropped_text, str(shards), advice)
        log_coverage(found.coverage, shards, settings.text_units)
    return found


def has_eval_split(path: Path) -> bool:
    """True where the corpus has validation clips of its own (metadata_eval.csv)."""
    return is_shards(path / EVAL) or has_eval_metadata(path)


def prepare(
    source: Path,
    destination: Path,
    settings: CorpusSettings,
    *,
    features: Features | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Writes recordings as shards, the evaluation split too where there is one; all of it or nothing.

    Raises CorpusError where the source cannot be used, the disk is full, or `destination` holds something else.
    """
    layouts: set[str] = set()

    def write(split: Split, where: Path) -> Prepared:
        found = Recordings(source, split, settings, log_bad=False)
        layouts.add(found.layout)
        return write_shards(
            found, where, settings, origin=source, already_bad=found.bad, coverage=found.coverage, features=features,
            progress=progress,
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
