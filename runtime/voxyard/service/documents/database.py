"""Database of the store, and SQLite as one: one service, one writer, concurrent readers, durable commits.

Statements are SQL of SQLite and PostgreSQL alike, with parameters $1, $2, $3.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from voxyard.host import durable_files
from voxyard.service.documents import schema
from voxyard.service.errors import NoRoomError, ServiceError, StoreError


class Row(Protocol):
    """Row of a result, by column name."""

    def __getitem__(self, column: str, /) -> Any:
        """Value of a column."""


class Result(Protocol):
    """Result of a statement."""

    @property
    def rowcount(self) -> int:
        """Rows that were written."""

    def fetchone(self) -> Row | None:
        """The next row."""

    def fetchall(self) -> Sequence[Row]:
        """All further rows."""

    def __iter__(self) -> Iterator[Row]:
        """All further rows, one at a time."""


class Connection(Protocol):
    """Connection in a transaction."""

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> Result:
        """Runs a statement; its parameters are $1, $2, and so on."""

    def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Runs a statement once for each row of parameters."""

    def notify(self, kind: str, id: str) -> None:
        """Tells the other services on this database what happened to a document, once it is committed."""


@dataclass(frozen=True)
class ClaimRules:
    """Parts of the statements on claims, which each database has its own of."""

    shared: bool  # several services use the database
    free: str  # true where no other service has the document
    until: str  # end of a claim of $2 seconds
    silent: str  # seconds since the end of a claim
    one: str  # of the documents: one that no other service claims at this moment
    lock: str


class Database(Protocol):
    """Transactional database of one or several services."""

    @property
    def rules(self) -> ClaimRules:
        """How documents are claimed."""

    def close(self) -> None:
        """Closes all connections."""

    def shelf(self, new: str | None = None) -> str | None:
        """Token of the directory with the audio, 8 hexadecimal digits; `new` becomes it where there is none yet."""

    def notify(self, kind: str, id: str) -> None:
        """Tells the other services what happens to a document, without a change."""

    def delete(self) -> AbstractContextManager[Connection]:
        """Write transaction that deletes, which may succeed where the disk is too full for others."""

    def write(self) -> AbstractContextManager[Connection]:
        """Write transaction, committed durably when the block ends, rolled back where it raises.

        Raises:
            NoRoomError: the disk is full.
            StoreError: it cannot be written.
            StoreUnavailableError: it does not answer now.
        """

    def read(self) -> AbstractContextManager[Connection]:
        """Read transaction: one snapshot for the whole block.

        Raises:
            StoreError: it cannot be read.
            StoreUnavailableError: it does not answer now.
        """


def first(result: Result) -> Row:
    """The only row of a statement that always has one."""
    row = result.fetchone()
    if row is None:
        raise LookupError("the statement returned no row, expected one")
    return row


BUSY_SECONDS = 10.0
RESERVE_BYTES = 2 << 20
"""Size of the file `…-reserve` beside the database: on a full disk its room is for the journal of deletions."""
SHRINK_BYTES = 64 << 20
"""Least room of deleted rows for which the file is written anew: less is soon used again."""
_FULL_BELOW = 256 * 1024  # free bytes; SQLite reports some full disks as I/O errors
_MAX_IDLE_READERS = 8  # kept open between uses

log = logging.getLogger("voxyard.service")


class SqliteConnection:
    """Connection in a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> sqlite3.Cursor:
        """Runs a statement."""
        statement = _numbered(sql)
        return self._connection.execute(statement, parameters)

    def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Runs a statement once for each row of parameters."""
        statement = _numbered(sql)
        self._connection.executemany(statement, rows)

    def notify(self, kind: str, id: str) -> None:
        """Does nothing: there is no other service."""


