"""Schema of the store, and its migrations: PostgreSQL's, from which SQLite's follows by its names of the types."""

from __future__ import annotations

import re

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE documents (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            owner TEXT NOT NULL,
            title TEXT NOT NULL,
            author TEXT,
            note TEXT,
            state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'processing', 'completed', 'failed')),
            phase TEXT,
            created DOUBLE PRECISION NOT NULL,
            started DOUBLE PRECISION,
            finished DOUBLE PRECISION,
            voice TEXT,
            seed BIGINT NOT NULL,
            language TEXT,
            on_failure TEXT NOT NULL CHECK (on_failure IN ('fail', 'silence')),
            characters INTEGER NOT NULL,
            chunks INTEGER NOT NULL,
            chunks_done INTEGER NOT NULL DEFAULT 0,
            chunks_failed INTEGER NOT NULL DEFAULT 0,
            samples BIGINT NOT NULL DEFAULT 0,
            estimated_seconds DOUBLE PRECISION NOT NULL,
            waiting_seconds DOUBLE PRECISION NOT NULL,
            upload_bytes BIGINT NOT NULL DEFAULT 0,
            reason TEXT,
            code TEXT,
            parked TEXT,
            reduced BOOLEAN NOT NULL DEFAULT FALSE,
            webhook TEXT,
            idempotency_key TEXT,
            fingerprint TEXT NOT NULL,
            revision INTEGER NOT NULL DEFAULT 0,
            audio BIGINT NOT NULL DEFAULT 0,
            redos INTEGER NOT NULL DEFAULT 0,
            changes BIGINT NOT NULL DEFAULT 0,
            resets BIGINT NOT NULL DEFAULT 0,
            claimed_by TEXT,
            claim BIGINT NOT NULL DEFAULT 0,
            claim_until TIMESTAMPTZ
        )
        """,
        "CREATE INDEX documents_state ON documents (state, number)",
        "CREATE INDEX documents_owner ON documents (owner, number)",
        "CREATE INDEX documents_voice ON documents (voice)",
        "CREATE INDEX documents_redos ON documents (number) WHERE redos > 0",
        """
        CREATE UNIQUE INDEX documents_idempotency ON documents (owner, idempotency_key)
        WHERE idempotency_key IS NOT NULL
        """,
        """
        CREATE TABLE texts (
            document BIGINT PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE,
            text TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE uploads (
            document BIGINT PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE,
            name TEXT NOT NULL,
            media_type TEXT NOT NULL,
            titled BOOLEAN NOT NULL,
            content BYTEA NOT NULL,
            read TEXT,
            lexicon TEXT
        )
        """,
        """
        CREATE TABLE chunks (
            document BIGINT NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            ending TEXT NOT NULL CHECK (ending IN ('clause', 'sentence', 'paragraph', 'chapter')),
            pause DOUBLE PRECISION,
            estimated_seconds DOUBLE PRECISION NOT NULL,
            state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'spoken', 'silenced', 'failed')),
            samples INTEGER,
            reason TEXT,
            voice TEXT,
            seed BIGINT,
            changed BIGINT NOT NULL DEFAULT 0,
            redo_seed BIGINT,
            redo_voice TEXT,
            redo_samples INTEGER,
            redo_claim BIGINT,
            redo_reason TEXT,
            PRIMARY KEY (document, place)
        )
        """,
        "CREATE INDEX chunks_changed ON chunks (document, changed)",
        "CREATE INDEX chunks_voice ON chunks (voice) WHERE voice IS NOT NULL",
        "CREATE INDEX chunks_redo ON chunks (document, place) WHERE redo_seed IS NOT NULL",
        "CREATE INDEX chunks_redo_voice ON chunks (redo_voice) WHERE redo_voice IS NOT NULL",
        """
        CREATE TABLE spoken (
            document BIGINT NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (document, place)
        )
        """,
        """
        CREATE TABLE chapters (
            document BIGINT NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            title TEXT NOT NULL,
            level INTEGER NOT NULL,
            first INTEGER NOT NULL,
            PRIMARY KEY (document, place)
        )
        """,
        """
        CREATE TABLE covers (
            document BIGINT PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE,
            image BYTEA NOT NULL
        )
        """,
        """
        CREATE TABLE hooks (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            document BIGINT NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            event TEXT NOT NULL,
            tries INTEGER NOT NULL DEFAULT 0,
            next_try DOUBLE PRECISION NOT NULL,
            error TEXT,
            taken_until TIMESTAMPTZ
        )
        """,
        "CREATE INDEX hooks_next_try ON hooks (next_try)",
        "CREATE INDEX hooks_document ON hooks (document)",
        """
        CREATE TABLE voices (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            owner TEXT NOT NULL,
            name TEXT NOT NULL,
            description TEXT,
            language TEXT,
            mixed TEXT,
            created DOUBLE PRECISION NOT NULL,
            deleted INTEGER NOT NULL DEFAULT 0,
            content BYTEA NOT NULL
        )
        """,
        "CREATE UNIQUE INDEX voices_name ON voices (owner, name) WHERE deleted = 0",
    ),
    (
        "ALTER TABLE chunks ADD COLUMN speaker TEXT",
        "ALTER TABLE uploads ADD COLUMN cast_members TEXT",
    ),
    (
        """
        CREATE TABLE usage (
            day TEXT NOT NULL,
            owner TEXT NOT NULL,
            characters BIGINT NOT NULL,
            audio_seconds DOUBLE PRECISION NOT NULL,
            gpu_seconds DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (day, owner)
        )
        """,
    ),
)
"""Step n migrates version n to n + 1; a released step is never changed, only followed by another.

While services are changed one by one, those of the release before go on: a step leaves what they read and write.
"""
_SQLITE = {
    "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "BIGINT": "INTEGER",
    "BOOLEAN": "INTEGER",
    "BYTEA": "BLOB",
    "DOUBLE PRECISION": "REAL",
    "TIMESTAMPTZ": "REAL",
}
_TYPES = re.compile("|".join(_SQLITE))  # the longest of those that begin alike comes first


def of_sqlite(statement: str) -> str:
    """Statement of a migration as SQLite has it."""
    return _TYPES.sub(lambda found: _SQLITE[found[0]], statement)
