"""Uploaded voices: their table, in SQLite or PostgreSQL, and their names in documents and requests."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from voxyard.service.documents.database import Connection, Database, Row, first
from voxyard.service.errors import ConflictError, NotFoundError
from voxyard.speech.frontend import Frontend
from voxyard.speech.requests import Request

_MARK = "#"  # between the name and the number of an uploaded voice; in no name of a client or an engine


class VoiceNotFoundError(NotFoundError):
    """No voice of this name."""

    code = "voice_not_found"


@dataclass(frozen=True)
class NewVoice:
    """Voice to store; `content` is the file for the workers."""

    name: str
    content: bytes
    description: str | None = None
    language: str | None = None
    mixed: Mapping[str, str] | None = None  # the voices that it was made of, by their part


@dataclass(frozen=True)
class StoredVoice:
    """Voice of a key. Documents and requests name it by its id, which another voice of the same name does not get."""

    id: str
    name: str
    description: str | None
    language: str | None
    mixed: Mapping[str, str] | None
    created: float


def is_uploaded(voice: str | None) -> bool:
    """True where this is the id of an uploaded voice, and not an engine's name."""
    return voice is not None and _MARK in voice


def shown_name(voice: str | None) -> str | None:
    """Name of a voice for clients."""
    return None if voice is None else voice.partition(_MARK)[0]


class FrontendWithUploads:
    """The engine's front end that knows the ids of uploaded voices, too; these are no names for clients."""

    def __init__(self, engine: Frontend, uploaded: UploadedVoices) -> None:
        self._engine, self._uploaded = engine, uploaded
        self.engine, self.max_tokens, self.max_seconds = engine.engine, engine.max_tokens, engine.max_seconds
        self.speeds, self.notes, self.voice_files = engine.speeds, engine.notes, engine.voice_files
        self.count_tokens, self.voices, self.has_voice = engine.count_tokens, engine.voices, engine.has_voice
        self.default_voice, self.refusal, self.describe = engine.default_voice, engine.refusal, engine.describe

    def check_voice(self, name: str) -> None:
        """Checks that there is such a voice. Raises VoiceNotFoundError for an id, as the engine for a name."""
        if is_uploaded(name):
            self._uploaded.language(name)
        else:
            self._engine.check_voice(name)

    def language(self, voice: str | None) -> str | None:
        """Language of a voice, as its owner or the engine has it."""
        if voice is not None and is_uploaded(voice):
            return self._uploaded.language(voice)
        return self._engine.language(voice)


