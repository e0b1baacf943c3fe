"""Audio files of documents: what a place for them does, and a directory as one, safe against a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from voxyard.host import durable_files
from voxyard.service.documents.records import is_id
from voxyard.service.errors import NoRoomError, StoreError

BLOCK = 128 * 1024
"""Bytes of a block of `stream`."""
MARKER = ".voxyard"
"""Name of the marker."""
_PART_SUFFIX = ".part"
_STALE_SECONDS = 3600.0  # since the last write to a partial file: its service is gone
_REMOVE_ATTEMPTS = 10
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class AudioFiles(Protocol):
    """Files by a document's id and a name, each there as a whole or not at all.

    Every method may be called from any thread, and raises NoRoomError where there is no room, StoreError where the
    place cannot be read or written.
    """

    def __str__(self) -> str:
        """The place, as settings name it."""

    def create(self) -> None:
        """Makes the place where there is none. Raises StoreError where it cannot be used."""

    def sweep(self) -> None:
        """Deletes what a service that was killed has left half written."""

    def write(self, id: str, name: str) -> AbstractContextManager[BinaryIO]:
        """A file to write, which replaces that of this name once the block has ended without an error."""

    def read(self, id: str, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Bytes from `start`, up to `size` of them. Raises FileNotFoundError."""

    def stream(self, id: str, name: str, start: int, end: int) -> Iterator[bytes]:
        """Bytes from `start` up to `end`, in blocks. Raises FileNotFoundError."""

    def size(self, id: str, name: str) -> int | None:
        """Bytes of a file; None where there is none."""

    def path(self, id: str, name: str) -> Path | None:
        """Path of a file on this machine; None where it has none."""

    def remove(self, id: str, suffix: str = "") -> None:
        """Deletes the files of a document, or those whose names end so."""

    def names(self, id: str) -> tuple[str, ...]:
        """Names of the files of a document."""

    def ids(self) -> tuple[str, ...]:
        """Ids of the documents with files."""

    def used_bytes(self) -> int | None:
        """Bytes of all files; None where that is not known here."""

    def free_bytes(self) -> float:
        """Free bytes for this process; infinite where there is no limit."""

    def marker(self) -> str | None:
        """Content of the marker that tells whose files these are; None where there is none."""

    def mark(self, token: str) -> str:
        """Writes the marker, unless there is one; what it holds then."""


class AudioFolder:
    """A directory: `<folder>/<id>/<name>`. A file gets its name once all of it is on the disk.

    `shared`: other services use it too. Then partial files have names of their own, and used bytes are not known.
    """

    def __init__(self, folder: Path, *, shared: bool = False) -> None:
        self._folder, self._shared = folder, shared
        self._usage_lock = threading.Lock()
        # Two services may write the same file: one has lost its claim, and does not know it yet.
        self._part_suffix = f".{uuid.uuid4().hex}{_PART_SUFFIX}" if shared else _PART_SUFFIX
        self._used = 0

    def __str__(self) -> str:
        return str(self._folder)

    def create(self) -> None:
        """As AudioFiles."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot use the audio directory {self._folder}: {error.strerror}; choose another --shelf"
            ) from error

    def sweep(self) -> None:
        """As AudioFiles; counts the bytes of the others."""
        with _file_errors(self._folder):
            for part in self._folder.glob(f"*/*{_PART_SUFFIX}"):
                if not self._shared or _age(part) > _STALE_SECONDS:
                    part.unlink(missing_ok=True)
            with self._usage_lock:
                self._used = 0 if self._shared else sum(_size(file) or 0 for file in self._folder.glob("*/*"))

    @contextmanager
    def write(self, id: str, name: str) -> Iterator[BinaryIO]:
        """A partial file, on the disk and with its name at the end of the block, removed where that fails."""
        path = self.path(id, name)
        part = path.with_name(path.name + self._part_suffix)
        with _file_errors(path):
            if not path.parent.exists():
                path.parent.mkdir(mode=0o700, exist_ok=True)
                durable_files.sync(self._folder)
            with durable_files.unfinished_file(part) as file:
                yield file
                durable_files.flush(file)
                with self._usage_lock:
                    before = _size(path) or 0
                    part.rename(path)
                    self._used += file.tell() - before
                durable_files.sync(path.parent)

    def read(self, id: str, name: str, start: int = 0, size: int | None = None) -> bytes:
        """As AudioFiles."""
        path = self.path(id, name)
        with _file_errors(path, missing=True), path.open("rb") as file:
            file.seek(start)
            return file.read(size)

    def stream(self, id: str, name: str, start: int, end: int) -> Iterator[bytes]:
        """As AudioFiles."""
        path = self.path(id, name)
        with _file_errors(path, missing=True), path.open("rb") as file:
            file.seek(start)
            while block := file.read(min(BLOCK, end - file.tell())):
                yield block

    def size(self, id: str, name: str) -> int | None:
        """As AudioFiles."""
        path = self.path(id, name)
        with _file_errors(path):
            return _size(path)

    def path(self, id: str, name: str) -> Path:
        """As AudioFiles."""
        return self._folder / id / name

    def remove(self, id: str, suffix: str = "") -> None:
        """As AudioFiles; all files with their directory."""
        folder = self._folder / id
        with _file_errors(folder):
            if suffix:
                for path in (*folder.glob(f"*{suffix}"), *folder.glob(f"*{suffix}*{_PART_SUFFIX}")):
                    self._unlink(path)
                return
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

    def names(self, id: str) -> tuple[str, ...]:
        """As AudioFiles."""
        with _file_errors(self._folder), contextlib.suppress(FileNotFoundError):
            return tuple(path.name for path in (self._folder / id).iterdir() if path.suffix != _PART_SUFFIX)
        return ()

    def ids(self) -> tuple[str, ...]:
        """As AudioFiles."""
        with _file_errors(self._folder):
            return tuple(sorted(path.name for path in self._folder.iterdir() if is_id(path.name)))

    def used_bytes(self) -> int | None:
        """As AudioFiles."""
        with self._usage_lock:
            return None if self._shared else self._used

    def free_bytes(self) -> float:
        """As AudioFiles: those of the disk."""
        with _file_errors(self._folder):
            found = os.statvfs(self._folder)
            return found.f_bavail * found.f_frsize

    def marker(self) -> str | None:
        """As AudioFiles."""
        path = self._folder / MARKER
        try:
            with _file_errors(path, missing=True):
                return path.read_bytes().decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None

    def mark(self, token: str) -> str:
        """As AudioFiles; another service may write it at the same time."""
        path = self._folder / MARKER
        with _file_errors(path):
            created = durable_files.create_file(path, f"{token}\n".encode("ascii"))
        return token if created else self.marker() or token

    def _unlink(self, path: Path) -> None:
        with self._usage_lock:
            size = _size(path) or 0
            path.unlink(missing_ok=True)
            if path.suffix != _PART_SUFFIX:
                self._used -= size


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _age(path: Path) -> float:
    """Seconds since the last write."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


@contextmanager
def _file_errors(path: Path, *, missing: bool = False) -> Iterator[None]:
    """Turns OSError into NoRoomError or StoreError; with `missing`, not that of a file that is not there."""
    try:
        yield
    except OSError as error:
        if missing and isinstance(error, FileNotFoundError):
            raise
        if error.errno in _DISK_FULL:
            raise NoRoomError("the audio disk is full: delete documents, or free space on it") from error
        raise StoreError(f"the audio file {path.name} cannot be read or written: {error.strerror}") from error
