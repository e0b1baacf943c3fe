"""LJSpeech's layout: metadata.csv with id|text|normalized text[|speaker], and wavs/."""

from __future__ import annotations

import re
from pathlib import Path

from voxyard.corpus.examples import CorpusError
from voxyard.corpus.layouts.columns import Row, read_rows
from voxyard.corpus.layouts.lines import SUFFIXES, BadClip, Lines, MetadataLine, Split, folder_of

COLUMNS = "id|text|normalized text[|speaker]"
_WAVS = re.compile(r"^(\./)?wavs[/\\]")
_SLASHES = re.compile(r"[/\\]")
EVAL_METADATA = "metadata_eval.csv"
METADATA: dict[Split, tuple[str, ...]] = {  # the first that is there
    "all": ("metadata.csv", "metadata_train.csv"),
    "train": ("metadata_train.csv", "metadata.csv"),
    "eval": (EVAL_METADATA,),
}


def is_ljspeech(path: Path) -> bool:
    """True for a folder with LJSpeech's metadata."""
    return any((path / name).is_file() for name in METADATA["all"])


def read_ljspeech(directory: Path, split: Split) -> Lines:
    """The clips of a split. What is evaluated on is not trained on, also where metadata.csv lists all clips."""
    lines, bad = _read_metadata(_find_metadata(directory, split))
    if split == "eval" or not has_eval_metadata(directory):
        return lines, bad
    held, held_bad = _read_metadata(directory / EVAL_METADATA)
    names = {line.clip for line in held}
    others = [line for line in lines if line.clip not in names]
    if split == "train" and lines and not others:
        raise CorpusError(
            f"{directory} has all of its {len(lines)} clips in {EVAL_METADATA} too, so none is left to train on: take "
            "those that are to be trained on out of it"
        )
    return (others + held, bad + held_bad) if split == "all" else (others, bad)


def has_eval_metadata(directory: Path) -> bool:
    """True where a directory has validation metadata."""
    return (directory / EVAL_METADATA).is_file()


def _find_metadata(directory: Path, split: Split) -> Path:
    for name in METADATA[split]:
        if (directory / name).is_file():
            return directory / name
    raise CorpusError(f"{directory} holds no {' or '.join(METADATA[split])}")


def _read_metadata(metadata: Path) -> Lines:
    lines, bad, seen = [], [], set[str]()
    rows = list(read_rows(metadata, ("path", "text", "normalized", "speaker"), COLUMNS))
    folder = folder_of(metadata, "wavs", [_clip(row.cell("path")) for row in rows[:9]])
    for row in rows:
        clip = _clip(row.cell("path"))
        reason = row.fault or _bad_row(row, clip, seen)
        if reason:
            bad.append(BadClip(row.first or row.where.partition(" of ")[0], f"{row.where}: {reason}"))
            continue
        seen.add(clip)
        spoken = row.cell("normalized") or row.cell("text")
        lines.append(MetadataLine(clip, spoken, row.cell("speaker"), row.where, folder / f"{clip}.wav"))
    return lines, bad


def _clip(named: str) -> str:
    """The id of a clip that others name by its file: ID.wav, wavs/ID.wav."""
    name = _WAVS.sub("", named)
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and f".{suffix.lower()}" in SUFFIXES else name


def _bad_row(row: Row, clip: str, seen: set[str]) -> str | None:
    if not clip:
        return "no id"
    if "\0" in clip or any(part.startswith(".") or not part for part in _SLASHES.split(clip)):
        return "the id is no plain file name: expected ID, ID.wav or wavs/ID.wav"
    if clip in seen:
        return "the id is there twice"
    return None if row.cell("normalized") or row.cell("text") else "no transcript"