class UploadedVoices:
    """Uploaded voices. Its methods raise as those of the store, and may be called from any thread.

    A deleted voice stays, without a name, for as long as a document is spoken with it, and counts for its key.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, owner: str, new: NewVoice, now: float, most: int) -> StoredVoice:
        """Stores a voice of a key that has fewer than `most`.

        Raises:
            ConflictError: the key has a voice of this name, or too many.
        """
        id = f"{new.name}{_MARK}{secrets.token_hex(8)}"
        with self._database.write() as connection:
            _sweep(connection)
            found = first(
                connection.execute(
                    "SELECT count(*) AS found, coalesce(sum(deleted), 0) AS deleted FROM voices WHERE owner = $1",
                    (owner,),
                )
            )
            if found["found"] >= most:
                kept = f", {int(found['deleted'])} of them deleted but in documents" if found["deleted"] else ""
                raise ConflictError(
                    f"{found['found']} of {most} uploaded voices{kept}: delete one, or documents spoken with one"
                )
            inserted = connection.execute(
                """
                INSERT INTO voices (id, owner, name, description, language, mixed, created, content)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (owner, name) WHERE deleted = 0 DO NOTHING
                """,
                (
                    *(id, owner, new.name, new.description, new.language),
                    *(None if new.mixed is None else json.dumps(dict(new.mixed)), now, new.content),
                ),
            ).rowcount
            if not inserted:
                raise ConflictError(
                    f"there is a voice {new.name!r} already: delete it, or choose another name", parameter="name"
                )
        return StoredVoice(id, new.name, new.description, new.language, new.mixed, now)

    def of(self, owner: str) -> tuple[StoredVoice, ...]:
        """Voices of a key, by name."""
        with self._database.read() as connection:
            found = connection.execute(
                """
                SELECT id, name, description, language, mixed, created FROM voices
                WHERE owner = $1 AND deleted = 0 ORDER BY name
                """,
                (owner,),
            )
            return tuple(_read(row) for row in found)

    def find(self, owner: str, name: str) -> StoredVoice | None:
        """Voice of a key; None where it has none of this name."""
        with self._database.read() as connection:
            row = connection.execute(
                """
                SELECT id, name, description, language, mixed, created FROM voices
                WHERE owner = $1 AND name = $2 AND deleted = 0
                """,
                (owner, name),
            ).fetchone()
            return None if row is None else _read(row)

    def delete(self, owner: str, name: str) -> None:
        """Deletes a voice of a key; documents with it keep it. Raises VoiceNotFoundError."""
        with self._database.delete() as connection:
            deleted = connection.execute(
                "UPDATE voices SET deleted = 1 WHERE owner = $1 AND name = $2 AND deleted = 0", (owner, name)
            ).rowcount
            if not deleted:
                raise VoiceNotFoundError(
                    f"no uploaded voice {name[:100]!r}: GET /v1/audio/voices lists those of this key", parameter="name"
                )
            _sweep(connection)

    def sweep(self) -> None:
        """Removes the deleted voices that no document is spoken with any more."""
        with self._database.delete() as connection:
            _sweep(connection)

    def content(self, id: str) -> bytes:
        """File of a voice for the workers. Raises VoiceNotFoundError."""
        with self._database.read() as connection:
            row = connection.execute("SELECT content FROM voices WHERE id = $1", (id,)).fetchone()
            if row is None:
                raise _gone(id)
            return bytes(row["content"])

    def language(self, id: str) -> str | None:
        """Language of a voice, as its owner has it. Raises VoiceNotFoundError."""
        with self._database.read() as connection:
            row = connection.execute("SELECT language FROM voices WHERE id = $1", (id,)).fetchone()
            if row is None:
                raise _gone(id)
            return None if row["language"] is None else str(row["language"])

    def attach(self, requests: Sequence[Request]) -> list[Request]:
        """The requests, those in uploaded voices with the file. Raises VoiceNotFoundError."""
        files = {each.voice: self.content(each.voice) for each in requests if each.voice and is_uploaded(each.voice)}
        return [replace(each, voice_file=files[each.voice]) if each.voice in files else each for each in requests]


def hold(connection: Connection, voice: str | None) -> None:
    """Keeps an uploaded voice to the end of the transaction, which stores a document that is spoken with it.

    Raises:
        VoiceNotFoundError: it was deleted meanwhile.
    """
    if voice is None or not is_uploaded(voice):
        return
    if not connection.execute("UPDATE voices SET deleted = deleted WHERE id = $1", (voice,)).rowcount:
        raise _gone(voice)


def _gone(id: str) -> VoiceNotFoundError:
    return VoiceNotFoundError(f"the voice {shown_name(id)!r} was deleted: choose another", parameter="voice")


def _sweep(connection: Connection) -> None:
    """Removes deleted voices without documents, each once nobody holds it; in the order of their ids: no deadlock."""
    found = connection.execute("SELECT id FROM voices WHERE deleted = 1 ORDER BY id").fetchall()
    for id in [row["id"] for row in found]:
        connection.execute("UPDATE voices SET deleted = deleted WHERE id = $1", (id,))
        connection.execute(
            """
            DELETE FROM voices WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM documents WHERE voice = $1)
            AND NOT EXISTS (SELECT 1 FROM chunks WHERE voice = $1)
            AND NOT EXISTS (SELECT 1 FROM chunks WHERE redo_voice = $1)
            """,
            (id,),
        )


def _read(row: Row) -> StoredVoice:
    mixed = None if row["mixed"] is None else json.loads(row["mixed"])
    return StoredVoice(row["id"], row["name"], row["description"], row["language"], mixed, row["created"])
