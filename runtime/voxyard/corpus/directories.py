"""Directories that appear whole or not at all: written under another name, then put in place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from voxyard.corpus.examples import CorpusError
from voxyard.host import durable_files


@contextmanager
def whole_directory(directory: Path, what: str, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """An empty directory to write into; it becomes `directory` when the block ends, and vanishes where it raises.

    What lies at `directory` is replaced only where it is empty or `is_ours` knows it. Raises CorpusError where it is
    something else, where another process writes there, and for every OSError (a full disk, no permission).
    """
    try:
        target = Path(os.path.realpath(directory))
        _refuse_others(directory, target, what, is_ours)
        unfinished = durable_files.unfinished(target)
        with _claimed(unfinished, directory):
            try:
                yield unfinished
                durable_files.put_directory(unfinished, target)
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
        if not lock_where_possible(lock):
            raise CorpusError(f"another process is writing {directory}: wait for it, or write elsewhere")
        if not unfinished.exists() or os.fstat(lock).st_ino != unfinished.stat().st_ino:
            raise CorpusError(f"another process has just written {directory}: look at it before you write it again")
        for left in unfinished.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield
    finally:
        os.close(lock)


def lock_where_possible(descriptor: int, *, shared: bool = False) -> bool:
    """As `durable_files.try_lock`; what lies on a file system without locks counts as not in use."""
    try:
        return durable_files.try_lock(descriptor, shared=shared)
    except OSError:
        return True
