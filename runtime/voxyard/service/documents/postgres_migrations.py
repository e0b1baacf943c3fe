"""Schema migrations of the store in PostgreSQL, from an empty schema to the current version."""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE documents (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            owner TEXT NOT NULL,
            title TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'processing', 'completed', 'failed')),
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
            reason TEXT,
            parked TEXT,
            reduced BOOLEAN NOT NULL DEFAULT FALSE,
            webhook TEXT,
            idempotency_key TEXT,
            fingerprint TEXT NOT NULL
        )
        """,
        "CREATE INDEX documents_state ON documents (state, number)",
        "CREATE INDEX documents_owner ON documents (owner, number)",
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
        CREATE TABLE chunks (
            document BIGINT NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            ending TEXT NOT NULL CHECK (ending IN ('clause', 'sentence', 'paragraph')),
            estimated_seconds DOUBLE PRECISION NOT NULL,
            state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'spoken', 'silenced', 'failed')),
            samples INTEGER,
            reason TEXT,
            PRIMARY KEY (document, place)
        )
        """,
        """
        CREATE TABLE hooks (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            document BIGINT NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            event TEXT NOT NULL,
            tries INTEGER NOT NULL DEFAULT 0,
            next_try DOUBLE PRECISION NOT NULL,
            error TEXT
        )
        """,
        "CREATE INDEX hooks_next_try ON hooks (next_try)",
        "CREATE INDEX hooks_document ON hooks (document)",
    ),
    (
        """
        ALTER TABLE documents ADD COLUMN claimed_by TEXT, ADD COLUMN claim BIGINT NOT NULL DEFAULT 0,
            ADD COLUMN claim_until TIMESTAMPTZ
        """,
    ),
    ("ALTER TABLE hooks ADD COLUMN taken_until TIMESTAMPTZ",),
    (
        "ALTER TABLE documents ADD COLUMN revision INTEGER NOT NULL DEFAULT 0",
        """
        ALTER TABLE chunks ADD COLUMN voice TEXT, ADD COLUMN seed BIGINT, DROP CONSTRAINT chunks_ending_check,
            ADD CONSTRAINT chunks_ending_check CHECK (ending IN ('clause', 'sentence', 'paragraph', 'chapter'))
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
        CREATE TABLE redos (
            document BIGINT NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            voice TEXT,
            seed BIGINT NOT NULL,
            reason TEXT,
            taken_until DOUBLE PRECISION NOT NULL DEFAULT 0,
            PRIMARY KEY (document, place)
        )
        """,
    ),
    (
        """
        ALTER TABLE documents ADD COLUMN changes BIGINT NOT NULL DEFAULT 0,
            ADD COLUMN resets BIGINT NOT NULL DEFAULT 0, ADD COLUMN phase TEXT, ADD COLUMN code TEXT,
            ADD COLUMN upload_bytes BIGINT NOT NULL DEFAULT 0
        """,
        "ALTER TABLE chunks ADD COLUMN changed BIGINT NOT NULL DEFAULT 0",
        "CREATE INDEX chunks_changed ON chunks (document, changed)",
        """
        CREATE TABLE uploads (
            document BIGINT PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE,
            name TEXT NOT NULL,
            media_type TEXT NOT NULL,
            titled BOOLEAN NOT NULL,
            content BYTEA NOT NULL
        )
        """,
    ),
    (
        "ALTER TABLE chunks ADD COLUMN pause DOUBLE PRECISION",
        """
        CREATE TABLE spoken (
            document BIGINT NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (document, place)
        )
        """,
    ),
    ("ALTER TABLE uploads ADD COLUMN read TEXT, ADD COLUMN lexicon TEXT",),
    (
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
        "CREATE INDEX documents_voice ON documents (voice)",
        "CREATE INDEX chunks_voice ON chunks (voice) WHERE voice IS NOT NULL",
    ),
    ("ALTER TABLE documents ADD COLUMN author TEXT",),
    ("ALTER TABLE documents ADD COLUMN note TEXT",),
)
"""Step n migrates version n to n + 1; a released step is never changed, only followed by another."""
