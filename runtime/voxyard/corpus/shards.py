"""Shards: a corpus decoded once, in files that are read by memory map; the fast way to train from.

A directory with `index.json` (what it is), `index.npz` (lengths, tokens, speakers), `pcm-00000.bin` … (int16, little-
endian, clip after clip) and, where features were asked for, `mel-00000.bin`, `pitch-…`, `energy-…` (float32).
Offsets count samples and frames from the beginning of a clip's shard. `eval/` holds the evaluation split likewise.
"""

from __future__ import annotations

import json
import mmap
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.coverage import Coverage, from_json
from voxyard.corpus.examples import CorpusError, Example
from voxyard.corpus.settings import CorpusSettings
from voxyard.corpus.text import SYMBOLS, SYMBOLS_HASH
from voxyard.host.page_cache import Extent

FORMAT = 1
INDEX, ARRAYS = "index.json", "index.npz"
EVAL = "eval"  # where the shards of the evaluation split lie, below those of the training split
COLUMNS = ("shard", "at", "samples", "frames_at", "frames", "speaker")  # of index.npz, a number for each clip
AGAIN = "prepare the corpus again (`voxyard corpus prepare`)"

_FILE = re.compile(r"[a-z_]+-[0-9]{5}\.bin")
_INDEX_TYPES = {
    "sample_rate": int, "text_units": str, "symbols": str, "speakers": list, "ids": list, "fingerprint": str,
    "shards": int, "features": dict, "files": dict,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A file of shards: its numbers (n,), or (n, width), and the map behind them; an empty file has none."""

    path: Path
    numbers: NDArray[Any]
    memory: mmap.mmap | None

    def extent(self, begin: int, count: int) -> Extent:
        """Extent of the file that holds `count` rows from `begin`."""
        row = self.numbers[:1].nbytes
        return Extent(self.path, begin * row, count * row, self.memory)


def is_shards(directory: Path) -> bool:
    """True where a directory is meant to hold shards (of any version, whole or not)."""
    try:
        return (directory / INDEX).is_file() or (directory / ARRAYS).is_file()
    except OSError:  # a name that is too long, a directory that may not be read
        return False


def only_shards(directory: Path) -> bool:
    """True where a directory holds nothing but shards, damaged ones too, so that it may be replaced."""
    names = {path.name for path in directory.iterdir()}
    others = {name for name in names - {INDEX, ARRAYS, EVAL} if not _FILE.fullmatch(name)}
    return file_name("pcm", 0) in names and not others and (EVAL not in names or only_shards(directory / EVAL))


def file_name(kind: str, shard: int) -> str:
    """File name of one shard of a `kind` (pcm, mel, …)."""
    return f"{kind}-{shard:05d}.bin"


class Shards:
    """Shards as a source of examples. Reading takes views of mapped files: no copy, no lock."""

    def __init__(
        self, directory: Path, wanted: CorpusSettings | None, *, speakers: tuple[str, ...] | None = None
    ) -> None:
        """Raises CorpusError where files are missing, cut or foreign, or the shards were made with other settings.

        Without wanted ones shards are read as they were made; without `speakers`, those of the training corpus, they
        have their own.
        """
        index = read_index(directory)
        _check_settings(directory, index, wanted)
        self.coverage = _coverage(directory, index)
        self._columns, self._tokens, self.token_lengths = _read_arrays(directory, index)
        self.sample_rate: int = index["sample_rate"]
        self.ids: Sequence[str] = index["ids"]
        self.sentences: Sequence[str] = index.get("sentences") or []  # none in shards of an older version
        self.samples = self._columns["samples"]
        self.fingerprint: str = index["fingerprint"]
        self.feature_names: tuple[str, ...] = tuple(sorted(index["features"]))
        self.speakers, self._speaker = _speakers(directory, index, self._columns["speaker"], speakers)
        if wanted is not None:
            _check_lengths(directory, self, wanted.hop_length)
        self._tokens_at = np.concatenate([[0], np.cumsum(self.token_lengths)])
        self._pcm = _maps(directory, "pcm", "<i2", None, index)
        self._features = {
            name: _maps(directory, name, "<f4", width, index) for name, width in index["features"].items()
        }

    def __len__(self) -> int:
        return len(self.ids)

    def read(self, i: int) -> Example:
        """Views into the mapped files; nothing is copied."""
        shard, at, samples, begin, frames, _ = (int(self._columns[name][i]) for name in COLUMNS)
        features = {name: maps[shard].numbers[begin : begin + frames] for name, maps in self._features.items()}
        tokens = self._tokens[self._tokens_at[i] : self._tokens_at[i + 1]]
        return Example(self._pcm[shard].numbers[at : at + samples], tokens, int(self._speaker[i]), features or None)

    def extents(self, i: int) -> tuple[Extent, ...]:
        """Its part of the mapped files, those of its features too."""
        shard, at, samples, begin, frames, _ = (int(self._columns[name][i]) for name in COLUMNS)
        features = (maps[shard].extent(begin, frames) for maps in self._features.values())
        return (self._pcm[shard].extent(at, samples), *features)


def read_index(directory: Path) -> dict[str, Any]:
    """Contents of index.json. Raises CorpusError where it is foreign, or a file that it names is missing or cut."""
    path = directory / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise CorpusError(f"{path} cannot be read ({reason}): {AGAIN}") from error
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise CorpusError(f"{path} does not describe voxyard's shards of format {FORMAT}: {AGAIN}")
    if not _complete(index):
        raise CorpusError(f"{path} is not complete: {AGAIN}")
    kinds = ("pcm", *index["features"])
    for name in [ARRAYS, *(file_name(kind, shard) for kind in kinds for shard in range(index["shards"]))]:
        size = index["files"].get(name)
        if size is None or not (name == ARRAYS or _FILE.fullmatch(name)):
            raise CorpusError(f"{path} does not say how large {name!r} is: {AGAIN}")
        found = (directory / name).stat().st_size if (directory / name).is_file() else None
        if found != size:
            state = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise CorpusError(f"{directory / name} {state}: {AGAIN}")
    return index


def _complete(index: Mapping[str, Any]) -> bool:
    return (
        all(isinstance(index.get(name), kind) for name, kind in _INDEX_TYPES.items())
        and all(isinstance(name, str) for name in [*index["ids"], *index["speakers"]])
        and all(isinstance(size, int) for size in index["files"].values())
        and all(width is None or (isinstance(width, int) and width > 0) for width in index["features"].values())
    )


def altered_files(directory: Path, index: Mapping[str, Any]) -> list[str]:
    """Files that do not hold what was written; reads all of them."""
    return [name for name, checksum in index.get("crc32", {}).items() if crc32(directory / name) != checksum]


def crc32(path: Path) -> int:
    """CRC-32 of a file."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(2**20):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _check_settings(directory: Path, index: Mapping[str, Any], wanted: CorpusSettings | None) -> None:
    pairs: dict[str, Any] = {"symbols": SYMBOLS_HASH}
    if wanted is not None:
        pairs |= {"sample_rate": wanted.sample_rate, "text_units": wanted.text_units, "reading": wanted.reading}
        if wanted.text_units == "phonemes" or wanted.reading:
            pairs["language"] = wanted.language
    made_with = {"reading": 0} | dict(index)
    if index["features"] and wanted is not None and wanted.feature_settings is not None:
        made_with |= index.get("feature_settings") or {}
        pairs |= wanted.feature_settings
    wrong = [f"{name} {made_with.get(name, 'of an older version')} (wanted: {value})" for name, value in pairs.items()
             if made_with.get(name) != value]  # fmt: skip
    if wrong:
        raise CorpusError(
            f"the shards in {directory} were made with {', '.join(wrong)}: "
            "prepare the corpus again with these settings (`voxyard corpus prepare`)"
        )


def _coverage(directory: Path, index: Mapping[str, Any]) -> Coverage | None:
    """The coverage of the texts; None in shards of an older version, which did not count."""
    try:
        return None if index.get("texts") is None else from_json(index["texts"])
    except ValueError as error:
        raise CorpusError(f"{directory / INDEX} is not complete: {AGAIN}") from error


def _read_arrays(
    directory: Path, index: Mapping[str, Any]
) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.int32], NDArray[np.int64]]:
    path = directory / ARRAYS
    try:
        with np.load(path, allow_pickle=False) as file:
            columns = {name: file[name].astype(np.int64) for name in COLUMNS}
            tokens, lengths = file["tokens"].astype(np.int32), file["token_lengths"].astype(np.int64)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise CorpusError(f"{path} cannot be read ({error}): {AGAIN}") from error
    if not _fits(index, columns, tokens, lengths):
        raise CorpusError(f"{path} does not fit {INDEX} and the files beside it: {AGAIN}")
    return columns, tokens, lengths


