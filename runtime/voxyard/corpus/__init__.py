"""Corpora: recordings with their texts, checked, decoded and made ready to be trained on. No TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from voxyard.corpus.demo import Demo, make_demo
from voxyard.corpus.examples import CorpusError, Example, ExampleSource
from voxyard.corpus.ljspeech import METADATA, Recordings, Split
from voxyard.corpus.shards import Features, Prepared, Shards, is_shards, write_shards
from voxyard.corpus.survey import Survey, check
from voxyard.corpus.text import Units

__all__ = [
    "CorpusError",
    "Demo",
    "Example",
    "ExampleSource",
    "Prepared",
    "Survey",
    "check",
    "has_eval_split",
    "make_demo",
    "open_source",
    "prepare",
]

EVAL = "eval"  # where the shards of the evaluation split lie, below those of the training split


def open_source(
    path: Path, *, sample_rate: int, text_units: Units, language: str, max_bad_share: float, split: Split = "train"
) -> ExampleSource:
    """A corpus by what lies at `path`: shards, or recordings in LJSpeech layout. Raises CorpusError."""
    shards = path / EVAL if split == "eval" else path
    if is_shards(shards):
        return Shards(shards, sample_rate=sample_rate, units=text_units, language=language)
    return Recordings(
        path, split, sample_rate=sample_rate, units=text_units, language=language, max_bad_share=max_bad_share
    )


def has_eval_split(path: Path) -> bool:
    """Whether the corpus brings clips for validation of its own (metadata_eval.csv)."""
    return is_shards(path / EVAL) or (path / METADATA["eval"][0]).is_file()


def prepare(
    source: Path,
    destination: Path,
    *,
    sample_rate: int,
    text_units: Units,
    language: str,
    max_bad_share: float,
    features: Features | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Prepared:
    """Writes recordings as shards, the evaluation split too where there is one. Raises CorpusError."""
    description = {"text_units": text_units, "language": language}

    def write(split: Split, where: Path) -> Prepared:
        found = Recordings(
            source, split, sample_rate=sample_rate, units=text_units, language=language, max_bad_share=max_bad_share
        )
        return write_shards(
            found, where, description, max_bad_share=max_bad_share, features=features, progress=progress
        )

    made = write("train", destination)
    if has_eval_split(source):
        write("eval", destination / EVAL)
    return made
