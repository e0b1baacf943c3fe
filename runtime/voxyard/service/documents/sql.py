"""Database interface of the store; statements are SQL of SQLite and PostgreSQL alike, with parameters $1, $2, $3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol


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
