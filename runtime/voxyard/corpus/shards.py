"""Shards: a corpus decoded once, in files that are read by memory map; the fast way to train from.

A directory with `index.json` (what it is), `index.npz` (lengths, tokens, speakers), `pcm-00000.bin` … (int16, little-
endian, clip after clip) and, where features were asked for, `mel-00000.bin`, `pitch-…`, `energy-…` (float32).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.examples import CorpusError, Example, ExampleSource
from voxyard.corpus.text import SYMBOLS_HASH, Units

FORMAT = 1
SHARD_BYTES = 256 * 2**20
INDEX, ARRAYS = "index.json", "index.npz"

Features = Callable[[Example], Mapping[str, NDArray[np.float32]]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was written."""

    path: Path
    clips: int
    seconds: float
    bytes: int
    bad: tuple[str, ...]

    def __str__(self) -> str:
        bad = f", {len(self.bad)} clips left out" if self.bad else ""
        return f"{self.path}: {self.clips} clips, {self.seconds / 60:.1f} minutes, {self.bytes / 2**20:.0f} MiB{bad}"


def write_shards(
    source: ExampleSource,
    directory: Path,
    description: Mapping[str, Any],
    *,
    max_bad_share: float,
    features: Features | None = None,
    workers: int = 4,
    progress: Progress | None = None,
) -> Prepared:
    """Writes a source as shards, under another name first and renamed last. `description` goes into index.json.

    Raises CorpusError where the disk is full, the directory holds something else, or too many clips are broken.
    """
    if directory.exists() and not is_shards(directory):
        raise CorpusError(f"{directory} exists and holds no shards: give another directory, or remove it")
    unfinished = directory.with_name(f".{directory.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
        made = _write_all(source, unfinished, description, max_bad_share, features, workers, progress)
        shutil.rmtree(directory, ignore_errors=True)
        unfinished.rename(directory)
    except OSError as error:
        raise CorpusError(
            f"shards in {directory} were not written: {error.strerror or error}; nothing is left"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return Prepared(directory, *made)


def is_shards(directory: Path) -> bool:
    """Whether a directory holds shards (of any version)."""
    return (directory / INDEX).is_file() and (directory / ARRAYS).is_file()


class Shards:
    """Shards as a source of examples."""

    def __init__(self, directory: Path, *, sample_rate: int, units: Units, language: str) -> None:
        """Raises CorpusError where files are missing or cut, or the shards were made with other settings."""
        self._directory = directory
        index = _read_index(directory)
        _check_settings(directory, index, sample_rate, units, language)
        arrays = _read_arrays(directory, index)
        self.sample_rate = sample_rate
        self.speakers = tuple(index["speakers"])
        self.ids: Sequence[str] = index["ids"]
        self.fingerprint: str = index["fingerprint"]
        self.feature_names: tuple[str, ...] = tuple(sorted(index["features"]))
        self.samples, self.token_lengths = arrays["samples"], arrays["token_lengths"]
        self._tokens, self._speaker = arrays["tokens"], arrays["speaker"]
        self._tokens_at = np.concatenate([[0], np.cumsum(self.token_lengths)])
        self._shard, self._at = arrays["shard"], arrays["at"]
        self._frames, self._frames_at = arrays["frames"], arrays["frames_at"]
        self._pcm = _maps(directory, "pcm", "<i2", 1, index)
        self._features = {
            name: _maps(directory, name, "<f4", width, index) for name, width in index["features"].items()
        }

    def __len__(self) -> int:
        return len(self.ids)

    def read(self, i: int) -> Example:
        """Views into the mapped files; nothing is copied."""
        shard, at = int(self._shard[i]), int(self._at[i])
        pcm = self._pcm[shard][at : at + int(self.samples[i]), 0]
        begin, frames = int(self._frames_at[i]), int(self._frames[i])
        features = {
            name: maps[shard][begin : begin + frames]
            if maps[shard].shape[1] > 1
            else maps[shard][begin : begin + frames, 0]
            for name, maps in self._features.items()
        }
        tokens = self._tokens[self._tokens_at[i] : self._tokens_at[i + 1]]
        return Example(pcm, tokens, int(self._speaker[i]), features or None)


# -- writing -------------------------------------------------------------------------------------------------------


class _Writer:
    """Appends clips to shard files and remembers where each lies."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, BinaryIO] = {}
        self.shard, self._samples, self._frames_here = 0, 0, 0
        self.rows: list[tuple[int, int, int, int, int, int]] = []  # shard, at, samples, frames_at, frames, speaker
        self.tokens: list[NDArray[np.int32]] = []
        self.widths: dict[str, int] = {}

    def add(self, example: Example) -> None:
        if self._samples * 2 >= SHARD_BYTES:
            self.close()
            self.shard, self._samples, self._frames_here = self.shard + 1, 0, 0
        frames = 0
        self._append("pcm", example.pcm.astype("<i2"))
        for name, values in (example.features or {}).items():
            frames = len(values)
            self.widths[name] = int(np.prod(values.shape[1:], dtype=int))
            self._append(name, values.astype("<f4"))
        self.rows.append((self.shard, self._samples, len(example.pcm), self._frames_here, frames, example.speaker))
        self.tokens.append(example.tokens)
        self._samples += len(example.pcm)
        self._frames_here += frames

    def close(self) -> None:
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        self._files = {}

    def _append(self, name: str, values: NDArray[Any]) -> None:
        if name not in self._files:
            self._files[name] = (self._directory / f"{name}-{self.shard:05d}.bin").open("wb")
        self._files[name].write(values.tobytes())


def _write_all(
    source: ExampleSource,
    directory: Path,
    description: Mapping[str, Any],
    max_bad_share: float,
    features: Features | None,
    workers: int,
    progress: Progress | None,
) -> tuple[int, float, int, tuple[str, ...]]:
    bad: list[str] = []
    ids: list[str] = []
    with _writer(directory) as writer:
        for i, example in enumerate(_examples(source, workers)):
            if isinstance(example, CorpusError):
                bad.append(f"{source.ids[i]}: {example}")
                if len(bad) > max_bad_share * len(source):
                    raise CorpusError(
                        "\n  ".join(
                            [f"{len(bad)} clips cannot be decoded, more than --max-bad-share allows:", *bad[:20]]
                        )
                    )
            else:
                made = None if features is None else dict(features(example))
                writer.add(Example(example.pcm, example.tokens, example.speaker, made))
                ids.append(source.ids[i])
            if progress is not None:
                progress(i + 1, len(source))
    rows = np.array(writer.rows, np.int64).reshape(-1, 6)
    columns: dict[str, Any] = dict(
        zip(("shard", "at", "samples", "frames_at", "frames", "speaker"), rows.T, strict=True)
    )
    columns["tokens"] = np.concatenate([*writer.tokens, np.zeros(0, np.int32)]).astype(np.int32)
    columns["token_lengths"] = np.array([len(tokens) for tokens in writer.tokens], np.int64)
    np.savez(directory / ARRAYS, **columns)
    files = {path.name: path.stat().st_size for path in sorted(directory.glob("*.bin"))} | {
        ARRAYS: (directory / ARRAYS).stat().st_size
    }
    index = {
        **description, "format": FORMAT, "symbols": SYMBOLS_HASH, "sample_rate": source.sample_rate,
        "speakers": list(source.speakers), "fingerprint": source.fingerprint, "ids": ids, "shards": writer.shard + 1,
        "features": writer.widths, "files": files,
    }  # fmt: skip
    (directory / INDEX).write_text(json.dumps(index) + "\n")
    for path in directory.iterdir():
        _sync(path)
    return len(ids), float(rows[:, 2].sum()) / source.sample_rate, sum(files.values()), tuple(bad)


@contextmanager
def _writer(directory: Path) -> Iterator[_Writer]:
    writer = _Writer(directory)
    try:
        yield writer
    finally:
        writer.close()


def _examples(source: ExampleSource, workers: int) -> Iterator[Example | CorpusError]:
    """All examples in order, decoded by some threads a little ahead."""

    def read(i: int) -> Example | CorpusError:
        try:
            return source.read(i)
        except CorpusError as error:
            return error

    with ThreadPoolExecutor(workers) as pool:
        step = 8 * workers
        for begin in range(0, len(source), step):
            yield from pool.map(read, range(begin, min(begin + step, len(source))))


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


# -- reading -------------------------------------------------------------------------------------------------------


def _read_index(directory: Path) -> dict[str, Any]:
    try:
        index = json.loads((directory / INDEX).read_text())
    except (OSError, ValueError) as error:
        raise CorpusError(f"{directory / INDEX} cannot be read ({error}): prepare the corpus again") from error
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise CorpusError(f"{directory} holds no shards of format {FORMAT}: prepare the corpus again")
    for name, size in index["files"].items():
        found = (directory / name).stat().st_size if (directory / name).exists() else None
        if found != size:
            state = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise CorpusError(f"{directory / name} {state}: prepare the corpus again")
    return index


def _check_settings(directory: Path, index: Mapping[str, Any], rate: int, units: Units, language: str) -> None:
    wanted = {"sample_rate": rate, "text_units": units, "symbols": SYMBOLS_HASH}
    if units == "phonemes":
        wanted["language"] = language
    wrong = [
        f"{name} {index.get(name)} (wanted: {value})" for name, value in wanted.items() if index.get(name) != value
    ]
    if wrong:
        raise CorpusError(
            f"the shards in {directory} were made with {', '.join(wrong)}: prepare the corpus again with these settings"
        )


def _read_arrays(directory: Path, index: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    try:
        with np.load(directory / ARRAYS, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError) as error:
        raise CorpusError(f"{directory / ARRAYS} cannot be read ({error}): prepare the corpus again") from error
    if len(arrays["samples"]) != len(index["ids"]):
        raise CorpusError(f"{directory / ARRAYS} does not fit {INDEX}: prepare the corpus again")
    return arrays


def _maps(directory: Path, name: str, kind: str, width: int, index: Mapping[str, Any]) -> list[NDArray[Any]]:
    maps = []
    for shard in range(index["shards"]):
        file = f"{name}-{shard:05d}.bin"
        empty = index["files"].get(file, 0) == 0
        flat = np.zeros(0, kind) if empty else np.memmap(directory / file, kind, "r")
        maps.append(flat.reshape(-1, width))
    return maps
