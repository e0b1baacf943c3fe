"""Layout of a folder, recognized by what it holds."""

from __future__ import annotations

import getpass
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from voxyard.corpus.demo import LANGUAGE, MARK
from voxyard.corpus.examples import CorpusError
from voxyard.corpus.layouts.lines import SUFFIXES, Lines, Split
from voxyard.corpus.layouts.ljspeech import is_ljspeech, read_ljspeech
from voxyard.corpus.layouts.speaker_folders import (
    is_libritts,
    is_pairs,
    is_vctk,
    read_libritts,
    read_pairs,
    read_vctk,
)
from voxyard.corpus.layouts.tables import (
    common_voice_language,
    is_common_voice,
    is_list,
    read_common_voice,
    read_list,
)

LayoutName = Literal["auto", "ljspeech", "libritts", "vctk", "commonvoice", "list", "pairs"]


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
    CorpusLayout("pairs", "[SPEAKER/]ID.wav, ID.txt or ID.lab beside it", is_pairs, _whole(read_pairs)),
)
EXPECTED = "\n".join(
    [
        "expected one of (--corpus-layout):",
        *(f"  {layout.name:<12} {layout.looks}" for layout in LAYOUTS),
        "or shards that `voxyard corpus prepare` wrote",
    ]
)

_ARCHIVES = (".tar", ".tar.bz2", ".tar.gz", ".tgz", ".zip")
_TABLES = (".csv", ".list", ".psv", ".tsv")
_LISTS = (*_TABLES, ".json", ".jsonl", ".txt")
_LOOKED_AT = 1000  # files and folders below a folder that is no corpus
_OF_A_FOLDER = 100
_FOREIGN = {  # files of others' corpora that are not read, and what they show
    "wav.scp": "a data folder of Kaldi",
    "*.parquet": "a data set of Hugging Face in Parquet",
    "*.arrow": "a data set of Hugging Face in Arrow",
    "*transcript*_utf8.txt": "a corpus such as JSUT (ID:text)",
    "*transcript*.txt": "a corpus such as AISHELL (ID text)",
    "*.trans.txt": "LibriSpeech (ID TEXT in each chapter)",
    "txt.done.data": "a corpus of Festvox, as CMU Arctic",
    "*.trn": "a corpus such as THCHS-30",
    "*.srt": "long recordings with subtitles, which are to be cut first",
    "*.vtt": "long recordings with subtitles, which are to be cut first",
    "*.lrc": "long recordings with lyrics, which are to be cut first",
    "*.TextGrid": "recordings with TextGrids",
    "*.json": "texts in JSON of another form than one object a line with audio_filepath and text",
}


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
        advice = _advice(path) if name == "auto" else ""
    except PermissionError as error:
        raise CorpusError(
            f"{path} cannot be read ({error.strerror}: {error.filename or path}): give this user ({_user()}) read "
            "access to the folder and all below it, or run as its owner"
        ) from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({error.strerror}): {EXPECTED}") from error
    kind = "is no corpus" if name == "auto" else f"is not in the layout {name}"
    raise CorpusError(f"{path} {kind}, it {found}: {advice}{EXPECTED}")


def _advice(path: Path) -> str:
    """What to do instead: give what lies in a folder, unpack an archive, write a list of what others have."""
    if not path.is_dir():
        return _of_file(path)
    inner = list(islice(_below(path), _LOOKED_AT))
    if packed := next((one.name for one in inner if one.name.lower().endswith(_ARCHIVES)), None):
        return f"unpack {packed}; "
    found = [(one, name) for one in inner if (name := _fitting(one))]
    if found:
        best, name = min(found, key=lambda one: "train" not in one[0].name)
        others = sum(len(one.parts) == len(best.parts) for one, _ in found) - 1
        more = f", and {others} more" if others else ""
        return f"{best.relative_to(path)} in it looks like one ({name}{more}), give {best}; "
    for pattern, what in _FOREIGN.items():
        if any(one.match(pattern) for one in inner):
            return (
                f"it looks like {what}: write its clips as a list (path|text|speaker), as the trainer's README shows; "
            )
    if table := next((one for one in inner if one.suffix in _TABLES and one.is_file()), None):
        return f"{table.relative_to(path)} in it is no list, {_of_file(table)}"
    return f"the folder above looks like one (ljspeech), give {path.parent}; " if is_ljspeech(path.parent) else ""


def _below(directory: Path) -> Iterator[Path]:
    """What lies in a folder and below it, what is nearer first; of each folder a part, its recordings last."""
    folders = deque([directory])
    while folders:
        for path in sorted(folders.popleft().iterdir(), key=lambda one: (_is_sound(one), one.name))[:_OF_A_FOLDER]:
            if path.name.startswith((".", "@", "__MACOSX")):
                continue
            yield path
            if path.is_dir() and not path.is_symlink():
                folders.append(path)


def _is_sound(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def _fitting(path: Path) -> LayoutName | None:
    """The layout of a folder that is a corpus, or of a file that is a list."""
    if not path.is_dir() and (path.suffix not in _LISTS or any(path.with_suffix(one).is_file() for one in SUFFIXES)):
        return None
    fits = [one for one in LAYOUTS if path.is_dir() or one.name == "list"]
    return next((one.name for one in fits if one.fits(path)), None)


def _of_file(path: Path) -> str:
    if path.name.lower().endswith(_ARCHIVES):
        return "unpack it, and give the folder; "
    if _is_sound(path):
        return "it is one recording, give the folder or the list; "
    with path.open("rb") as file:
        first = file.readline(80).decode("utf-8", "replace").strip()
    return f"its first line is {first!r}, and names no column of recordings or none of texts; "


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