class SqliteDatabase:
    """SQLite file, opened by one service at a time.

    Raises:
        StoreError: in use by another service, written by a newer version, not a database, or not writable.
    """

    rules = ClaimRules(shared=False, free="TRUE", until="NULL", silent="NULL", one="", lock="")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing, self._deleting = threading.Lock(), threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _locked(path.with_name(path.name + ".lock"))
        except OSError as error:
            raise StoreError(
                f"cannot use the data directory {path.parent}: {error}; choose another --data-dir"
            ) from error
        self._reserve = path.with_name(path.name + "-reserve")
        try:
            with _store_errors(path):
                self._writer = self._open("rwc")
                self._prepare()
                self._file = _file(path)
            self._fill_reserve()
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Closes the file and releases its lock."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            for reader in self._readers:
                reader.close()
            self._readers.clear()
            self._writer.close()
            os.close(self._lock)

    def shelf(self, new: str | None = None) -> str | None:
        """Token of the directory with the audio, 8 hexadecimal digits; `new` becomes it where there is none yet."""
        with self.write() as connection:
            (number,) = connection.execute("PRAGMA application_id").fetchone()
            if not number and new is not None:
                number = int.from_bytes(bytes.fromhex(new), signed=True)
                statement = f"PRAGMA application_id = {number}"
                connection.execute(statement)
        return int(number).to_bytes(4, signed=True).hex() if number else None

    def notify(self, kind: str, id: str) -> None:
        """Does nothing: there is no other service."""

    @contextmanager
    def write(self) -> Iterator[SqliteConnection]:
        """Write transaction, committed durably when the block ends, rolled back where it raises.

        Raises:
            NoRoomError: the disk is full.
            StoreError: the file is missing or cannot be written.
        """
        with self._writing, _store_errors(self.path):
            self._check()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteConnection(self._writer)
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def delete(self) -> Iterator[SqliteConnection]:
        """Write transaction that deletes: on a full disk its journal gets the room of the reserve.

        Raises:
            NoRoomError: the reserve does not suffice, or was used up by earlier deletions.
            StoreError: the file is missing or cannot be written.
        """
        with self._deleting:
            if shutil.disk_usage(self.path.parent).free < RESERVE_BYTES:
                self._reserve.unlink(missing_ok=True)
            try:
                with self.write() as connection:
                    yield connection
            finally:
                self._fill_reserve()

    @contextmanager
    def read(self) -> Iterator[SqliteConnection]:
        """Read transaction: one snapshot for the whole block.

        Raises:
            StoreError: the file is missing or cannot be read.
        """
        with _store_errors(self.path):
            reader = self._reader()
            try:
                reader.execute("BEGIN")
                yield SqliteConnection(reader)
            finally:
                if reader.in_transaction:
                    reader.execute("ROLLBACK")
                self._release(reader)

    def shrink(self) -> None:
        """Gives the room of deleted uploads back to the disk, once it is more than what is kept.

        Writers wait for it, readers do not. Raises StoreError.
        """
        with self._writing, _store_errors(self.path):
            self._check()
            pages, unused, size = (
                self._writer.execute(statement).fetchone()[0]
                for statement in ("PRAGMA page_count", "PRAGMA freelist_count", "PRAGMA page_size")
            )
            kept = (pages - unused) * size
            room = shutil.disk_usage(self.path.parent).free
            if unused * size >= max(SHRINK_BYTES, kept) and room >= 3 * kept + RESERVE_BYTES:
                self._writer.execute("VACUUM")
                log.info("%s is smaller by %.0f MiB", self.path.name, unused * size / 2**20)
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Empties the journal, where no reader needs it."""
        self._writer.execute("PRAGMA busy_timeout = 0")  # readers are not waited for
        self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        statement = f"PRAGMA busy_timeout = {round(1000 * BUSY_SECONDS)}"
        self._writer.execute(statement)

    def _fill_reserve(self) -> None:
        """Makes the reserve where there is room for it; the journal is emptied before, where that is possible."""
        if self._reserve.exists():
            return
        try:
            if shutil.disk_usage(self.path.parent).free < 2 * RESERVE_BYTES:
                with self._writing:
                    self._checkpoint()
            with self._reserve.open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        except (OSError, sqlite3.Error) as error:
            self._reserve.unlink(missing_ok=True)
            log.warning("no room to reserve for deletions on a full disk: %s", error)

    def _reader(self) -> sqlite3.Connection:
        self._check()
        try:
            return self._readers.pop()
        except IndexError:
            reader = self._open("rw")
            reader.execute("PRAGMA query_only = ON")
            return reader

    def _release(self, reader: sqlite3.Connection) -> None:
        if self._closed or len(self._readers) >= _MAX_IDLE_READERS:
            reader.close()
        else:
            self._readers.append(reader)

    def _open(self, mode: str) -> sqlite3.Connection:
        """New connection; this class serializes the threads that use it."""
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
        if version > len(schema.MIGRATIONS):
            raise StoreError(
                f"{self.path} has schema version {version}, this voxyard supports up to {len(schema.MIGRATIONS)}: it "
                "was written by a newer voxyard; use that one, or another data directory"
            )
        self._writer.execute("PRAGMA journal_mode = WAL")
        for number, step in enumerate(schema.MIGRATIONS[version:], version + 1):
            self._writer.execute("BEGIN IMMEDIATE")
            for statement in (*map(schema.of_sqlite, step), f"PRAGMA user_version = {number}"):
                self._writer.execute(statement)
            self._writer.execute("COMMIT")

    def _check(self) -> None:
        """Raises StoreError where the file was removed or replaced while open: writes would be lost."""
        if self._closed:
            raise StoreError(f"{self.path.name} is closed: the service is shutting down")
        if _file(self.path) != self._file:
            raise StoreError(f"{self.path.name} was removed or replaced while the service runs: restart the service")


@functools.cache
def _numbered(sql: str) -> str:
    """The statement with ?1, ?2, and so on, which SQLite takes from a sequence; $1 it would take by its name."""
    return sql.replace("$", "?")


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    """Turns sqlite3.Error into NoRoomError or StoreError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _store_error(error, path) from error


def _store_error(error: sqlite3.Error, path: Path) -> ServiceError:
    """Error for a client: without the path, unless it prevents the start."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    full = code == sqlite3.SQLITE_FULL
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and path.parent.exists():
        full = shutil.disk_usage(path.parent).free < _FULL_BELOW  # no room for the journal's index
    if full:
        return NoRoomError(f"the disk for {path.name} is full: delete documents, or free space on it")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f"{path} is not a voxyard database: move it away, or use another data directory")
    return StoreError(f"{path.name} cannot be read or written: {error}")


def _locked(path: Path) -> int:
    """File descriptor of the lock; closing it, or the end of the process, releases the lock."""
    try:
        return durable_files.open_locked(path, mode=durable_files.PRIVATE)
    except BlockingIOError as error:
        raise StoreError(
            f"{path.parent} is in use by another voxyard service: stop that one, or use another data directory"
        ) from error


def _file(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
