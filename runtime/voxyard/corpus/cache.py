"""A cache of decoded clips, in memory or in a file that later runs use again."""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.directories import lock_where_possible
from voxyard.corpus.examples import CorpusError, Example, ExampleSource, SameClips
from voxyard.host.page_cache import Extent

MAGIC = b"voxyard-clips-1\n"
KEY_BYTES = 64


class CachedSource(SameClips):
    """A source whose clips are decoded once. Layout of the cache: header, one byte a clip (1 = there), tokens, PCM."""

    def __init__(self, source: ExampleSource, file: Path | None) -> None:
        """Keeps the clips in `file`, or in memory without one. Raises CorpusError where that cannot be done.

        Runs on the same corpus may share a file. A recording that is replaced by one of the same length is not
        noticed: remove the file then.
        """
        super().__init__(source)
        self._pcm_at = np.concatenate([[0], np.cumsum(source.samples)])
        self._tokens_at = np.concatenate([[0], np.cumsum(source.token_lengths)])
        self._lock = threading.Lock()
        buffer = mmap.mmap(-1, self.size(source)) if file is None else self._open(file)
        self._file, self._buffer = file, buffer
        self._present, self._speakers, self._tokens, self._pcm = self._views(buffer)

    @staticmethod
    def size(source: ExampleSource) -> int:
        """Bytes that the whole corpus takes in the cache."""
        header = len(MAGIC) + KEY_BYTES
        return (
            header
            + _aligned(len(source))
            + 4 * len(source)
            + int(4 * source.token_lengths.sum() + 2 * source.samples.sum())
        )

    def read(self, i: int) -> Example:
        """The clip, decoded at most once (twice if two threads ask for it at the same moment)."""
        pcm = self._pcm[self._pcm_at[i] : self._pcm_at[i + 1]]
        tokens = self._tokens[self._tokens_at[i] : self._tokens_at[i + 1]]
        if not self._present[i]:
            example = super().read(i)
            with self._lock:
                pcm[:], tokens[:], self._speakers[i] = example.pcm, example.tokens, example.speaker
                self._present[i] = 1  # last: a clip that was cut short by a kill is decoded again
        return Example(pcm=pcm, tokens=tokens, speaker=int(self._speakers[i]))

    def extents(self, i: int) -> tuple[Extent, ...]:
        """Of a cached clip its sound in the file, or nothing where it is kept in memory; else the source's."""
        if not self._present[i]:
            return super().extents(i)
        if self._file is None:
            return ()
        at = len(self._buffer) - self._pcm.nbytes + 2 * int(self._pcm_at[i])
        return (Extent(self._file, at, 2 * int(self.samples[i]), self._buffer),)

    def _open(self, file: Path) -> mmap.mmap:
        size = self.size(self._source)
        try:
            file.touch()
            with file.open("r+b") as handle:
                self._use_or_rebuild(handle, file, size)
                return mmap.mmap(handle.fileno(), size)  # keeps a handle of its own, and with it the lock
        except OSError as error:
            raise CorpusError(
                f"--cache-file {file} ({size / 2**20:.1f} MiB) cannot be used: {error.strerror or error}"
            ) from error

    def _use_or_rebuild(self, handle: IO[bytes], file: Path, size: int) -> None:
        header = MAGIC + self._key()
        alone = lock_where_possible(handle.fileno())
        if not alone and not lock_where_possible(handle.fileno(), shared=True):
            raise CorpusError(f"--cache-file {file} is in use: another run is making it; try again, or give another")
        handle.seek(0)
        found = handle.read(len(header))
        if found and not found.startswith(MAGIC):
            raise CorpusError(f"--cache-file {file} exists and is no cache of voxyard's: give another path")
        if found != header or os.fstat(handle.fileno()).st_size != size:
            if not alone:
                raise CorpusError(f"--cache-file {file} is in use by a run with another corpus: give another path")
            _allocate(handle, header, size)
        lock_where_possible(handle.fileno(), shared=True)

    def _key(self) -> bytes:
        """Identity of the cached data: subsets of a corpus may be of one size and fingerprint."""
        digest = hashlib.sha256(self.fingerprint.encode())
        digest.update("\0".join(self.ids).encode())
        digest.update(np.stack([self.samples, self.token_lengths]).astype("<i8").tobytes())
        return digest.hexdigest().encode()

    def _views(self, buffer: mmap.mmap) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        clips, at = len(self._source), len(MAGIC) + KEY_BYTES
        present = np.frombuffer(buffer, np.uint8, clips, at)
        at += _aligned(clips)
        speakers = np.frombuffer(buffer, np.int32, clips, at)
        at += 4 * clips
        tokens = np.frombuffer(buffer, np.int32, int(self._tokens_at[-1]), at)
        at += tokens.nbytes
        return present, speakers, tokens, np.frombuffer(buffer, np.int16, int(self._pcm_at[-1]), at)


def _allocate(handle: IO[bytes], header: bytes, size: int) -> None:
    """An empty cache with all its room; no room is taken where there is too little."""
    handle.truncate(0)
    try:
        os.posix_fallocate(handle.fileno(), 0, size)  # a full disk shows now, not as a crash later
    except OSError:
        handle.truncate(0)
        raise
    os.pwrite(handle.fileno(), header, 0)


def _aligned(count: int) -> int:
    return -(-count // 4) * 4
