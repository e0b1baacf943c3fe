"""LJSpeech's layout: metadata.csv with id|text|normalized text[|speaker], and wavs/."""

from __future__ import annotations

from pathlib import Path

from voxyard.corpus.examples import CorpusError
from voxyard.corpus.layouts.lines import SUFFIXES, BadClip, Lines, MetadataLine, Split, read_table

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
    for number, raw in enumerate(read_table(metadata), 1):
        if not raw.strip():
            continue
        parts = raw.split("|")
        clip = parts[0].strip()
        where = f"line {number} of {metadata.name}"
        reason = _bad_line(parts, clip, seen)
        if reason:
            bad.append(BadClip(clip or f"line {number}", f"{where}: {reason}"))
            continue
        seen.add(clip)
        spoken = parts[2] if len(parts) > 2 and parts[2].strip() else parts[1]
        speaker = parts[3].strip() if len(parts) > 3 else ""
        lines.append(MetadataLine(clip, spoken, speaker, where, _recording(metadata.parent / "wavs", clip)))
    return lines, bad


def _recording(folder: Path, clip: str) -> Path:
    """A clip's WAV, or another recording of that name where there is one."""
    wav = folder / f"{clip}.wav"
    try:
        return next((path for suffix in SUFFIXES if (path := folder / f"{clip}{suffix}").exists()), wav)
    except OSError:  # a name that is too long: the reader of its header says so
        return wav


def _bad_line(parts: list[str], clip: str, seen: set[str]) -> str | None:
    if not 2 <= len(parts) <= 4:
        return f"{len(parts)} columns; expected id|text|normalized text[|speaker]"
    if not clip:
        return "no id"
    if "/" in clip or "\\" in clip or "\0" in clip or clip.startswith("."):
        return "the id is no plain file name"
    if clip in seen:
        return "the id is there twice"
    if not any(part.strip() for part in parts[1:3]):
        return "no transcript"
    return None