def _fits(
    index: Mapping[str, Any],
    columns: Mapping[str, NDArray[np.int64]],
    tokens: NDArray[np.int32],
    lengths: NDArray[np.int64],
) -> bool:
    clips, shards = len(index["ids"]), index["shards"]
    arrays = [*columns.values(), lengths]
    if any(array.shape != (clips,) or (array < 0).any() for array in arrays) or (columns["shard"] >= shards).any():
        return False
    if not all(_inside(index, kind, 4 * (width or 1), columns, "frames_at", "frames")
               for kind, width in index["features"].items()):  # fmt: skip
        return False
    return bool(
        _inside(index, "pcm", 2, columns, "at", "samples")
        and tokens.shape == (lengths.sum(),)
        and ((tokens >= 0) & (tokens < len(SYMBOLS))).all()
        and (columns["speaker"] < len(index["speakers"])).all()
    )


def _inside(
    index: Mapping[str, Any], kind: str, width: int, columns: Mapping[str, NDArray[np.int64]], at: str, count: str
) -> bool:
    """True where every clip lies inside its file."""
    sizes = np.array([index["files"][file_name(kind, shard)] for shard in range(index["shards"])], np.int64)
    return bool(((columns[at] + columns[count]) * width <= sizes[columns["shard"]]).all())


