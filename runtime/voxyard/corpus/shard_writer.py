"""Writes shards: decodes a source once, appends its clips to files, and describes them."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.audio import too_long, unlearnable
from voxyard.corpus.coverage import Coverage
from voxyard.corpus.examples import CorpusError, Example, ExampleSource, sentences_of
from voxyard.corpus.layouts.lines import BadClip
from voxyard.corpus.recordings import fingerprint, refuse_bad
from voxyard.corpus.settings import CorpusSettings
from voxyard.corpus.shards import ARRAYS, COLUMNS, FORMAT, INDEX, crc32, file_name
from voxyard.corpus.text import SYMBOLS_HASH

SHARD_BYTES = 256 * 2**20
WORKERS = 4  # threads that decode

Features = Callable[[Example], Mapping[str, NDArray[np.float32]]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Shards that were written."""

    path: Path
    clips: int
    seconds: float
    bytes: int
    bad: tuple[str, ...]
    coverage: Coverage | None  # of the texts; None where they were not counted
    layout: str = ""  # of the recordings, where it is known

    def __str__(self) -> str:
        more = f", {len(self.bad)} clips left out" if self.bad else ""
        more += f"; layout {self.layout}" if self.layout else ""
        return f"{self.path}: {self.clips} clips, {self.seconds / 60:.1f} minutes, {self.bytes / 2**20:.0f} MiB{more}"


def write_shards(
    source: ExampleSource,
    directory: Path,
    settings: CorpusSettings,
    *,
    origin: Path,
    already_bad: tuple[BadClip, ...] = (),
    coverage: Coverage | None = None,
    features: Features | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Writes a source into an empty directory. The settings that it was read with and `coverage`, that of its texts,
    go into index.json; `origin` is named in messages.

    Raises CorpusError where too many clips are broken, those that the source left out (`already_bad`) among them, and
    OSError where the disk is full.
    """
    bad, clips = list(already_bad), len(source) + len(already_bad)
    ids: list[str] = []
    sentences, written = sentences_of(source), list[str]()
    with _Writer(directory) as writer:
        for i, example in enumerate(_examples(source)):
            if isinstance(example, CorpusError):
                bad.append(BadClip(source.ids[i], str(example)))
                refuse_bad(bad, clips, settings.max_bad_share, origin)
            else:
                writer.add(_with_features(source.ids[i], example, features))
                ids.append(source.ids[i])
                written += sentences[i : i + 1]
            if progress is not None:
                progress(i + 1, len(source))
    if not ids:
        raise CorpusError("no clip is left to write")
    size = writer.describe({
        "text_units": settings.text_units, "language": settings.language, "reading": settings.reading,
        "feature_settings": settings.feature_settings, "format": FORMAT, "symbols": SYMBOLS_HASH,
        "sample_rate": source.sample_rate, "speakers": list(source.speakers), "ids": ids,
        "texts": coverage.to_json() if coverage else None, "sentences": written,
    })  # fmt: skip
    samples = sum(row[COLUMNS.index("samples")] for row in writer.rows)
    return Prepared(directory, len(ids), samples / source.sample_rate, size, tuple(str(one) for one in bad), coverage)


class _Writer:
    """Appends clips to shard files and records the offset of each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, BinaryIO] = {}
        self._shard, self._samples, self._frames = 0, 0, 0
        self._crc32: Counter[str] = Counter()
        self._widths: dict[str, int | None] = {}
        self._tokens: list[NDArray[np.int32]] = []
        self.rows: list[tuple[int, int, int, int, int, int]] = []  # COLUMNS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def add(self, example: Example) -> None:
        if self._samples * 2 >= SHARD_BYTES:
            self._close()
            self._shard, self._samples, self._frames = self._shard + 1, 0, 0
        frames = 0
        self._append("pcm", example.pcm.astype("<i2"))
        for name, values in (example.features or {}).items():
            frames = len(values)
            self._widths[name] = values.shape[1] if values.ndim > 1 else None
            self._append(name, values.astype("<f4"))
        self.rows.append((self._shard, self._samples, len(example.pcm), self._frames, frames, example.speaker))
        self._tokens.append(example.tokens)
        self._samples += len(example.pcm)
        self._frames += frames

    def describe(self, index: dict[str, Any]) -> int:
        """Writes index.npz and index.json; bytes of all files."""
        columns = np.array(self.rows, np.int64).reshape(-1, len(COLUMNS)).T
        arrays: dict[str, Any] = dict(zip(COLUMNS, columns, strict=True))
        arrays["tokens"] = np.concatenate(self._tokens).astype(np.int32)
        arrays["token_lengths"] = np.array([len(tokens) for tokens in self._tokens], np.int64)
        np.savez(self._directory / ARRAYS, **arrays)
        self._crc32[ARRAYS] = crc32(self._directory / ARRAYS)
        files = {name: (self._directory / name).stat().st_size for name in sorted(self._crc32)}
        spoken = [index["speakers"][number] for number in arrays["speaker"]]
        index |= {
            "shards": self._shard + 1, "features": self._widths, "files": files, "crc32": dict(self._crc32),
            "fingerprint": fingerprint(index["ids"], arrays["samples"], self._tokens, spoken, index["sample_rate"]),
        }  # fmt: skip
        (self._directory / INDEX).write_text(json.dumps(index) + "\n", encoding="utf-8")
        return sum(files.values())

    def _append(self, kind: str, values: NDArray[Any]) -> None:
        name = file_name(kind, self._shard)
        if name not in self._files:
            self._files[name] = (self._directory / name).open("wb")
        raw = values.tobytes()
        self._files[name].write(raw)
        self._crc32[name] = zlib.crc32(raw, self._crc32[name])

    def _close(self) -> None:
        with ExitStack() as closing:  # all of them, also where a full disk stops one
            for file in self._files.values():
                closing.callback(file.close)
            self._files = {}


def _examples(source: ExampleSource) -> Iterator[Example | CorpusError]:
    """All examples in order, decoded by some threads a little ahead; what is too long is not decoded."""

    def read(i: int) -> Example | CorpusError:
        if fault := too_long(float(source.samples[i]) / source.sample_rate):
            return CorpusError(fault)
        try:
            example = source.read(i)
        except CorpusError as error:
            return error
        fault = unlearnable(example.pcm, source.sample_rate)
        return CorpusError(fault) if fault else example

    with ThreadPoolExecutor(WORKERS) as pool:
        step = 8 * WORKERS
        for begin in range(0, len(source), step):
            yield from pool.map(read, range(begin, min(begin + step, len(source))))


def _with_features(clip: str, example: Example, features: Features | None) -> Example:
    """The example with its features computed; with those that it brings, where there is nothing to compute them."""
    made = example.features if features is None else dict(features(example))
    if made and len({len(values) for values in made.values()}) > 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in made.items())
        raise CorpusError(f"{clip}: its features differ in their number of frames: {lengths}")
    return Example(example.pcm, example.tokens, example.speaker, made or None)
