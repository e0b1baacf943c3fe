"""Directories that appear whole or not at all: written under another name, then put in place."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from voxyard.corpus.examples import CorpusError


@contextmanager
def whole_directory(directory: Path, what: str, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """An empty directory to write into; it becomes `directory` when the block ends, and vanishes where it raises.

    What lies at `directory` is replaced only where it is empty or `is_ours` knows it. Raises CorpusError where it is
    something else, where another process writes there, and for every OSError (a full disk, no permission).
    """
    try:
        target = Path(os.path.realpath(directory))
        _refuse_others(directory, target, what, is_ours)
        unfinished = target.with_name(f".{target.name}.unfinished")
        with _claimed(unfinished, directory):
            try:
                yield unfinished
                _sync(unfinished)
                _put_in_place(unfinished, target)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CorpusError(
            f"{what} in {directory} cannot be written: {reason}; nothing is left of the attempt"
        ) from error


def _refuse_others(directory: Path, target: Path, what: str, is_ours: Callable[[Path], bool]) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise CorpusError(f"{directory} is a file: give a directory that does not exist yet, for {what}")
    if any(target.iterdir()) and not is_ours(target):
        raise CorpusError(
            f"{directory} holds something else than {what}, which would be lost: give another directory, or remove it"
        )


@contextmanager
def _claimed(unfinished: Path, directory: Path) -> Iterator[None]:
    """The directory emptied and locked; what a killed process left there is cleared away."""
    unfinished.mkdir(parents=True, exist_ok=True)
    lock = os.open(unfinished, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(lock, directory)
        if not unfinished.exists() or os.fstat(lock).st_ino != unfinished.stat().st_ino:
            raise CorpusError(f"another process has just written {directory}: look at it before you write it again")
        for left in unfinished.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield
    finally:
        os.close(lock)


def _lock(handle: int, directory: Path) -> None:
    with contextlib.suppress(OSError):  # some network file systems have no locks
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CorpusError(f"another process is writing {directory}: wait for it, or write elsewhere") from error


def _put_in_place(unfinished: Path, target: Path) -> None:
    if not target.exists():
        unfinished.rename(target)
    else:
        replaced = target.with_name(f".{target.name}.replaced")
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
        try:
            unfinished.rename(target)
        except OSError:
            replaced.rename(target)
            raise
        shutil.rmtree(replaced, ignore_errors=True)
    _sync_one(target.parent)


def _sync(directory: Path) -> None:
    for path in directory.rglob("*"):
        _sync_one(path)
    _sync_one(directory)


def _sync_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
