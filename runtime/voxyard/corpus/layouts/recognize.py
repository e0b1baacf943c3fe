"""Layout of a folder, recognized by what it holds."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voxyard.corpus.demo import LANGUAGE, MARK
from voxyard.corpus.examples import CorpusError
from voxyard.corpus.layouts.lines import Lines, Split
from voxyard.corpus.layouts.ljspeech import is_ljspeech, read_ljspeech
from voxyard.corpus.layouts.speaker_folders import is_libritts, is_vctk, read_libritts, read_vctk
from voxyard.corpus.layouts.tables import (
    common_voice_language,
    is_common_voice,
    is_list,
    read_common_voice,
    read_list,
)

LayoutName = Literal["auto", "ljspeech", "libritts", "vctk", "commonvoice", "list"]


@dataclass(frozen=True)
class CorpusLayout:
    """A way to keep recordings and their texts."""

    name: LayoutName
    looks: str
    fits: Callable[[Path], bool]
    read: Callable[[Path, Split], Lines]


def _whole(read: Callable[[Path], Lines]) -> Callable[[Path, Split], Lines]:
    """The reader of a layout that has no validation clips of its own."""

    def read_split(path: Path, split: Split) -> Lines:
        if split == "eval":
            raise CorpusError(f"{path} has no validation clips of its own: give a corpus of them as --val-data")
        return read(path)

    return read_split


LAYOUTS = (
    CorpusLayout(
        "ljspeech", "metadata.csv (id|text|normalized text[|speaker]), wavs/ID.wav", is_ljspeech, read_ljspeech
    ),
    CorpusLayout("libritts", "SPEAKER/CHAPTER/ID.wav, ID.normalized.txt beside it", is_libritts, _whole(read_libritts)),
    CorpusLayout("vctk", "wav48*/SPEAKER/ID.wav or ID_mic1.flac, txt/SPEAKER/ID.txt", is_vctk, _whole(read_vctk)),
    CorpusLayout(
        "commonvoice", "validated.tsv (client_id, path, sentence), clips/", is_common_voice, _whole(read_common_voice)
    ),
    CorpusLayout(
        "list", "a file, or filelist.txt in a folder (path|text[|speaker] on each line)", is_list, _whole(read_list)
    ),
)
EXPECTED = "\n".join(
    [
        "expected one of (--corpus-layout):",
        *(f"  {layout.name:<12} {layout.looks}" for layout in LAYOUTS),
        "or shards that `voxyard corpus prepare` wrote",
    ]
)

_ARCHIVES = (".tar", ".tar.bz2", ".tar.gz", ".tgz", ".zip")
_LISTS = (".csv", ".list", ".psv", ".txt")
_LOOKED_AT = 100  # files and folders of a folder that is no corpus


def find_layout(path: Path, name: LayoutName = "auto") -> CorpusLayout:
    """The layout of that name, or for `auto` the first that fits.

    Raises CorpusError, with what was found and what each layout looks like, where none fits or not that one.
    """
    try:
        if not path.exists():
            raise CorpusError(f"{path} does not exist: {EXPECTED}")
        chosen = [layout for layout in LAYOUTS if name in ("auto", layout.name)]
        if not path.is_dir():  # only a list may be a file
            chosen = [layout for layout in chosen if layout.name == "list"]
        for layout in chosen:
            if layout.fits(path):
                return layout
        found = f"holds {_listing(path)}" if path.is_dir() else "is a file"
        advice = _within(path) if path.is_dir() and name == "auto" else ""
    except PermissionError as error:
        raise CorpusError(
            f"{path} cannot be read ({error.strerror}: {error.filename or path}): give this user ({_user()}) read "
            "access to the folder and all below it, or run as its owner"
        ) from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({error.strerror}): {EXPECTED}") from error
    kind = "is no corpus" if name == "auto" else f"is not in the layout {name}"
    raise CorpusError(f"{path} {kind}, it {found}: {advice}{EXPECTED}")


def _within(directory: Path) -> str:
    """What to give instead of a folder: a corpus or a list that lies in it, an archive unpacked."""
    for inner in sorted(directory.iterdir())[:_LOOKED_AT]:
        if inner.name.lower().endswith(_ARCHIVES):
            return f"unpack {inner.name}; "
        fits = [one for one in LAYOUTS if inner.is_dir() or (one.name == "list" and inner.suffix in _LISTS)]
        if found := next((one.name for one in fits if one.fits(inner)), None):
            return f"{inner.name} in it looks like one ({found}), give {inner}; "
    return ""


def stated_language(path: Path, name: LayoutName = "auto") -> str | None:
    """Language that a corpus of recordings says itself: Common Voice by its table, the demo's; else None.

    Raises CorpusError where there is no corpus.
    """
    layout = find_layout(path, name)
    if layout.name == "commonvoice":
        return common_voice_language(path)
    return LANGUAGE if layout.name == "ljspeech" and (path / MARK).is_file() else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, a number without a name
        return f"number {os.geteuid()}"


def _listing(directory: Path) -> str:
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in directory.iterdir())
    return ", ".join(names[:8] + (["…"] if len(names) > 8 else [])) or "nothing"
