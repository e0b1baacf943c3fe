"""Chunks of completed documents that are to be spoken again: their table, in SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from voxyard.service.documents import queries
from voxyard.service.documents.sql import Connection, Database, first
from voxyard.service.errors import ConflictError, NotFoundError
from voxyard.service.voices.table import hold


@dataclass(frozen=True)
class Redo:
    """Chunk that is to be spoken again; `reason` tells why that failed."""

    index: int
    voice: str | None  # None: the document's
    seed: int
    reason: str | None = None


@dataclass(frozen=True)
class TakenRedos:
    """Chunks of one document that a service speaks again until `until`, in Unix seconds, which is its token."""

    document: str
    redos: tuple[Redo, ...]
    until: float


class Redos:
    """Chunks to speak again. Its methods raise as those of the store, and may be called from any thread.

    Several services may share the table: one at a time works on a document, for as long as it renews that.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def request(self, id: str, index: int, voice: str | None, seed: int | None) -> None:
        """Stores that a chunk is to be spoken again; in place of an earlier request for it.

        Without a voice it keeps the one it has; without a seed it gets the next one.

        Raises:
            ConflictError: the document is not completed.
            NotFoundError: there is no such document or chunk, or the uploaded voice was deleted meanwhile.
        """
        with self._database.write() as connection:
            document = queries.find(connection, id)
            if document.state != "completed":
                raise ConflictError(
                    f"document {id} is {document.state}: only a completed one has chunks that can be spoken again"
                )
            number = queries.number_of(connection, id)
            _lock(connection, number)  # not between the statements of one that takes or finishes
            row = connection.execute(
                "SELECT voice, seed FROM chunks WHERE document = $1 AND place = $2", (number, index)
            ).fetchone()
            if row is None:
                raise NotFoundError(
                    f"document {id} has no chunk {index}: it has {document.chunks}, counted from 0", parameter="index"
                )
            hold(connection, voice)
            had = document.seed if row["seed"] is None else row["seed"]
            connection.execute("DELETE FROM redos WHERE document = $1 AND place = $2", (number, index))
            connection.execute(
                "INSERT INTO redos (document, place, voice, seed) VALUES ($1, $2, $3, $4)",
                (number, index, voice or row["voice"], (had + 1) % 2**63 if seed is None else seed),
            )
            connection.notify("changed", id)

    def of(self, id: str) -> tuple[Redo, ...]:
        """Chunks of a document that are to be spoken again, or could not be."""
        with self._database.read() as connection:
            return _read(connection, queries.number_of(connection, id))

    def take(self, now: float, seconds: float) -> TakenRedos | None:
        """Chunks of one document, for this service to speak within `seconds`; None where there are none to take."""
        with self._database.write() as connection:
            row = connection.execute(
                """
                SELECT document FROM redos WHERE reason IS NULL
                GROUP BY document HAVING max(taken_until) < $1 ORDER BY document LIMIT 1
                """,
                (now,),
            ).fetchone()
            if row is None:
                return None
            number = int(row["document"])
            _lock(connection, number)
            changed = connection.execute(
                """
                UPDATE redos SET taken_until = $1 WHERE document = $2 AND reason IS NULL AND NOT EXISTS (
                    SELECT 1 FROM redos AS other WHERE other.document = $2 AND other.taken_until >= $3)
                """,
                (now + seconds, number, now),
            ).rowcount
            if not changed:
                return None
            id = str(first(connection.execute("SELECT id FROM documents WHERE number = $1", (number,)))["id"])
            return TakenRedos(id, tuple(each for each in _read(connection, number) if not each.reason), now + seconds)

    def renew(self, taken: TakenRedos, until: float) -> TakenRedos | None:
        """Takes them for longer; None where they were taken, requested anew or deleted meanwhile.

        Those that are left of them can then be taken at once.
        """
        with self._database.write() as connection:
            number = _locked_if_whole(connection, taken)
            if number is None:
                return None
            connection.execute(
                "UPDATE redos SET taken_until = $1 WHERE document = $2 AND taken_until = $3",
                (until, number, taken.until),
            )
            return TakenRedos(taken.document, taken.redos, until)

    def release(self) -> None:
        """Lets all be taken at once: no other service uses the table."""
        with self._database.write() as connection:
            connection.execute("UPDATE redos SET taken_until = 0")

    def finish(self, taken: TakenRedos, revision: int, samples: Mapping[int, int], failures: Mapping[int, str]) -> bool:
        """Stores what became of them: lengths of the new audio, which has this revision, and reasons of failures.

        False where it is too late: they were taken by another service, requested anew or deleted. Those that are left
        of them can then be taken at once.
        """
        with self._database.write() as connection:
            number = _locked_if_whole(connection, taken)
            if number is None:
                return False
            for redo in taken.redos:
                if redo.index in samples:
                    connection.execute(
                        """
                        UPDATE chunks SET samples = $1, voice = $2, seed = $3, state = 'spoken', reason = NULL,
                            changed = (SELECT changes + 1 FROM documents WHERE number = $4)
                        WHERE document = $4 AND place = $5
                        """,
                        (samples[redo.index], redo.voice, redo.seed, number, redo.index),
                    )
                    connection.execute("DELETE FROM redos WHERE document = $1 AND place = $2", (number, redo.index))
                else:
                    connection.execute(
                        "UPDATE redos SET reason = $1, taken_until = 0 WHERE document = $2 AND place = $3",
                        (failures.get(redo.index, "it was not spoken"), number, redo.index),
                    )
            if samples:
                connection.execute("UPDATE documents SET revision = $1 WHERE number = $2", (revision, number))
                queries.recount(connection, number)
            connection.notify("changed", taken.document)
            return True


def _lock(connection: Connection, number: int) -> None:
    """Locks a document's row to the end of the transaction, on both databases."""
    connection.execute("UPDATE documents SET revision = revision WHERE number = $1", (number,))


def _locked_if_whole(connection: Connection, taken: TakenRedos) -> int | None:
    """Number of their document, locked; None where not all are held any more: the others are given back."""
    row = connection.execute("SELECT number FROM documents WHERE id = $1", (taken.document,)).fetchone()
    if row is None:
        return None
    number = int(row["number"])
    _lock(connection, number)
    held = connection.execute(
        "SELECT place FROM redos WHERE document = $1 AND taken_until = $2", (number, taken.until)
    ).fetchall()
    if len(held) == len(taken.redos):
        return number
    connection.execute(
        "UPDATE redos SET taken_until = 0 WHERE document = $1 AND taken_until = $2", (number, taken.until)
    )
    return None


def _read(connection: Connection, number: int) -> tuple[Redo, ...]:
    found = connection.execute(
        "SELECT place, voice, seed, reason FROM redos WHERE document = $1 ORDER BY place", (number,)
    )
    return tuple(Redo(row["place"], row["voice"], row["seed"], row["reason"]) for row in found)
