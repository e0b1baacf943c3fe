"""Queries that several methods of the store share, and the conversion of rows to records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple

from voxyard.service.audiobook import chapters
from voxyard.service.documents.database import Connection, Result, Row, first
from voxyard.service.documents.records import Document, NewDocument, Redo, StoredChunk, Upload
from voxyard.service.errors import ConflictError, NotFoundError
from voxyard.service.voices.table import hold
from voxyard.speech.reading.lexicon import Lexicon, LexiconEntry
from voxyard.speech.requests import SAMPLE_RATE

EXTRACTING = "extracting"
"""Phase of a document whose text is still to be extracted from its upload."""
_DOCUMENTS = """
    SELECT id, owner, title, author, note, state, phase, created, started, finished, voice, seed, language, on_failure,
        characters, chunks, chunks_done, chunks_failed, samples, estimated_seconds, reason, code, parked, reduced,
        webhook, fingerprint, revision, audio, redos, changes, resets
    FROM documents"""
_CHUNKS = """
    SELECT place, first, last, ending, pause, estimated_seconds, state, samples, reason, voice, seed, speaker,
        redo_seed, redo_voice, redo_samples, redo_claim, redo_reason
    FROM chunks WHERE document = $1"""
"""Columns by name: a service whose database another release has given further ones does not notice it."""


def number_of(connection: Connection, id: str, owner: str | None = None) -> int:
    """Row number of a document; with `owner`, only where it is that client's. Raises NotFoundError."""
    row = connection.execute(
        "SELECT number FROM documents WHERE id = $1 AND (CAST($2 AS TEXT) IS NULL OR owner = $2)", (id, owner)
    ).fetchone()
    if row is None:
        raise NotFoundError(f"no document {id}: it was never accepted, or it was deleted")
    return int(row["number"])


def find(connection: Connection, id: str, owner: str | None = None) -> Document:
    """Document of this id. Raises NotFoundError."""
    number = number_of(connection, id, owner)
    return read(first(_documents(connection, "WHERE number = $1", (number,))))


def documents(connection: Connection, which: str, parameters: Sequence[object] = ()) -> tuple[Document, ...]:
    """Documents of the end of a statement, from its WHERE on."""
    return tuple(map(read, _documents(connection, which, parameters)))


def chunks(
    connection: Connection, number: int, which: str = "ORDER BY place", parameters: Sequence[object] = ()
) -> tuple[StoredChunk, ...]:
    """Chunks of a document; `which` is the end of the statement, whose parameters are $2 and so on."""
    statement = f"{_CHUNKS} {which}"
    return tuple(map(read_chunk, connection.execute(statement, (number, *parameters))))


def _documents(connection: Connection, which: str, parameters: Sequence[object]) -> Result:
    statement = f"{_DOCUMENTS} {which}"
    return connection.execute(statement, parameters)


def earlier(connection: Connection, new: NewDocument) -> Document | None:
    """Document with the same idempotency key. Raises ConflictError where its request was different."""
    if new.idempotency_key is None:
        return None
    rows = _documents(connection, "WHERE owner = $1 AND idempotency_key = $2", (new.owner, new.idempotency_key))
    row = rows.fetchone()
    if row is None:
        return None
    if row["fingerprint"] != new.fingerprint:
        raise ConflictError(
            f"idempotency key {new.idempotency_key!r} was used with a different request: repeat that "
            "request, or use a new key"
        )
    return read(row)


def end_chunk(
    connection: Connection, number: int, index: int, state: str, samples: int | None, reason: str | None
) -> bool:
    """Ends a waiting chunk; False where it had ended before."""
    changed = connection.execute(
        """
        UPDATE chunks SET state = $1, samples = $2, reason = $3,
            changed = (SELECT changes + 1 FROM documents WHERE number = $4)
        WHERE document = $4 AND place = $5 AND state = 'waiting'
        """,
        (state, samples, reason, number, index),
    ).rowcount
    if not changed:
        return False
    connection.execute(
        """
        UPDATE documents SET changes = changes + 1, chunks_done = chunks_done + 1, waiting_seconds = (
            SELECT CASE WHEN documents.waiting_seconds > chunks.estimated_seconds
                THEN documents.waiting_seconds - chunks.estimated_seconds ELSE 0.0 END
            FROM chunks WHERE document = $1 AND place = $2)
        WHERE number = $1
        """,
        (number, index),
    )
    return True


def end_extraction(connection: Connection, number: int, new: NewDocument) -> bool:
    """Gives a document that is being extracted its totals, and deletes its upload; False where it is not any more."""
    seconds = sum(chunk.estimated_seconds for chunk in new.chunks)
    changed = connection.execute(
        """
        UPDATE documents SET phase = NULL, upload_bytes = 0, title = $1, voice = $2, language = $3, characters = $4,
            chunks = $5, estimated_seconds = $6, waiting_seconds = $6, changes = changes + 1, resets = resets + 1,
            author = $7, note = $8
        WHERE number = $9 AND phase = $10
        """,
        (
            *(new.title, new.voice, new.language, len(new.text), len(new.chunks), seconds, new.author),
            *(new.note, number, EXTRACTING),
        ),
    ).rowcount
    connection.execute("DELETE FROM uploads WHERE document = $1", (number,))
    return bool(changed)


def read_upload(connection: Connection, id: str) -> Upload:
    """File of a document. Raises NotFoundError where it has none (any more)."""
    number = number_of(connection, id)
    row = connection.execute(
        "SELECT name, media_type, titled, content, read, lexicon, cast_members FROM uploads WHERE document = $1",
        (number,),
    ).fetchone()
    if row is None:
        raise NotFoundError(f"document {id} has no upload: its text is extracted")
    return Upload(
        row["name"],
        row["media_type"],
        bool(row["titled"]),
        bytes(row["content"]),
        row["read"],
        _lexicons(row["lexicon"]),
        json.loads(row["cast_members"] or "{}"),
    )


