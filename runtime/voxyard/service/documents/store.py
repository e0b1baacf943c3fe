"""Document store (SQLite or PostgreSQL): accepted documents, their progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from voxyard.service.audiobook import chapters
from voxyard.service.documents import queries, redos
from voxyard.service.documents.claims import Claims
from voxyard.service.documents.database import Connection, SqliteDatabase, first
from voxyard.service.documents.records import (
    Chapter,
    Document,
    NewDocument,
    QueueLoad,
    Redo,
    State,
    StoredChunk,
    Upload,
)
from voxyard.service.errors import ConflictError, StoreError
from voxyard.service.usage import Amounts, UsageMeter, UsageTable
from voxyard.service.voices.table import UploadedVoices, hold
from voxyard.service.webhooks import pending
from voxyard.speech.audio.wav import WIDTH
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.service.documents.postgres import PostgresDatabase

_FEW = 64  # chunks whose words are read one by one


class Store:
    """Documents and chunks in a database; every method may be called from any thread.

    A method returns once its changes are on the disk. Times are Unix seconds. Each method raises NoRoomError where
    the disk is full, StoreError where the database cannot be read or written, StoreUnavailableError where it does not
    answer now, NotFoundError for an unknown document.
    """

    def __init__(self, place: Path | str, *, service: str = "", claim_seconds: float = 15.0) -> None:
        """`place` is the path of a SQLite file, or the URL of a PostgreSQL database, which several services may share.

        There, `service` names this one in its claims, and `claim_seconds` is the life of a claim without renewal.
        """
        self._database = open_database(place)
        self.voices = UploadedVoices(self._database)
        self.usage = UsageTable(self._database)
        self.meter = UsageMeter(self.usage)
        self.ended = Counter[str]()
        """Documents that have ended since the start: `completed`, `failed`, or `refused` for a fault of their own."""
        self.claims = Claims(self._database, service, claim_seconds)
        self.webhooks = pending.PendingWebhooks(self._database, self.claims)

    @property
    def postgres(self) -> PostgresDatabase | None:
        """The database, where several services may share it; None for SQLite, which one has alone."""
        return None if isinstance(self._database, SqliteDatabase) else self._database

    def close(self) -> None:
        """Closes the database; a SQLite file may be opened by another service then."""
        self._database.close()

    def shrink(self) -> None:
        """Gives room that is no longer used back to the disk; PostgreSQL does that by itself. May take seconds."""
        if isinstance(self._database, SqliteDatabase):
            self._database.shrink()

    def shelf(self, new: str | None = None) -> str | None:
        """Token of the directory with the audio; `new` becomes it where there is none yet."""
        return self._database.shelf(new)

    def accept(self, new: NewDocument) -> tuple[Document, bool]:
        """Stores a document; where the same request was accepted before, returns that document and False.

        Raises:
            ConflictError: the idempotency key was used with a different request.
            VoiceNotFoundError: its uploaded voice was deleted meanwhile.
        """
        with self._database.write() as connection:
            while True:
                earlier = queries.earlier(connection, new)
                if earlier is not None:
                    return earlier, False
                hold(connection, new.voice)
                if queries.insert(connection, new):  # else another service has just stored the same request
                    connection.notify("accepted", new.id)
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

    def exists(self, id: str) -> bool:
        """True where the document is in the store."""
        with self._database.read() as connection:
            return connection.execute("SELECT number FROM documents WHERE id = $1", (id,)).fetchone() is not None

    def documents(self, owner: str | None = None, limit: int = 50, before: str | None = None) -> tuple[Document, ...]:
        """Up to `limit` documents, newest first; with `before`, those accepted before that document."""
        with self._database.read() as connection:
            newest = None if before is None else queries.number_of(connection, before, owner)
            return queries.documents(
                connection,
                """
                WHERE (CAST($1 AS TEXT) IS NULL OR owner = $1) AND (CAST($2 AS BIGINT) IS NULL OR number < $2)
                ORDER BY number DESC LIMIT $3
                """,
                (owner, newest, limit),
            )

    def text(self, id: str) -> str:
        """Text of a document; chunks are ranges of it."""
        with self._database.read() as connection:
            number = queries.number_of(connection, id)
            found = connection.execute("SELECT text FROM texts WHERE document = $1", (number,))
            return str(first(found)["text"])

    def spoken(self, id: str) -> dict[int, str]:
        """Spoken words of chunks, by their index, where they are not their text."""
        with self._database.read() as connection:
            number = queries.number_of(connection, id)
            found = connection.execute("SELECT place, text FROM spoken WHERE document = $1", (number,))
            return {row["place"]: row["text"] for row in found}

    def words(self, id: str, chunks: Sequence[StoredChunk]) -> dict[int, str]:
        """What is spoken of chunks, by their index. For a few of them the text is not read whole."""
        if len(chunks) > _FEW:
            text, spoken = self.text(id), self.spoken(id)
            return {each.index: spoken.get(each.index, text[each.start : each.end]) for each in chunks}
        with self._database.read() as connection:
            number = queries.number_of(connection, id)
            return {
                each.index: first(
                    connection.execute(
                        """
                        SELECT coalesce((SELECT text FROM spoken WHERE document = $1 AND place = $2),
                            substr(text, CAST($3 AS INTEGER), CAST($4 AS INTEGER))) AS words
                        FROM texts WHERE document = $1
                        """,
                        (number, each.index, each.start + 1, each.end - each.start),
                    )
                )["words"]
                for each in chunks
            }

    def asked_again(self, id: str) -> tuple[StoredChunk, ...]:
        """Chunks of a document that are to be spoken again, or could not be, in text order."""
        with self._database.read() as connection:
            return redos.of(connection, queries.number_of(connection, id))

    def chunks(self, id: str) -> tuple[StoredChunk, ...]:
        """Chunks of a document in text order."""
        with self._database.read() as connection:
            return queries.chunks(connection, queries.number_of(connection, id))

    def snapshot(self, id: str) -> tuple[Document, tuple[StoredChunk, ...]]:
        """Document and chunks of one moment."""
        with self._database.read() as connection:
            chunks = queries.chunks(connection, queries.number_of(connection, id))
            return queries.find(connection, id), chunks

    def chapters(self, id: str) -> tuple[Chapter, ...]:
        """Chapters of a document in text order; none where it has no headings."""
        with self._database.read() as connection:
            return chapters.read(connection, queries.number_of(connection, id))

    def cover(self, id: str) -> bytes | None:
        """Cover image of a document, JPEG or PNG; None where it has none."""
        with self._database.read() as connection:
            return chapters.read_cover(connection, queries.number_of(connection, id))

    def changed_chunks(self, id: str, since: int) -> tuple[Document, tuple[StoredChunk, ...]]:
        """A document, and its chunks that have changed since its `changes` were this many, in text order."""
        with self._database.read() as connection:
            number = queries.number_of(connection, id)
            return queries.find(connection, id), queries.chunks(
                connection, number, "AND changed > $2 ORDER BY place", (since,)
            )

    def chunks_from(self, id: str, index: int, limit: int) -> tuple[StoredChunk, ...]:
        """Up to `limit` chunks of a document from chunk `index` on, in text order."""
        with self._database.read() as connection:
            number = queries.number_of(connection, id)
            return queries.chunks(connection, number, "AND place >= $2 ORDER BY place LIMIT $3", (index, limit))

    def upload(self, id: str) -> Upload:
        """File of a document whose text is to be extracted. Raises NotFoundError where it has none (any more)."""
        with self._database.read() as connection:
            return queries.read_upload(connection, id)

    def upload_bytes(self) -> int:
        """Bytes of the uploads whose text is not extracted."""
        with self._database.read() as connection:
            found = connection.execute("SELECT CAST(coalesce(sum(upload_bytes), 0) AS BIGINT) AS bytes FROM documents")
            return int(first(found)["bytes"])

    def extracted(self, id: str, new: NewDocument) -> None:
        """Stores the text and the chunks of a document in place of its upload."""
        with self._progress(id) as (connection, number):
            if queries.end_extraction(connection, number, new):
                connection.execute("UPDATE texts SET text = $1 WHERE document = $2", (new.text, number))
                queries.insert_chunks(connection, number, new)

    def unfinished(self) -> tuple[Document, ...]:
        """Documents that are neither completed nor failed, oldest first."""
        with self._database.read() as connection:
            return queries.documents(connection, "WHERE state IN ('pending', 'processing') ORDER BY number")

    def queue_loads(self) -> dict[str, QueueLoad]:
        """Backlog of unfinished documents by owner."""
        with self._database.read() as connection:
            found = connection.execute(
                """
                SELECT owner, count(*) AS documents, coalesce(sum(chunks - chunks_done), 0) AS chunks,
                    coalesce(sum(waiting_seconds), 0.0) AS seconds
                FROM documents WHERE state IN ('pending', 'processing') GROUP BY owner
                """
            )
            return {row["owner"]: QueueLoad(row["documents"], int(row["chunks"]), row["seconds"]) for row in found}

    def audio_bytes(self) -> int:
        """Bytes of the audio of all documents, without pauses."""
        with self._database.read() as connection:
            found = connection.execute("SELECT CAST(coalesce(sum(samples), 0) AS BIGINT) AS samples FROM documents")
            return int(first(found)["samples"]) * WIDTH

    def counts(self) -> dict[State, int]:
        """Number of documents in each state."""
        counts: dict[State, int] = {"pending": 0, "processing": 0, "completed": 0, "failed": 0}
        with self._database.read() as connection:
            for row in connection.execute("SELECT state, count(*) AS documents FROM documents GROUP BY state"):
                counts[row["state"]] = row["documents"]
        return counts

    def started(self, id: str, when: float) -> None:
        """Marks a document as processing, and no longer parked."""
        with self._progress(id) as (connection, number):
            connection.execute(
                """
                UPDATE documents SET state = 'processing', started = coalesce(started, $1), parked = NULL
                WHERE number = $2 AND state IN ('pending', 'processing')
                """,
                (when, number),
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
        with self._progress(id) as (connection, number):
            state = "silenced" if silenced else "spoken"
            if queries.end_chunk(connection, number, index, state, samples, reason):
                connection.execute(
                    "UPDATE documents SET samples = samples + $1, reduced = reduced OR $2 WHERE number = $3",
                    (samples, reduced, number),
                )
                if not silenced:
                    self._charge(connection, number, index, samples)

    def chunk_failed(self, id: str, index: int, reason: str) -> None:
        """Marks a waiting chunk as failed."""
        with self._progress(id) as (connection, number):
            if queries.end_chunk(connection, number, index, "failed", None, reason):
                connection.execute(
                    "UPDATE documents SET chunks_failed = chunks_failed + 1 WHERE number = $1", (number,)
                )

    def reset_chunks(self, id: str, indices: Iterable[int]) -> None:
        """Resets chunks whose audio is lost to waiting."""
        with self._progress(id) as (connection, number):
            connection.executemany(
                """
                UPDATE chunks SET state = 'waiting', samples = NULL, reason = NULL,
                    changed = (SELECT changes + 1 FROM documents WHERE number = $1)
                WHERE document = $1 AND place = $2
                """,
                ((number, index) for index in indices),
            )
            queries.recount(connection, number)

    def redo(self, id: str, index: int, voice: str | None, seed: int | None) -> None:
        """Stores that a chunk of a completed document is to be spoken again. Raises as `redos.request`."""
        with self._database.write() as connection:
            redos.request(connection, id, index, voice, seed)

    def redos(self, id: str) -> dict[int, Redo]:
        """Chunks of a document that are to be spoken again, or could not be, by their index."""
        return {each.index: each.redo for each in self.asked_again(id) if each.redo is not None}

    def redo_ended(self, id: str, index: int, redo: Redo, samples: int | None, reason: str | None) -> None:
        """Stores that a chunk was spoken again, or why not; without both it waits again, as its audio is lost."""
        with self._progress(id) as (connection, number):
            if redos.end(connection, number, index, redo, samples, reason) and samples is not None:
                self._charge(connection, number, index, samples)

    def redone(self, id: str, found: Mapping[int, Redo]) -> None:
        """Gives chunks the audio that they have in the file of this service's claim, which ends."""
        with self._progress(id) as (connection, number):
            if found:
                redos.finish(connection, number, found)
            self.claims.end(connection, number)

    def completed(self, id: str, when: float) -> None:
        """Marks a document as completed; its webhook is due."""
        self._end(id, "completed", when, None, "document.completed")

    def failed(self, id: str, when: float, reason: str, code: str | None = None) -> None:
        """Marks a document as failed, with the code of the error; its webhook is due.

        A completed one stays so, and keeps its audio: what is to be spoken again of it fails.
        """
        self._end(id, "failed", when, reason, "document.failed", code)

    def parked(self, id: str, reason: str | None) -> None:
        """Stores the reason why a document is parked; None where it resumes."""
        with self._progress(id) as (connection, number):
            connection.execute(
                """
                UPDATE documents SET parked = $1 WHERE number = $2 AND state IN ('pending', 'processing')
                """,
                (reason, number),
            )

    def retry(self, id: str) -> Document:
        """Resets a failed document to pending and its failed chunks to waiting.

        Raises:
            ConflictError: the document has not failed.
        """
        with self._database.write() as connection:
            number = queries.number_of(connection, id)
            changed = connection.execute(
                """
                UPDATE documents SET state = 'pending', finished = NULL, reason = NULL, code = NULL, parked = NULL
                WHERE number = $1 AND state = 'failed'
                """,
                (number,),
            ).rowcount
            if not changed:
                state = queries.find(connection, id).state
                raise ConflictError(f"document {id} is {state}: only a failed document can be retried")
            connection.execute(
                """
                UPDATE chunks SET state = 'waiting', reason = NULL,
                    changed = (SELECT changes + 1 FROM documents WHERE number = $1)
                WHERE document = $1 AND state = 'failed'
                """,
                (number,),
            )
            connection.execute("DELETE FROM hooks WHERE document = $1", (number,))
            queries.recount(connection, number)
            connection.notify("accepted", id)
            return queries.find(connection, id)

    def heard(self, id: str, heard: bool) -> None:
        """Tells the other services whether a document has listeners at this one."""
        self._database.notify("heard" if heard else "unheard", id)

    def delete(self, id: str) -> None:
        """Deletes a document with its text, chunks and webhook."""
        with self._database.delete() as connection:
            connection.execute("DELETE FROM documents WHERE number = $1", (queries.number_of(connection, id),))
            connection.notify("deleted", id)

    def expired(self, before: float) -> tuple[str, ...]:
        """Ids of documents finished before this time."""
        with self._database.read() as connection:
            found = connection.execute(
                """
                SELECT id FROM documents WHERE state IN ('completed', 'failed') AND finished < $1 ORDER BY number
                """,
                (before,),
            )
            return tuple(row["id"] for row in found)

    def _end(
        self, id: str, state: State, when: float, reason: str | None, event: pending.HookEvent, code: str | None = None
    ) -> None:
        with self._progress(id) as (connection, number):
            changed = connection.execute(
                """
                UPDATE documents SET state = $1, finished = $2, reason = $3, code = $4, parked = NULL
                WHERE number = $5 AND state IN ('pending', 'processing')
                """,
                (state, when, reason, code, number),
            ).rowcount
            if changed:
                pending.add(connection, number, event, when)
            elif state == "failed" and reason is not None:
                redos.fail(connection, number, reason)
            self.claims.end(connection, number)
        if changed:
            self.ended["refused" if code else state] += 1

    def _charge(self, connection: Connection, number: int, index: int, samples: int) -> None:
        """Counts a chunk that is stored as spoken, in the same transaction: once, whenever the service is killed."""
        row = first(
            connection.execute(
                """
                SELECT owner, last - first AS characters FROM chunks JOIN documents ON number = document
                WHERE document = $1 AND place = $2
                """,
                (number, index),
            )
        )
        amounts = Amounts(row["characters"], samples / SAMPLE_RATE)
        self.usage.add_within(connection, {(self.meter.today(), row["owner"]): amounts})

    @contextmanager
    def _progress(self, id: str) -> Iterator[tuple[Connection, int]]:
        """Write transaction on the progress of a document, with its row number; only its owner gets one.

        What the keys have used otherwise until now is stored with it.
        """
        with self.meter.taken() as used, self._database.write() as connection:
            yield connection, self.claims.number_of(connection, id)
            self.usage.add_within(connection, used)
            connection.notify("changed", id)


def open_database(place: Path | str) -> SqliteDatabase | PostgresDatabase:
    """SQLite for a path, PostgreSQL for a URL. Raises StoreError."""
    if isinstance(place, Path):
        return SqliteDatabase(place)
    try:
        from voxyard.service.documents.postgres import PostgresDatabase
    except ImportError as error:
        raise StoreError(
            f"--store names a PostgreSQL database, and {error.name} is not installed: pip install 'voxyard[postgres]'"
        ) from error
    return PostgresDatabase(place)
