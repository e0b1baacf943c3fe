"""Chunks of completed documents that are to be spoken again: statements on their rows."""

from __future__ import annotations

from collections.abc import Mapping

from voxyard.service.documents import queries
from voxyard.service.documents.database import Connection
from voxyard.service.documents.records import Redo, StoredChunk
from voxyard.service.errors import ConflictError, NotFoundError
from voxyard.service.voices.table import hold

_COUNT = """
    UPDATE documents SET changes = changes + 1, redos = (
        SELECT count(*) FROM chunks WHERE document = $1 AND redo_seed IS NOT NULL AND redo_reason IS NULL)
    WHERE number = $1
"""


def request(connection: Connection, id: str, index: int, voice: str | None, seed: int | None) -> None:
    """Stores that a chunk is to be spoken again; in place of an earlier request for it.

    Without a voice it keeps the one it has; without a seed it gets the next one.

    Raises:
        ConflictError: the document is not completed.
        NotFoundError: there is no such document or chunk, or the uploaded voice was deleted meanwhile.
    """
    document, number = queries.find(connection, id), queries.number_of(connection, id)
    if document.state != "completed":
        raise ConflictError(
            f"document {id} is {document.state}: only a completed one has chunks that can be spoken again"
        )
    # Locks its row, so that none is counted between the statements of another transaction.
    connection.execute("UPDATE documents SET redos = redos WHERE number = $1", (number,))
    row = connection.execute(
        "SELECT voice, seed FROM chunks WHERE document = $1 AND place = $2", (number, index)
    ).fetchone()
    if row is None:
        raise NotFoundError(
            f"document {id} has no chunk {index}: it has {document.chunks}, counted from 0", parameter="index"
        )
    hold(connection, voice)
    had = document.seed if row["seed"] is None else row["seed"]
    connection.execute(
        """
        UPDATE chunks SET redo_seed = $1, redo_voice = $2, redo_samples = NULL, redo_claim = NULL, redo_reason = NULL
        WHERE document = $3 AND place = $4
        """,
        ((had + 1) % 2**63 if seed is None else seed, voice or row["voice"], number, index),
    )
    connection.execute(_COUNT, (number,))
    connection.notify("accepted", id)


def of(connection: Connection, number: int) -> tuple[StoredChunk, ...]:
    """Chunks of a document that are to be spoken again, or could not be, in text order."""
    return queries.chunks(connection, number, "AND redo_seed IS NOT NULL ORDER BY place")


def end(connection: Connection, number: int, index: int, redo: Redo, samples: int | None, reason: str | None) -> bool:
    """Stores what became of a request; False where there is another one for the chunk meanwhile, or it was stored.

    Its audio is stored under the number of the document's claim; without audio and a reason it waits again.
    """
    changed = connection.execute(
        """
        UPDATE chunks SET redo_samples = $1, redo_reason = $2,
            redo_claim = (SELECT claim FROM documents WHERE number = $3)
        WHERE document = $3 AND place = $4 AND redo_seed = $5
            AND coalesce(redo_voice, '') = coalesce(CAST($6 AS TEXT), '')
            AND (redo_samples IS NULL OR CAST($1 AS INTEGER) IS NULL)
        """,
        (samples, reason, number, index, redo.seed, redo.voice),
    ).rowcount
    connection.execute(_COUNT, (number,))
    return bool(changed)


def fail(connection: Connection, number: int, reason: str) -> None:
    """Has all requests of a document fail."""
    connection.execute(
        """
        UPDATE chunks SET redo_reason = $1, redo_samples = NULL
        WHERE document = $2 AND redo_seed IS NOT NULL AND redo_reason IS NULL
        """,
        (reason, number),
    )
    connection.execute(_COUNT, (number,))


def finish(connection: Connection, number: int, found: Mapping[int, Redo]) -> None:
    """Gives chunks the audio that was made for them, by their index; the whole is in the file of the document's claim.

    What was asked for meanwhile still waits.
    """
    for index, redo in found.items():
        connection.execute(
            """
            UPDATE chunks SET samples = $1, voice = $2, seed = $3, state = 'spoken', reason = NULL,
                changed = (SELECT changes + 1 FROM documents WHERE number = $4)
            WHERE document = $4 AND place = $5
            """,
            (redo.samples, redo.voice, redo.seed, number, index),
        )
        connection.execute(
            """
            UPDATE chunks SET redo_seed = NULL, redo_voice = NULL, redo_samples = NULL, redo_claim = NULL
            WHERE document = $1 AND place = $2 AND redo_seed = $3
                AND coalesce(redo_voice, '') = coalesce(CAST($4 AS TEXT), '')
            """,
            (number, index, redo.seed, redo.voice),
        )
    connection.execute("UPDATE documents SET revision = revision + 1, audio = claim WHERE number = $1", (number,))
    connection.execute(_COUNT, (number,))
    queries.recount(connection, number)
