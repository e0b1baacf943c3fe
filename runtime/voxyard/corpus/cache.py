"""A cache of decoded clips, in memory or in a file that later runs use again."""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.examples import CorpusError, Example, ExampleSource

MAGIC = b"voxyard-clips-1\n"
FINGERPRINT_BYTES = 64


class CachedSource:
    """A source whose clips are decoded once. Layout of the cache: header, one byte a clip (1 = there), tokens, PCM."""

    def __init__(self, source: ExampleSource, file: Path | None) -> None:
        """Keeps the clips in `file`, or in memory without one. Raises CorpusError where that cannot be done."""
        self._source = source
        self.sample_rate, self.speakers = source.sample_rate, source.speakers
        self.ids, self.samples, self.token_lengths = source.ids, source.samples, source.token_lengths
        self.feature_names, self.fingerprint = source.feature_names, source.fingerprint
        self._pcm_at = np.concatenate([[0], np.cumsum(source.samples)])
        self._tokens_at = np.concatenate([[0], np.cumsum(source.token_lengths)])
        self._lock = threading.Lock()
        buffer = mmap.mmap(-1, self.size(source)) if file is None else self._open(file)
        self._present, self._speakers, self._tokens, self._pcm = self._views(buffer)

    @staticmethod
    def size(source: ExampleSource) -> int:
        """Bytes that the whole corpus takes in the cache."""
        header = len(MAGIC) + FINGERPRINT_BYTES
        return (
            header
            + _aligned(len(source))
            + 4 * len(source)
            + int(4 * source.token_lengths.sum() + 2 * source.samples.sum())
        )

    def __len__(self) -> int:
        return len(self._source)

    def read(self, i: int) -> Example:
        """The clip, decoded at most once (twice if two threads ask for it at the same moment)."""
        pcm = self._pcm[self._pcm_at[i] : self._pcm_at[i + 1]]
        tokens = self._tokens[self._tokens_at[i] : self._tokens_at[i + 1]]
        if not self._present[i]:
            example = self._source.read(i)
            with self._lock:
                pcm[:], tokens[:], self._speakers[i] = example.pcm, example.tokens, example.speaker
                self._present[i] = 1  # last: a clip that was cut short by a kill is decoded again
        return Example(pcm=pcm, tokens=tokens, speaker=int(self._speakers[i]))

    def _open(self, file: Path) -> mmap.mmap:
        size, header = (
            self.size(self._source),
            MAGIC + self.fingerprint.encode()[:FINGERPRINT_BYTES].ljust(FINGERPRINT_BYTES),
        )
        try:
            file.touch()
            with file.open("r+b") as handle:
                found = handle.read(len(header))
                if found and not found.startswith(MAGIC):
                    raise CorpusError(f"--cache-file {file} exists and is no cache of voxyard's: give another path")
                if found != header or os.fstat(handle.fileno()).st_size != size:
                    handle.truncate(0)
                    os.posix_fallocate(handle.fileno(), 0, size)  # a full disk shows now, not as a crash later
                    handle.seek(0)
                    handle.write(header)
                    handle.flush()
                return mmap.mmap(handle.fileno(), size)
        except OSError as error:
            raise CorpusError(
                f"--cache-file {file} ({size / 2**20:.0f} MiB) cannot be used: {error.strerror}"
            ) from error

    def _views(self, buffer: mmap.mmap) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        clips, at = len(self._source), len(MAGIC) + FINGERPRINT_BYTES
        present = np.frombuffer(buffer, np.uint8, clips, at)
        at += _aligned(clips)
        speakers = np.frombuffer(buffer, np.int32, clips, at)
        at += 4 * clips
        tokens = np.frombuffer(buffer, np.int32, int(self._tokens_at[-1]), at)
        at += tokens.nbytes
        return present, speakers, tokens, np.frombuffer(buffer, np.int16, int(self._pcm_at[-1]), at)


def _aligned(count: int) -> int:
    return -(-count // 4) * 4