def _check_lengths(directory: Path, shards: Shards, hop_length: int) -> None:
    """Shards are prepared for a hop length; a longer one leaves fewer frames."""
    short = np.flatnonzero(shards.samples // hop_length < shards.token_lengths)
    if len(short) > 0:
        names = ", ".join(str(shards.ids[i]) for i in short[:10]) + (" …" if len(short) > 10 else "")
        raise CorpusError(
            f"{len(short)} clips of {directory} have fewer frames than tokens with a hop length of {hop_length}: "
            f"{names}; prepare the corpus again with it (`voxyard corpus prepare --hop-length {hop_length}`)"
        )


def _speakers(
    directory: Path, index: Mapping[str, Any], numbers: NDArray[np.int64], wanted: tuple[str, ...] | None
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The table of speakers, and each clip's number in it."""
    own = tuple(index["speakers"])
    if wanted is None or wanted == own:
        return own, numbers
    if len(wanted) < 2:
        return wanted, np.zeros_like(numbers)
    strange = sorted({own[number] for number in numbers} - set(wanted))
    if strange:
        raise CorpusError(
            f"{directory} holds speakers that are not among those of the training corpus: {', '.join(strange[:10])}"
        )
    table = np.array([wanted.index(name) if name in wanted else -1 for name in own], np.int64)
    return wanted, table[numbers]


def _maps(directory: Path, kind: str, number: str, width: int | None, index: Mapping[str, Any]) -> list[_Mapped]:
    """The files of a kind: (n,), or (n, width) where there is a width."""
    maps: list[_Mapped] = []
    for shard in range(index["shards"]):
        path = directory / file_name(kind, shard)
        try:
            memory = _mapped(path) if index["files"][path.name] else None
            flat = np.zeros(0, number) if memory is None else np.frombuffer(memory, number)
            maps.append(_Mapped(path, flat if width is None else flat.reshape(-1, width), memory))
        except (OSError, ValueError) as error:
            raise CorpusError(f"{path} cannot be read ({error}): {AGAIN}") from error
    return maps


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
