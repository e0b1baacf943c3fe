"""Durable audio files: one per chunk, one WAV per finished document, safe against a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from voxyard.service.documents.chunk_times import Span, located
from voxyard.service.documents.records import Chunk
from voxyard.service.errors import NoRoomError, NotFoundError, StoreError
from voxyard.speech.audio.joining import Pauses, Piece, join
from voxyard.speech.audio.wav import WIDTH, data_start, file_size, from_bytes, header, to_bytes
from voxyard.speech.requests import SAMPLE_RATE, Result

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

SECOND = SAMPLE_RATE * WIDTH  # bytes of a second of sound
MIB = 1024 * 1024
_ID = re.compile(r"[0-9a-f]{32}")
_CHUNK = ".s16"
_WHOLE = "audio.wav"
_PART = ".part"
_TRIES = 10
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Shelf:
    """Audio files: `<folder>/<id>/<index>.s16` for the chunks of a document, `<folder>/<id>/audio.wav` for the whole.

    A file has its name only when all of it is on the disk. `quota` and `reserve` are bytes: how much the shelf may
    hold, and how much of the disk it leaves alone. Every method may be called from any thread; each raises
    NotFoundError for what is no document's id, NoRoomError where the disk is full, StoreError where it does not work.
    """

    def __init__(self, folder: Path, *, quota: int, reserve: int = 0) -> None:
        self._folder, self._quota, self._reserve = folder, quota, reserve
        self._counting = threading.Lock()
        with _told(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for part in folder.glob(f"*/*{_PART}"):
                part.unlink()
            self._used = sum(_size(file) for file in folder.glob("*/*"))

    def put(self, id: str, index: int, audio: Audio) -> int:
        """Keep the sound of a chunk, (n,) at 24 kHz; the number of samples."""
        content = to_bytes(audio)
        with self._file(self._chunk(id, index)) as file:
            file.write(content)
        return len(content) // WIDTH

    def get(self, id: str, index: int) -> Audio:
        """The sound of a chunk, (n,) at 24 kHz, while its document is not whole.

        Raises:
            NotFoundError: it is not there (any more).
        """
        path = self._chunk(id, index)
        with _told(path):
            try:
                return from_bytes(path.read_bytes())
            except FileNotFoundError:
                raise NotFoundError(f"the sound of chunk {index} of document {id} is not there") from None

    def has(self, id: str, index: int, samples: int) -> bool:
        """True where the audio of a chunk is there, all of it."""
        return _size(self._chunk(id, index)) == samples * WIDTH and self._chunk(id, index).is_file()

    def assemble(self, id: str, chunks: Sequence[Chunk], pauses: Pauses) -> Path:
        """Join the chunks, which all have their sound, to `audio.wav`; `tidy` takes their files away.

        Raises:
            NotFoundError: a chunk's sound is not there.
        """
        samples = _length(chunks, pauses)
        with self._file(self._whole(id)) as file:
            file.write(header(samples))
            for chunk, span in located(chunks, pauses):
                file.write(to_bytes(self._piece(id, chunk, span, pauses).audio))
        return self._whole(id)

    def is_whole(self, id: str, chunks: Sequence[Chunk], pauses: Pauses) -> bool:
        """True where `audio.wav` of these chunks is there."""
        return _size(self._whole(id)) == file_size(_length(chunks, pauses)) and self._whole(id).is_file()

    def tidy(self, id: str) -> None:
        """Take the files of the chunks away: the whole is there."""
        folder = self._of(id)
        with _told(folder):
            for path in (*folder.glob(f"*{_CHUNK}"), *folder.glob(f"*{_PART}")):
                self._unlink(path)

    def wav(self, id: str) -> Path:
        """The file of the whole sound.

        Raises:
            NotFoundError: it is not there (yet).
        """
        path = self._whole(id)
        if not path.is_file():
            raise NotFoundError(f"the sound of document {id} is not there as a whole")
        return path

    def pieces(self, id: str, chunks: Iterable[Chunk], pauses: Pauses) -> Iterator[Piece]:
        """The joined sound piece by piece, the same as in `audio.wav`, also while that is being made.

        `chunks` come in text order, with their samples; it may wait for them.

        Raises:
            NotFoundError: the document has been deleted, or a chunk has no sound.
        """
        for chunk, span in located(chunks, pauses):
            try:
                piece = self._piece(id, chunk, span, pauses)
            except NotFoundError:  # the files of the chunks go when the whole is there
                piece = self._piece_of_whole(id, chunk, span)
            yield piece

    def remove(self, id: str) -> None:
        """Take away all that there is of a document."""
        folder = self._of(id)
        with _told(folder):
            for _ in range(_TRIES):  # a file may come while it goes, once or twice
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
        raise StoreError(f"the sound of document {id} cannot be deleted: new files keep coming into its folder")

    def ids(self) -> tuple[str, ...]:
        """The documents of which there is any sound."""
        with _told(self._folder):
            return tuple(sorted(path.name for path in self._folder.iterdir() if _ID.fullmatch(path.name)))

    def used_bytes(self) -> int:
        """Bytes of stored audio."""
        with self._counting:
            return self._used

    def free_bytes(self) -> int:
        """Bytes that the disk has left for this process."""
        with _told(self._folder):
            found = os.statvfs(self._folder)
            return found.f_bavail * found.f_frsize

    def check_room(self, estimated_seconds: float, waiting_seconds: float = 0.0) -> None:
        """Checks that so much more audio fits, beside what was accepted and is not yet spoken.

        Raises:
            NoRoomError: it does not fit into the quota, or the disk would be left with less than the reserve.
        """
        need = round((estimated_seconds + waiting_seconds) * SECOND)
        used, free = self.used_bytes(), self.free_bytes()
        if used + need > self._quota:
            raise NoRoomError(
                f"the audio needs about {_mib(need)} with what waits, {_mib(max(0, self._quota - used))} of the quota "
                f"of {_mib(self._quota)} are left: delete documents, or raise --disk-quota"
            )
        if free - need - round(estimated_seconds * SECOND) < self._reserve:  # while it is joined it is there twice
            raise NoRoomError(
                f"the audio needs about {_mib(need)} with what waits, the disk has {_mib(free)} left, of which "
                f"{_mib(self._reserve)} are kept free: delete documents, or free space on the disk"
            )

    def _piece(self, id: str, chunk: Chunk, span: Span, pauses: Pauses) -> Piece:
        import numpy as np

        audio = self.get(id, chunk.index)
        if len(audio) != chunk.samples:
            raise StoreError(
                f"chunk {chunk.index} of document {id} has {len(audio)} samples on the disk, expected {chunk.samples}: "
                "its file has changed"
            )
        (faded,) = join([(Result(chunk.index, audio), chunk.ending)], pauses)
        silence = np.zeros(span.start - span.begin, np.float32)
        return Piece(chunk.index, np.concatenate([silence, faded.audio]), span.start, span.end, SAMPLE_RATE)

    def _piece_of_whole(self, id: str, chunk: Chunk, span: Span) -> Piece:
        path = self.wav(id)
        size = (span.end - span.begin) * WIDTH
        with _told(path), path.open("rb") as file:
            file.seek(data_start(file.read(4)) + span.begin * WIDTH)
            content = file.read(size)
        if len(content) != size:
            raise StoreError(f"the sound of document {id} ends before chunk {chunk.index}: its file has changed")
        return Piece(chunk.index, from_bytes(content), span.start, span.end, SAMPLE_RATE)

    def _of(self, id: str) -> Path:
        if not _ID.fullmatch(id):
            raise NotFoundError(f"there is no document {id!r}: expected 32 hexadecimal digits")
        return self._folder / id

    def _chunk(self, id: str, index: int) -> Path:
        return self._of(id) / f"{int(index)}{_CHUNK}"

    def _whole(self, id: str) -> Path:
        return self._of(id) / _WHOLE

    @contextmanager
    def _file(self, path: Path) -> Iterator[BinaryIO]:
        """Atomic write: the file gets its name once it is on the disk, and is removed where the block fails."""
        part = path.with_name(path.name + _PART)
        try:
            with _told(path):
                if not path.parent.exists():
                    path.parent.mkdir(mode=0o700, exist_ok=True)
                    _sync(self._folder)
                with part.open("wb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                    written = file.tell()
                with self._counting:
                    before = _size(path)
                    part.rename(path)
                    self._used += written - before
                _sync(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def _unlink(self, path: Path) -> None:
        with self._counting:
            size = _size(path)
            path.unlink(missing_ok=True)
            if path.suffix != _PART:
                self._used -= size


def _length(chunks: Sequence[Chunk], pauses: Pauses) -> int:
    """Samples of the joined sound."""
    return max((span.end for _, span in located(chunks, pauses)), default=0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sync(folder: Path) -> None:
    """Put the folder's names on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """The system's errors as ours."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise NoRoomError("the disk for the audio is full: delete documents, or free space on it") from error
        raise StoreError(f"the audio file {path.name} cannot be read or written: {error.strerror}") from error


def _mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
