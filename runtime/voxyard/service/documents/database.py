"""The SQLite file under the store: one writer at a time, readers beside it, nothing lost once it is committed."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from voxyard.service.documents.migrations import MIGRATIONS
from voxyard.service.errors import NoRoomError, ServiceError, StoreError

BUSY_SECONDS = 10.0
_LITTLE = 256 * 1024  # bytes left on a disk that counts as full
_KEPT = 8  # readers that are kept open


class Database:
    """One file, opened by one service at a time.

    Raises:
        StoreError: another service has it, it is from a newer version, is no database, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _locked(path.with_name(path.name + ".lock"))
        except OSError as error:
            raise StoreError(f"the data directory {path.parent} cannot be used: {error}; name another") from error
        try:
            with _told(path):
                self._writer = self._open("rwc")
                self._prepare()
                self._file = _file(path)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Close the file and let another service have it."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            for reader in self._readers:
                reader.close()
            self._readers.clear()
            self._writer.close()
            os.close(self._lock)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on the disk when the block ends, or has never been.

        Raises:
            NoRoomError: the disk is full.
            StoreError: the file is gone or cannot be written.
        """
        with self._writing, _told(self.path):
            self._check()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the data for the whole block.

        Raises:
            StoreError: the file is gone or cannot be read.
        """
        with _told(self.path):
            reader = self._reader()
            try:
                reader.execute("BEGIN")
                yield reader
            finally:
                if reader.in_transaction:
                    reader.execute("ROLLBACK")
                self._give_back(reader)

    def _reader(self) -> sqlite3.Connection:
        self._check()
        try:
            return self._readers.pop()
        except IndexError:
            reader = self._open("rw")
            reader.execute("PRAGMA query_only = ON")
            return reader

    def _give_back(self, reader: sqlite3.Connection) -> None:
        if self._closed or len(self._readers) >= _KEPT:
            reader.close()
        else:
            self._readers.append(reader)

    def _open(self, mode: str) -> sqlite3.Connection:
        """A connection; its threads take turns, which this class sees to."""
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _prepare(self) -> None:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} is of version {version}, this voxyard knows up to {len(MIGRATIONS)}: a newer voxyard "
                "has written it; use that one, or another data directory"
            )
        self._writer.execute("PRAGMA journal_mode = WAL")
        for step in MIGRATIONS[version:]:
            self._writer.execute("BEGIN IMMEDIATE")
            for statement in step:
                self._writer.execute(statement)
            self._writer.execute("COMMIT")

    def _check(self) -> None:
        """Raises StoreError where the file was removed or replaced while open: what is written to it would be lost."""
        if self._closed:
            raise StoreError(f"{self.path.name} was closed: the service is going down")
        if _file(self.path) != self._file:
            raise StoreError(f"{self.path.name} was removed or replaced while the service runs: start it again")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _ours(error, path) from error


def _ours(error: sqlite3.Error, path: Path) -> ServiceError:
    """Error for a client: without the path, unless it ends the start."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    full = code == sqlite3.SQLITE_FULL
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and path.parent.exists():
        full = shutil.disk_usage(path.parent).free < _LITTLE  # where room for the journal's index is wanting
    if full:
        return NoRoomError(f"the disk for {path.name} is full: delete documents, or free space on it")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f"{path} is not a database of voxyard: move it away, or name another data directory")
    return StoreError(f"{path.name} cannot be read or written: {error}")


def _locked(path: Path) -> int:
    """The lock's file descriptor; the lock goes with it, and with the process in any case."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StoreError(
            f"{path.parent} is in use by another voxyard service: end that one, or name another data directory"
        ) from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _file(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