def lexicons_text(lexicons: Sequence[Lexicon]) -> str | None:
    """Lexicons as the database has them: JSON, a list of entries for each; None for none."""
    return json.dumps([[astuple(entry) for entry in each.entries] for each in lexicons]) if lexicons else None


def _lexicons(text: str | None) -> tuple[Lexicon, ...]:
    found = json.loads(text or "[]")
    if isinstance(found, dict):  # the words of a request, of services before keys had lexicons
        found = [list(found.items())]
    return tuple(Lexicon(tuple(LexiconEntry(*entry) for entry in entries)) for entries in found)


def recount(connection: Connection, number: int) -> None:
    """Recomputes the document's totals from its chunks, some of which have been reset to waiting."""
    connection.execute(
        """
        UPDATE documents SET (chunks_done, chunks_failed, samples, waiting_seconds) = (
            SELECT count(*) FILTER (WHERE state <> 'waiting'), count(*) FILTER (WHERE state = 'failed'),
                coalesce(sum(samples), 0), coalesce(sum(estimated_seconds) FILTER (WHERE state = 'waiting'), 0.0)
            FROM chunks WHERE document = $1), changes = changes + 1, resets = resets + 1
        WHERE number = $1
        """,
        (number,),
    )


def read(row: Row) -> Document:
    """Document of a row."""
    return Document(
        id=row["id"],
        owner=row["owner"],
        title=row["title"],
        state=row["state"],
        created=row["created"],
        started=row["started"],
        finished=row["finished"],
        voice=row["voice"],
        seed=row["seed"],
        language=row["language"],
        on_failure=row["on_failure"],
        characters=row["characters"],
        chunks=row["chunks"],
        chunks_done=row["chunks_done"],
        chunks_failed=row["chunks_failed"],
        audio_seconds=row["samples"] / SAMPLE_RATE,
        estimated_seconds=row["estimated_seconds"],
        reason=row["reason"],
        parked=row["parked"],
        reduced=bool(row["reduced"]),
        webhook=row["webhook"],
        revision=row["revision"],
        audio=row["audio"],
        redos=row["redos"],
        changes=row["changes"],
        resets=row["resets"],
        extracting=row["phase"] == EXTRACTING,
        code=row["code"],
        author=row["author"],
        note=row["note"],
    )


def read_chunk(row: Row) -> StoredChunk:
    """Chunk of a row."""
    return StoredChunk(
        index=row["place"],
        start=row["first"],
        end=row["last"],
        ending=row["ending"],
        pause=row["pause"],
        estimated_seconds=row["estimated_seconds"],
        state=row["state"],
        samples=row["samples"],
        reason=row["reason"],
        voice=row["voice"],
        seed=row["seed"],
        redo=read_redo(row),
        speaker=row["speaker"],
    )


def read_redo(row: Row) -> Redo | None:
    """Wish to have the chunk of a row spoken again."""
    if row["redo_seed"] is None:
        return None
    return Redo(row["redo_seed"], row["redo_voice"], row["redo_samples"], row["redo_claim"], row["redo_reason"])


def insert(connection: Connection, new: NewDocument) -> bool:
    """Stores a document; False where a document with its idempotency key was stored meanwhile."""
    seconds = sum(chunk.estimated_seconds for chunk in new.chunks)
    inserted = connection.execute(
        """
        INSERT INTO documents (id, owner, title, created, voice, seed, language, on_failure, characters,
            chunks, estimated_seconds, waiting_seconds, webhook, idempotency_key, fingerprint, phase, upload_bytes,
            author, note)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
        ON CONFLICT (owner, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        """,
        (
            *(new.id, new.owner, new.title, new.created, new.voice, new.seed, new.language, new.on_failure),
            *(len(new.text), len(new.chunks), seconds, seconds),
            *(new.webhook, new.idempotency_key, new.fingerprint),
            *((None, 0) if new.upload is None else (EXTRACTING, len(new.upload.content))),
            *(new.author, new.note),
        ),
    ).rowcount
    if not inserted:
        return False
    number = number_of(connection, new.id)
    connection.execute("INSERT INTO texts (document, text) VALUES ($1, $2)", (number, new.text))
    if (upload := new.upload) is not None:
        connection.execute(
            """
            INSERT INTO uploads (document, name, media_type, titled, content, read, lexicon, cast_members)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            """,
            (
                *(number, upload.name, upload.media_type, upload.titled, upload.content, upload.read),
                lexicons_text(upload.lexicons),
                json.dumps(dict(upload.cast)) if upload.cast else None,
            ),
        )
    insert_chunks(connection, number, new)
    return True


def insert_chunks(connection: Connection, number: int, new: NewDocument) -> None:
    """Stores the chunks of a document, what is spoken for them, and its chapters.

    Raises:
        VoiceNotFoundError: an uploaded voice of a chunk was deleted meanwhile.
    """
    for voice in sorted({each.voice for each in new.chunks if each.voice is not None}):
        hold(connection, voice)
    connection.executemany(
        """
        INSERT INTO chunks (document, place, first, last, ending, estimated_seconds, pause, voice, speaker)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        """,
        (
            (
                *(number, each.index, each.start, each.end, each.ending, each.estimated_seconds, each.pause),
                *(each.voice, each.speaker),
            )
            for each in new.chunks
        ),
    )
    connection.executemany(
        "INSERT INTO spoken (document, place, text) VALUES ($1, $2, $3)",
        ((number, each.index, each.spoken) for each in new.chunks if each.spoken is not None),
    )
    chapters.insert(connection, number, new.chapters, new.cover)
