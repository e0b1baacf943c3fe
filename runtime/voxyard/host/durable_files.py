"""Durable files: whole under their name or not there, also after a kill or a power cut; locks between processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600
"""Mode of a file that its owner alone reads and writes."""


def sync(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hex digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush(file: BinaryIO) -> None:
    """Flushes what was written to an open file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def rename(part: Path, path: Path) -> None:
    """Gives a file that is on the disk its name in the same folder, in place of another; the name is there then.

    Raises:
        OSError: the name is that of a device or a pipe, which would be gone; or the file cannot be renamed.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileExistsError(errno.EEXIST, "is a device or a pipe, expected the name of a file", str(path))
    part.replace(path)
    sync(path.parent)


@contextmanager
def unfinished_file(part: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A new file to write and rename in the block, in place of one that a killed process has left.

    Where it still has its name at the end of the block, it is removed.
    """
    part.unlink(missing_ok=True)
    try:
        with open(part, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
            yield file
    finally:
        with contextlib.suppress(OSError):  # the block's own error counts
            part.unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path, *, mode: int = 0o666, part: Path | None = None) -> Iterator[BinaryIO]:
    """A file that is at `path` once the block has ended; where that raises, what was there stays.

    It is written as `part`, or as `.NAME.unfinished`: where several processes may write, each needs its own.
    """
    part = unfinished(path) if part is None else part
    with unfinished_file(part, mode) as file:
        yield file
        flush(file)
        rename(part, path)


def unfinished(path: Path) -> Path:
    """Name of a file or folder until it is whole."""
    return path.with_name(f".{path.name}.unfinished")


def write_file(path: Path, content: str | bytes, *, mode: int = 0o666, part: Path | None = None) -> None:
    """Writes a file, in place of another, as `whole_file` does; text as UTF-8."""
    with whole_file(path, mode=mode, part=part) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def create_file(path: Path, content: bytes, *, mode: int = 0o666) -> bool:
    """Writes a file whole; False where there is one, as another process may write it at the same time."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with unfinished_file(part, mode) as file:
        file.write(content)
        flush(file)
        try:
            path.hardlink_to(part)
        except FileExistsError:
            return False
    sync(path.parent)
    return True


def put_directory(unfinished: Path, directory: Path) -> None:
    """Gives a directory its name, once all in it is on the disk; one that was there goes, or stays where this fails."""
    for path in unfinished.rglob("*"):
        sync(path)
    sync(unfinished)
    if not directory.exists():
        unfinished.rename(directory)
    else:
        replaced = directory.with_name(f".{directory.name}.replaced")
        shutil.rmtree(replaced, ignore_errors=True)
        directory.rename(replaced)
        try:
            unfinished.rename(directory)
        except OSError:
            replaced.rename(directory)
            raise
        shutil.rmtree(replaced, ignore_errors=True)
    sync(directory.parent)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Locks an open file or folder until it is closed, or its process ends; False where another process has it."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_locked(path: Path, *, wait: bool = False, mode: int = 0o666) -> int:
    """Descriptor of a folder, or of a file that is created where it is missing, locked until it is closed.

    Raises:
        BlockingIOError: another process has it, and is not to be waited for.
        OSError: it cannot be opened or locked.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[int]:
    """Lock of a folder or file for the block; its descriptor. Raises as `open_locked`."""
    descriptor = open_locked(path, wait=wait)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
