"""Durable audio files: one per chunk, one WAV per finished document, safe against a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from voxyard.service.documents.chunk_times import Span, with_spans
from voxyard.service.documents.records import StoredChunk
from voxyard.service.errors import NoRoomError, NotFoundError, StoreError
from voxyard.speech.audio.joining import Pauses, Piece, join
from voxyard.speech.audio.wav import WIDTH, data_start, file_size, from_bytes, header, to_bytes
from voxyard.speech.requests import SAMPLE_RATE, Result

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

SECOND = SAMPLE_RATE * WIDTH  # bytes of a second of audio
MIB = 1024 * 1024
_ID = re.compile(r"[0-9a-f]{32}")
_CHUNK_SUFFIX = ".s16"
_WAV_NAME = "audio.wav"
_PART_SUFFIX = ".part"
_STALE_SECONDS = 3600.0  # since the last write to a partial file: its service is gone
_REMOVE_ATTEMPTS = 10
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class AudioStore:
    """Audio files: `<folder>/<id>/<index>.s16` for the chunks of a document, `<folder>/<id>/audio.wav` for the whole.

    A file gets its name once all of it is on the disk. `quota` is the most bytes that the files may take,
    `reserve` the bytes that stay free on the disk. Every method may be called from any thread, and raises
    NotFoundError for an invalid document id, NoRoomError where the disk is full, StoreError for another I/O error.

    Several services may share the folder: then `shared_usage` gives the bytes that the audio of all takes.
    """

    def __init__(
        self, folder: Path, *, quota: int, reserve: int = 0, shared_usage: Callable[[], int] | None = None
    ) -> None:
        self._folder, self._quota, self._reserve, self._shared_usage = folder, quota, reserve, shared_usage
        self._usage_lock = threading.Lock()
        # Two services may write the same file: one has lost its claim, and does not know it yet.
        self._part_suffix = _PART_SUFFIX if shared_usage is None else f".{uuid.uuid4().hex}{_PART_SUFFIX}"
        self._used = 0
        with _store_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for part in folder.glob(f"*/*{_PART_SUFFIX}"):
                if shared_usage is None or _age(part) > _STALE_SECONDS:
                    part.unlink(missing_ok=True)
            if shared_usage is None:
                self._used = sum(_size(file) for file in folder.glob("*/*"))

    def put(self, id: str, index: int, audio: Audio) -> int:
        """Stores the audio of a chunk, (samples,) at 24 kHz; returns the number of samples."""
        content = to_bytes(audio)
        with self._atomic_write(self._chunk_path(id, index)) as file:
            file.write(content)
        return len(content) // WIDTH

    def get(self, id: str, index: int) -> Audio:
        """Audio of a chunk, (samples,) at 24 kHz, while its document is not complete.

        Raises:
            NotFoundError: there is none (any more).
        """
        path = self._chunk_path(id, index)
        with _store_errors(path):
            try:
                return from_bytes(path.read_bytes())
            except FileNotFoundError:
                raise NotFoundError(f"no audio of chunk {index} of document {id}") from None

    def has(self, id: str, index: int, samples: int) -> bool:
        """True where the audio of a chunk is stored completely."""
        return _size(self._chunk_path(id, index)) == samples * WIDTH and self._chunk_path(id, index).is_file()

    def assemble(self, id: str, chunks: Sequence[StoredChunk], pauses: Pauses) -> Path:
        """Joins the chunks, which all have audio, into `audio.wav`; `remove_chunks` deletes their files.

        Raises:
            NotFoundError: a chunk has no audio.
        """
        samples = _length(chunks, pauses)
        with self._atomic_write(self._wav_path(id)) as file:
            file.write(header(samples))
            for chunk, span in with_spans(chunks, pauses):
                file.write(to_bytes(self._piece(id, chunk, span, pauses).audio))
        return self._wav_path(id)

    def is_assembled(self, id: str, chunks: Sequence[StoredChunk], pauses: Pauses) -> bool:
        """True where `audio.wav` of these chunks is stored completely."""
        return _size(self._wav_path(id)) == file_size(_length(chunks, pauses)) and self._wav_path(id).is_file()

    def remove_chunks(self, id: str) -> None:
        """Deletes the chunks' files of an assembled document."""
        folder = self._document_folder(id)
        with _store_errors(folder):
            for path in (*folder.glob(f"*{_CHUNK_SUFFIX}"), *folder.glob(f"*{_PART_SUFFIX}")):
                self._unlink(path)

    def wav(self, id: str) -> Path:
        """Path of the joined audio.

        Raises:
            NotFoundError: it is not assembled (yet).
        """
        path = self._wav_path(id)
        if not path.is_file():
            raise NotFoundError(f"document {id} has no complete audio")
        return path

    def pieces(self, id: str, chunks: Iterable[StoredChunk], pauses: Pauses) -> Iterator[Piece]:
        """Joined audio piece by piece, identical to `audio.wav`, also while that is being assembled.

        `chunks` come in text order, with their samples; the iterator may block.

        Raises:
            NotFoundError: the document was deleted, or a chunk has no audio.
        """
        for chunk, span in with_spans(chunks, pauses):
            try:
                piece = self._piece(id, chunk, span, pauses)
            except NotFoundError:  # the chunks' files are deleted after assembly
                piece = self._piece_of_wav(id, chunk, span)
            yield piece

    def remove(self, id: str) -> None:
        """Deletes all files of a document."""
        folder = self._document_folder(id)
        with _store_errors(folder):
            for _ in range(_REMOVE_ATTEMPTS):  # a chunk may be stored meanwhile
                with contextlib.suppress(FileNotFoundError):
                    for path in tuple(folder.iterdir()):
                        self._unlink(path)
                    try:
                        folder.rmdir()
                    except OSError as error:
                        if error.errno != errno.ENOTEMPTY:
                            raise
                        continue
                return
        raise StoreError(f"the audio of document {id} cannot be deleted: new files keep appearing in its folder")

    def ids(self) -> tuple[str, ...]:
        """Ids of the documents with audio files."""
        with _store_errors(self._folder):
            return tuple(sorted(path.name for path in self._folder.iterdir() if _ID.fullmatch(path.name)))

    def used_bytes(self) -> int:
        """Bytes of stored audio."""
        if self._shared_usage is not None:
            return self._shared_usage()
        with self._usage_lock:
            return self._used

    def free_bytes(self) -> int:
        """Free bytes on the disk for this process."""
        with _store_errors(self._folder):
            found = os.statvfs(self._folder)
            return found.f_bavail * found.f_frsize

    def check_room(self, estimated_seconds: float, waiting_seconds: float = 0.0) -> None:
        """Checks that `estimated_seconds` more audio fit, beside `waiting_seconds` accepted and not yet synthesized.

        Raises:
            NoRoomError: it exceeds the quota, or less than the reserve would stay free.
        """
        need = round((estimated_seconds + waiting_seconds) * SECOND)
        used, free = self.used_bytes(), self.free_bytes()
        if used + need > self._quota:
            raise NoRoomError(
                f"audio quota exceeded: about {_mib(need)} needed with pending documents, "
                f"{_mib(max(0, self._quota - used))} left of {_mib(self._quota)}: delete documents or raise "
                "--disk-quota"
            )
        if free - need - round(estimated_seconds * SECOND) < self._reserve:  # assembling needs the space twice
            raise NoRoomError(
                f"not enough disk space: about {_mib(need)} needed with pending documents, {_mib(free)} free, of which "
                f"{_mib(self._reserve)} are reserved: delete documents, or free space on the disk"
            )

    def _piece(self, id: str, chunk: StoredChunk, span: Span, pauses: Pauses) -> Piece:
        import numpy as np

        audio = self.get(id, chunk.index)
        if len(audio) != chunk.samples:
            raise StoreError(
                f"chunk {chunk.index} of document {id} has {len(audio)} samples on the disk, expected {chunk.samples}: "
                "the file was changed"
            )
        (faded,) = join([(Result(chunk.index, audio), chunk.ending)], pauses)
        silence = np.zeros(span.start - span.begin, np.float32)
        return Piece(chunk.index, np.concatenate([silence, faded.audio]), span.start, span.end, SAMPLE_RATE)

    def _piece_of_wav(self, id: str, chunk: StoredChunk, span: Span) -> Piece:
        path = self.wav(id)
        size = (span.end - span.begin) * WIDTH
        with _store_errors(path), path.open("rb") as file:
            file.seek(data_start(file.read(4)) + span.begin * WIDTH)
            content = file.read(size)
        if len(content) != size:
            raise StoreError(f"the audio of document {id} ends before chunk {chunk.index}: the file was changed")
        return Piece(chunk.index, from_bytes(content), span.start, span.end, SAMPLE_RATE)

    def _document_folder(self, id: str) -> Path:
        if not _ID.fullmatch(id):
            raise NotFoundError(f"no document {id!r}: expected 32 hexadecimal digits")
        return self._folder / id

    def _chunk_path(self, id: str, index: int) -> Path:
        return self._document_folder(id) / f"{int(index)}{_CHUNK_SUFFIX}"

    def _wav_path(self, id: str) -> Path:
        return self._document_folder(id) / _WAV_NAME

    @contextmanager
    def _atomic_write(self, path: Path) -> Iterator[BinaryIO]:
        """Atomic write: the file gets its name once it is on the disk, and is removed where the block fails."""
        part = path.with_name(path.name + self._part_suffix)
        try:
            with _store_errors(path):
                if not path.parent.exists():
                    path.parent.mkdir(mode=0o700, exist_ok=True)
                    _sync(self._folder)
                with part.open("wb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                    written = file.tell()
                with self._usage_lock:
                    before = _size(path)
                    part.rename(path)
                    self._used += written - before
                _sync(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def _unlink(self, path: Path) -> None:
        with self._usage_lock:
            size = _size(path)
            path.unlink(missing_ok=True)
            if path.suffix != _PART_SUFFIX:
                self._used -= size


def _length(chunks: Sequence[StoredChunk], pauses: Pauses) -> int:
    """Samples of the joined audio."""
    return max((span.end for _, span in with_spans(chunks, pauses)), default=0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _age(path: Path) -> float:
    """Seconds since the last write."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _sync(folder: Path) -> None:
    """Flushes the folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    """Turns OSError into NoRoomError or StoreError."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise NoRoomError("the audio disk is full: delete documents, or free space on it") from error
        raise StoreError(f"the audio file {path.name} cannot be read or written: {error.strerror}") from error


def _mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
