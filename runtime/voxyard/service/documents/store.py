"""Document store (SQLite): accepted documents, their progress, and pending webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voxyard.service.documents import queries
from voxyard.service.documents.database import Database
from voxyard.service.documents.records import Document, NewDocument, State, StoredChunk
from voxyard.service.errors import ConflictError

HookEvent = Literal["document.completed", "document.failed"]


@dataclass(frozen=True)
class QueueLoad:
    """Backlog of unfinished documents."""

    documents: int  # unfinished
    chunks: int  # of these documents, without an outcome
    estimated_seconds: float  # of audio, for these chunks


@dataclass(frozen=True)
class DueWebhook:
    """Webhook that is due; `tries` counts failed attempts, `next_try` is in Unix seconds."""

    id: int
    document: str
    url: str
    event: HookEvent
    tries: int
    next_try: float
    error: str | None  # of the last attempt


class Store:
    """Documents and chunks in one SQLite file; every method may be called from any thread.

    A method returns once its changes are on the disk. Times are Unix seconds. Each method raises NoRoomError where
    the disk is full, StoreError where the file cannot be read or written, NotFoundError for an unknown document.
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path)

    def close(self) -> None:
        """Closes the file and releases its lock."""
        self._database.close()

    def accept(self, new: NewDocument) -> tuple[Document, bool]:
        """Stores a document; where the same request was accepted before, returns that document and False.

        Raises:
            ConflictError: the idempotency key was used with a different request.
        """
        with self._database.write() as connection:
            earlier = queries.earlier(connection, new)
            if earlier is not None:
                return earlier, False
            seconds = sum(chunk.estimated_seconds for chunk in new.chunks)
            number = connection.execute(
                """
                INSERT INTO documents (id, owner, title, created, voice, seed, language, on_failure, characters,
                    chunks, estimated_seconds, waiting_seconds, webhook, idempotency_key, fingerprint)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                (
                    *(new.id, new.owner, new.title, new.created, new.voice, new.seed, new.language, new.on_failure),
                    *(len(new.text), len(new.chunks), seconds, seconds),
                    *(new.webhook, new.idempotency_key, new.fingerprint),
                ),
            ).lastrowid
            connection.execute("INSERT INTO texts (document, text) VALUES (?, ?)", (number, new.text))
            connection.executemany(
                """
                INSERT INTO chunks (document, place, first, last, ending, estimated_seconds)
                VALUES (?, ?, ?, ?, ?, ?)
                """,
                (
                    (number, each.index, each.start, each.end, each.ending, each.estimated_seconds)
                    for each in new.chunks
                ),
            )
            return queries.find(connection, new.id), True

    def earlier(self, new: NewDocument) -> Document | None:
        """Document of an earlier request with the same idempotency key.

        Raises:
            ConflictError: the idempotency key was used with a different request.
        """
        with self._database.read() as connection:
            return queries.earlier(connection, new)

    def document(self, id: str, owner: str | None = None) -> Document:
        """Document of this id; with `owner`, only where it is that client's."""
        with self._database.read() as connection:
            return queries.find(connection, id, owner)

    def documents(self, owner: str | None = None, limit: int = 50, before: str | None = None) -> tuple[Document, ...]:
        """Up to `limit` documents, newest first; with `before`, those accepted before that document."""
        with self._database.read() as connection:
            newest = None if before is None else queries.number_of(connection, before, owner)
            found = connection.execute(
                """
                SELECT * FROM documents WHERE (:owner IS NULL OR owner = :owner)
                AND (:newest IS NULL OR number < :newest) ORDER BY number DESC LIMIT :limit
                """,
                {"owner": owner, "newest": newest, "limit": limit},
            )
            return tuple(queries.read(row) for row in found)

    def text(self, id: str) -> str:
        """Text of a document; chunks are ranges of it."""
        with self._database.read() as connection:
            (text,) = connection.execute(
                "SELECT text FROM texts WHERE document = ?", (queries.number_of(connection, id),)
            ).fetchone()
            return str(text)

    def chunks(self, id: str) -> tuple[StoredChunk, ...]:
        """Chunks of a document in text order."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT * FROM chunks WHERE document = ? ORDER BY place", (queries.number_of(connection, id),)
            )
            return tuple(queries.read_chunk(row) for row in found)

    def unfinished(self) -> tuple[Document, ...]:
        """Documents that are neither completed nor failed, oldest first."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT * FROM documents WHERE state IN ('pending', 'processing') ORDER BY number"
            )
            return tuple(queries.read(row) for row in found)

    def queue_load(self) -> QueueLoad:
        """Backlog of unfinished documents."""
        with self._database.read() as connection:
            row = connection.execute(
                """
                SELECT count(*), coalesce(sum(chunks - chunks_done), 0), coalesce(sum(waiting_seconds), 0.0)
                FROM documents WHERE state IN ('pending', 'processing')
                """
            ).fetchone()
            return QueueLoad(*row)

    def counts(self) -> dict[State, int]:
        """Number of documents in each state."""
        counts: dict[State, int] = {"pending": 0, "processing": 0, "completed": 0, "failed": 0}
        with self._database.read() as connection:
            counts.update(dict(connection.execute("SELECT state, count(*) FROM documents GROUP BY state").fetchall()))
        return counts

    def started(self, id: str, when: float) -> None:
        """Marks a document as processing, and no longer parked."""
        with self._database.write() as connection:
            connection.execute(
                """
                UPDATE documents SET state = 'processing', started = coalesce(started, ?), parked = NULL
                WHERE number = ? AND state IN ('pending', 'processing')
                """,
                (when, queries.number_of(connection, id)),
            )

    def chunk_spoken(
        self,
        id: str,
        index: int,
        samples: int,
        *,
        reduced: bool = False,
        silenced: bool = False,
        reason: str | None = None,
    ) -> None:
        """Marks a waiting chunk as spoken, or as `silenced` for this reason; its audio is stored."""
        with self._database.write() as connection:
            number = queries.number_of(connection, id)
            state = "silenced" if silenced else "spoken"
            if queries.end_chunk(connection, number, index, state, samples, reason):
                connection.execute(
                    "UPDATE documents SET samples = samples + ?, reduced = reduced OR ? WHERE number = ?",
                    (samples, reduced, number),
                )

    def chunk_failed(self, id: str, index: int, reason: str) -> None:
        """Marks a waiting chunk as failed."""
        with self._database.write() as connection:
            number = queries.number_of(connection, id)
            if queries.end_chunk(connection, number, index, "failed", None, reason):
                connection.execute("UPDATE documents SET chunks_failed = chunks_failed + 1 WHERE number = ?", (number,))

    def reset_chunks(self, id: str, indices: Iterable[int]) -> None:
        """Resets chunks whose audio is lost to waiting."""
        with self._database.write() as connection:
            number = queries.number_of(connection, id)
            connection.executemany(
                "UPDATE chunks SET state = 'waiting', samples = NULL, reason = NULL WHERE document = ? AND place = ?",
                ((number, index) for index in indices),
            )
            queries.recount(connection, number)

    def completed(self, id: str, when: float) -> None:
        """Marks a document as completed; its webhook is due."""
        self._end(id, "completed", when, None, "document.completed")

    def failed(self, id: str, when: float, reason: str) -> None:
        """Marks a document as failed; its webhook is due."""
        self._end(id, "failed", when, reason, "document.failed")

    def parked(self, id: str, reason: str | None) -> None:
        """Stores the reason why a document is parked; None where it resumes."""
        with self._database.write() as connection:
            connection.execute(
                """
                UPDATE documents SET parked = ? WHERE number = ? AND state IN ('pending', 'processing')
                """,
                (reason, queries.number_of(connection, id)),
            )

    def retry(self, id: str) -> Document:
        """Resets a failed document to pending and its failed chunks to waiting.

        Raises:
            ConflictError: the document has not failed.
        """
        with self._database.write() as connection:
            document, number = queries.find(connection, id), queries.number_of(connection, id)
            if document.state != "failed":
                raise ConflictError(f"document {id} is {document.state}: only a failed document can be retried")
            connection.execute(
                "UPDATE chunks SET state = 'waiting', reason = NULL WHERE document = ? AND state = 'failed'", (number,)
            )
            connection.execute(
                """
                UPDATE documents SET state = 'pending', finished = NULL, reason = NULL, parked = NULL
                WHERE number = ?
                """,
                (number,),
            )
            connection.execute("DELETE FROM hooks WHERE document = ?", (number,))
            queries.recount(connection, number)
            return queries.find(connection, id)

    def delete(self, id: str) -> None:
        """Deletes a document with its text, chunks and webhook."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM documents WHERE number = ?", (queries.number_of(connection, id),))

    def expired(self, before: float) -> tuple[str, ...]:
        """Ids of documents finished before this time."""
        with self._database.read() as connection:
            found = connection.execute(
                """
                SELECT id FROM documents WHERE state IN ('completed', 'failed') AND finished < ? ORDER BY number
                """,
                (before,),
            )
            return tuple(row["id"] for row in found)

    def pending_hooks(self, now: float, limit: int = 100) -> tuple[DueWebhook, ...]:
        """Up to `limit` webhooks that are due, longest overdue first."""
        with self._database.read() as connection:
            found = connection.execute(
                """
                SELECT hooks.number, documents.id, documents.webhook, hooks.event, hooks.tries, hooks.next_try,
                    hooks.error
                FROM hooks JOIN documents ON documents.number = hooks.document
                WHERE hooks.next_try <= ? ORDER BY hooks.next_try, hooks.number LIMIT ?
                """,
                (now, limit),
            )
            return tuple(DueWebhook(*row) for row in found)

    def hook_tried(self, id: int, when: float, next_try: float | None, error: str | None) -> None:
        """Records a failed delivery at `when`; the webhook is due again at `next_try`, or never where that is None."""
        if next_try is None:
            self.hook_done(id)
            return
        with self._database.write() as connection:
            connection.execute(
                "UPDATE hooks SET tries = tries + 1, next_try = ?, error = ? WHERE number = ?",
                (max(next_try, when), error, id),
            )

    def hook_done(self, id: int) -> None:
        """Removes a webhook that was delivered or given up."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM hooks WHERE number = ?", (id,))

    def _end(self, id: str, state: State, when: float, reason: str | None, event: HookEvent) -> None:
        with self._database.write() as connection:
            number = queries.number_of(connection, id)
            changed = connection.execute(
                """
                UPDATE documents SET state = ?, finished = ?, reason = ?, parked = NULL
                WHERE number = ? AND state IN ('pending', 'processing')
                """,
                (state, when, reason, number),
            ).rowcount
            if changed:
                connection.execute(
                    """
                    INSERT INTO hooks (document, event, next_try)
                    SELECT number, ?, ? FROM documents WHERE number = ? AND webhook IS NOT NULL
                    """,
                    (event, when, number),
                )
