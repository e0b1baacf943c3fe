"""Lines of a corpus: a recording, its text and its speaker, or why there are none."""

from __future__ import annotations

import logging
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from voxyard.corpus.examples import CorpusError

log = logging.getLogger("voxyard.corpus")

Split = Literal["all", "train", "eval"]

SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".oga", ".wave", ".aiff", ".aif")  # of recordings
_OTHERS = (  # looked at where there is none of those
    ".au", ".caf", ".w64", ".sph", ".m4a", ".mp4", ".aac", ".webm", ".wma", ".amr", ".ape", ".wv", ".wav.gz"
)  # fmt: skip
_WORKERS = 8  # threads that look for recordings
_FOLDERS = ("", "wavs", "wav", "clips", "audio")  # of the recordings of a table that names none
_ENCODINGS = {  # by the first bytes of a file
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"PK": "a spreadsheet or an archive",
    b"PA": "Parquet",
}


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
        text = path.read_text(encoding="utf-8-sig")  # "\r\n" becomes "\n"
    except UnicodeDecodeError as error:
        looks, line = _ENCODINGS.get(error.object[:2]), error.object.count(b"\n", 0, error.start) + 1
        where = f"it looks like {looks}" if looks else f"line {line}"
        raise CorpusError(f"{path} is not UTF-8 (byte {error.start}; {where}): save it as UTF-8") from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    if "\0" in text[:2]:
        raise CorpusError(f"{path} is not UTF-8 (byte 1; it looks like UTF-16): save it as UTF-8")
    return text.split("\n")


def folder_of(table: Path, usual: str, names: Sequence[str]) -> Path:
    """The folder that a table's names start from: the usual one below the table's, else the one that holds a clip."""
    folders = _Folders()
    for folder in (usual, *_FOLDERS):
        if any(_exists(folders.find(table.parent / folder / name)) for name in names[:9] if name):
            return table.parent / folder
    return table.parent / usual


def as_on_disk(lines: Iterable[MetadataLine]) -> list[MetadataLine]:
    """Lines with the paths that their recordings have: a table seldom writes all names as the disk has them."""
    lines, folders = list(lines), _Folders()
    with ThreadPoolExecutor(_WORKERS) as pool:
        there = pool.map(lambda line: _exists(line.path), lines)
    pairs = zip(lines, there, strict=True)
    return [line if found else replace(line, path=folders.find(line.path)) for line, found in pairs]


class _Folders:
    """Folders that are listed once."""

    def __init__(self) -> None:
        self._listed: dict[Path, dict[str, list[Path]]] = {}

    def find(self, path: Path) -> Path:
        """The file or folder that is meant by a path; the path itself where there is none, or more than one.

        It may differ in case, in how accents are composed, in its suffix or by having none, and by backslashes.
        """
        if _exists(path) or path == path.parent:
            return path
        if "\\" in path.name:
            found = self.find(path.parent / path.name.replace("\\", "/"))
            return found if _exists(found) else path
        stem = path.stem if path.suffix.lower() in (*SUFFIXES, *_OTHERS) else path.name
        named = self._names(self.find(path.parent))
        for name in (path.name, *(f"{stem}{suffix}" for suffix in (*SUFFIXES, *_OTHERS))):
            found_here = named.get(_folded(name), [])
            if len(found_here) == 1:
                return found_here[0]
        return path

    def _names(self, folder: Path) -> dict[str, list[Path]]:
        if folder not in self._listed:
            named = self._listed[folder] = defaultdict(list)
            try:
                for path in folder.iterdir():
                    named[_folded(path.name)].append(path)
            except OSError as error:  # no folder, or one that is closed: the reader of a header says which
                log.debug("%s is not listed: %s", folder, error)
        return self._listed[folder]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long: the reader of a header says so
        return False


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def recordings_by_name(paths: Iterable[Path], name: Callable[[Path], str] = lambda path: path.stem) -> dict[str, Path]:
    """Sound files by their names without suffix; of several of one name the first kind of SUFFIXES."""
    found = sorted((path for path in paths if path.suffix.lower() in SUFFIXES), key=_kind, reverse=True)
    return {name(path): path for path in found}


def _kind(path: Path) -> int:
    return SUFFIXES.index(path.suffix.lower())
