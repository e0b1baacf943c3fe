"""Lines of a corpus: a recording, its text and its speaker, or why there are none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voxyard.corpus.examples import CorpusError

Split = Literal["all", "train", "eval"]

SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus")  # of recordings


@dataclass(frozen=True, slots=True)
class MetadataLine:
    """A clip as the corpus describes it."""

    clip: str
    text: str
    speaker: str
    where: str  # its text stands, such as: line 3 of metadata.csv
    path: Path  # of its recording


@dataclass(frozen=True, slots=True)
class BadClip:
    """A clip that cannot be used, and why."""

    clip: str
    reason: str

    def __str__(self) -> str:
        return f"{self.clip}: {self.reason}"


Lines = tuple[list[MetadataLine], list[BadClip]]


def read_table(path: Path) -> list[str]:
    """Lines of a text file. Raises CorpusError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")  # "\r\n" becomes "\n"
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error


def recordings_by_name(paths: Iterable[Path]) -> dict[str, Path]:
    """Sound files by their names without suffix; of several of one name the first kind of SUFFIXES."""
    found = sorted((path for path in paths if path.suffix.lower() in SUFFIXES), key=_kind, reverse=True)
    return {path.stem: path for path in found}


def _kind(path: Path) -> int:
    return SUFFIXES.index(path.suffix.lower())
