"""Insertion of documents, with their texts, uploads, chunks and chapters."""

from __future__ import annotations

import json

from voxyard.service.audiobook import chapters
from voxyard.service.documents import queries
from voxyard.service.documents.records import NewDocument
from voxyard.service.documents.sql import Connection
from voxyard.service.voices.table import hold


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
            *((None, 0) if new.upload is None else (queries.EXTRACTING, len(new.upload.content))),
            *(new.author, new.note),
        ),
    ).rowcount
    if not inserted:
        return False
    number = queries.number_of(connection, new.id)
    connection.execute("INSERT INTO texts (document, text) VALUES ($1, $2)", (number, new.text))
    if (upload := new.upload) is not None:
        connection.execute(
            """
            INSERT INTO uploads (document, name, media_type, titled, content, read, lexicon, cast_members)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            """,
            (
                *(number, upload.name, upload.media_type, upload.titled, upload.content, upload.read),
                queries.lexicons_text(upload.lexicons),
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
