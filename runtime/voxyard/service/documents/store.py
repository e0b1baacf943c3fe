"""Document store (SQLite): every accepted document, its progress, and the webhooks that are due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voxyard.service.documents import queries
from voxyard.service.documents.database import Database
from voxyard.service.documents.records import Chunk, Document, NewDocument, State
from voxyard.service.errors import ConflictError

HookEvent = Literal["document.completed", "document.failed"]


@dataclass(frozen=True)
class Load:
    """Backlog: the work that is yet to be spoken."""

    documents: int  # not finished
    chunks: int  # of them, without an outcome
    estimated_seconds: float  # of these chunks' sound


@dataclass(frozen=True)
class Hook:
    """A webhook that is due; `tries` are those that failed, `next_try` Unix seconds."""

    id: int
    document: str
    url: str
    event: HookEvent
    tries: int
    next_try: float
    error: str | None  # of the last try


class Store:
    """Documents and chunks in one SQLite file; every method may be called from any thread.

    A method returns when what it did is on the disk. Times are Unix seconds. Each method raises NoRoomError where
    the disk is full, StoreError where the file cannot be read or written, NotFoundError for a document that is not
    there.
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path)

    def close(self) -> None:
        """Close the file and let another service have it."""
        self._database.close()

    def accept(self, new: NewDocument) -> tuple[Document, bool]:
        """Keep a document; False where the same request was accepted before, which is then what comes back.

        Raises:
            ConflictError: another request came with the same idempotency key.
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
        """The document that the same request made before, by its idempotency key.

        Raises:
            ConflictError: another request came with the same idempotency key.
        """
        with self._database.read() as connection:
            return queries.earlier(connection, new)

    def document(self, id: str, owner: str | None = None) -> Document:
        """A document as it stands; with `owner`, only where it is that client's."""
        with self._database.read() as connection:
            return queries.find(connection, id, owner)

    def documents(self, owner: str | None = None, limit: int = 50, before: str | None = None) -> tuple[Document, ...]:
        """Up to `limit` documents, the newest first; with `before`, those accepted before that one."""
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
        """The text of a document; its chunks are stretches of it."""
        with self._database.read() as connection:
            (text,) = connection.execute(
                "SELECT text FROM texts WHERE document = ?", (queries.number_of(connection, id),)
            ).fetchone()
            return str(text)

    def chunks(self, id: str) -> tuple[Chunk, ...]:
        """The chunks of a document in text order."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT * FROM chunks WHERE document = ? ORDER BY place", (queries.number_of(connection, id),)
            )
            return tuple(queries.read_chunk(row) for row in found)

    def unfinished(self) -> tuple[Document, ...]:
        """The documents that are neither completed nor failed, the oldest first."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT * FROM documents WHERE state IN ('pending', 'processing') ORDER BY number"
            )
            return tuple(queries.read(row) for row in found)

    def load(self) -> Load:
        """Backlog that is yet to be spoken."""
        with self._database.read() as connection:
            row = connection.execute(
                """
                SELECT count(*), coalesce(sum(chunks - chunks_done), 0), coalesce(sum(waiting_seconds), 0.0)
                FROM documents WHERE state IN ('pending', 'processing')
                """
            ).fetchone()
            return Load(*row)

    def counts(self) -> dict[State, int]:
        """Number of documents in each state."""
        counts: dict[State, int] = {"pending": 0, "processing": 0, "completed": 0, "failed": 0}
        with self._database.read() as connection:
            counts.update(dict(connection.execute("SELECT state, count(*) FROM documents GROUP BY state").fetchall()))
        return counts

    def started(self, id: str, when: float) -> None:
        """Its chunks are in the workers' queue; nothing keeps it from going on any more."""
        with self._database.write() as connection:
            connection.execute(
                """
                UPDATE documents SET state = 'processing', started = coalesce(started, ?), parked = NULL
                WHERE number = ? AND state IN ('pending', 'processing')
                """,
                (when, queries.number_of(connection, id)),
            )

    def spoken(
        self,
        id: str,
        index: int,
        samples: int,
        *,
        reduced: bool = False,
        silenced: bool = False,
        reason: str | None = None,
    ) -> None:
        """Records that a waiting chunk's audio is stored; `silenced` where it is silence, for this reason."""
        with self._database.write() as connection:
            number = queries.number_of(connection, id)
            state = "silenced" if silenced else "spoken"
            if queries.end_chunk(connection, number, index, state, samples, reason):
                connection.execute(
                    "UPDATE documents SET samples = samples + ?, reduced = reduced OR ? WHERE number = ?",
                    (samples, reduced, number),
                )

    def chunk_failed(self, id: str, index: int, reason: str) -> None:
        """A waiting chunk could not be spoken."""
        with self._database.write() as connection:
            number = queries.number_of(connection, id)
            if queries.end_chunk(connection, number, index, "failed", None, reason):
                connection.execute("UPDATE documents SET chunks_failed = chunks_failed + 1 WHERE number = ?", (number,))

    def respeak(self, id: str, indices: Iterable[int]) -> None:
        """The sound of these chunks is gone: they wait again."""
        with self._database.write() as connection:
            number = queries.number_of(connection, id)
            connection.executemany(
                "UPDATE chunks SET state = 'waiting', samples = NULL, reason = NULL WHERE document = ? AND place = ?",
                ((number, index) for index in indices),
            )
            queries.recount(connection, number)

    def completed(self, id: str, when: float) -> None:
        """Records that the document's whole audio is stored; the webhook is due."""
        self._end(id, "completed", when, None, "document.completed")

    def failed(self, id: str, when: float, reason: str) -> None:
        """It cannot be spoken; the webhook is due."""
        self._end(id, "failed", when, reason, "document.failed")

    def parked(self, id: str, reason: str | None) -> None:
        """Stores the reason why a document is parked; None: it goes on."""
        with self._database.write() as connection:
            connection.execute(
                """
                UPDATE documents SET parked = ? WHERE number = ? AND state IN ('pending', 'processing')
                """,
                (reason, queries.number_of(connection, id)),
            )

    def retry(self, id: str) -> Document:
        """A failed document is pending again, and its failed chunks wait.

        Raises:
            ConflictError: it has not failed.
        """
        with self._database.write() as connection:
            document, number = queries.find(connection, id), queries.number_of(connection, id)
            if document.state != "failed":
                raise ConflictError(f"document {id} is {document.state}: only a failed one can be tried again")
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
        """Forget a document and all that belongs to it."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM documents WHERE number = ?", (queries.number_of(connection, id),))

    def expired(self, before: float) -> tuple[str, ...]:
        """The ids of documents that were finished before this time."""
        with self._database.read() as connection:
            found = connection.execute(
                """
                SELECT id FROM documents WHERE state IN ('completed', 'failed') AND finished < ? ORDER BY number
                """,
                (before,),
            )
            return tuple(row["id"] for row in found)

    def pending_hooks(self, now: float, limit: int = 100) -> tuple[Hook, ...]:
        """Up to `limit` webhooks that are due, the one that has waited longest first."""
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
            return tuple(Hook(*row) for row in found)

    def hook_tried(self, id: int, when: float, next_try: float | None, error: str | None) -> None:
        """A webhook could not be handed over at `when`; it is due again at `next_try`, or never with None."""
        if next_try is None:
            self.hook_done(id)
            return
        with self._database.write() as connection:
            connection.execute(
                "UPDATE hooks SET tries = tries + 1, next_try = ?, error = ? WHERE number = ?",
                (max(next_try, when), error, id),
            )

    def hook_done(self, id: int) -> None:
        """A webhook has been handed over, or is given up."""
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
