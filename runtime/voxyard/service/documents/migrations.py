"""Schema migrations of the store in SQLite, from an empty file to the current version."""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE documents (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            owner TEXT NOT NULL,
            title TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'processing', 'completed', 'failed')),
            created REAL NOT NULL,
            started REAL,
            finished REAL,
            voice TEXT,
            seed INTEGER NOT NULL,
            language TEXT,
            on_failure TEXT NOT NULL CHECK (on_failure IN ('fail', 'silence')),
            characters INTEGER NOT NULL,
            chunks INTEGER NOT NULL,
            chunks_done INTEGER NOT NULL DEFAULT 0,
            chunks_failed INTEGER NOT NULL DEFAULT 0,
            samples INTEGER NOT NULL DEFAULT 0,
            estimated_seconds REAL NOT NULL,
            waiting_seconds REAL NOT NULL,
            reason TEXT,
            parked TEXT,
            reduced INTEGER NOT NULL DEFAULT 0,
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
            document INTEGER PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE,
            text TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE chunks (
            document INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            ending TEXT NOT NULL CHECK (ending IN ('clause', 'sentence', 'paragraph')),
            estimated_seconds REAL NOT NULL,
            state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'spoken', 'silenced', 'failed')),
            samples INTEGER,
            reason TEXT,
            PRIMARY KEY (document, place)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE hooks (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            document INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            event TEXT NOT NULL,
            tries INTEGER NOT NULL DEFAULT 0,
            next_try REAL NOT NULL,
            error TEXT
        )
        """,
        "CREATE INDEX hooks_next_try ON hooks (next_try)",
        "CREATE INDEX hooks_document ON hooks (document)",
        "PRAGMA user_version = 1",
    ),
    (
        "ALTER TABLE documents ADD COLUMN revision INTEGER NOT NULL DEFAULT 0",
        """
        CREATE TABLE new_chunks (
            document INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            ending TEXT NOT NULL CHECK (ending IN ('clause', 'sentence', 'paragraph', 'chapter')),
            estimated_seconds REAL NOT NULL,
            state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'spoken', 'silenced', 'failed')),
            samples INTEGER,
            reason TEXT,
            voice TEXT,
            seed INTEGER,
            PRIMARY KEY (document, place)
        ) WITHOUT ROWID
        """,
        """
        INSERT INTO new_chunks (document, place, first, last, ending, estimated_seconds, state, samples, reason)
        SELECT document, place, first, last, ending, estimated_seconds, state, samples, reason FROM chunks
        """,
        "DROP TABLE chunks",
        "ALTER TABLE new_chunks RENAME TO chunks",
        """
        CREATE TABLE chapters (
            document INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            title TEXT NOT NULL,
            level INTEGER NOT NULL,
            first INTEGER NOT NULL,
            PRIMARY KEY (document, place)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE covers (
            document INTEGER PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE,
            image BLOB NOT NULL
        )
        """,
        """
        CREATE TABLE redos (
            document INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            voice TEXT,
            seed INTEGER NOT NULL,
            reason TEXT,
            taken_until REAL NOT NULL DEFAULT 0,
            PRIMARY KEY (document, place)
        ) WITHOUT ROWID
        """,
        "PRAGMA user_version = 2",
    ),
    (
        "ALTER TABLE documents ADD COLUMN changes INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE documents ADD COLUMN resets INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE documents ADD COLUMN phase TEXT",
        "ALTER TABLE documents ADD COLUMN code TEXT",
        "ALTER TABLE documents ADD COLUMN upload_bytes INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE chunks ADD COLUMN changed INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX chunks_changed ON chunks (document, changed)",
        """
        CREATE TABLE uploads (
            document INTEGER PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE,
            name TEXT NOT NULL,
            media_type TEXT NOT NULL,
            titled INTEGER NOT NULL,
            content BLOB NOT NULL
        )
        """,
        "PRAGMA user_version = 3",
    ),
    (
        "ALTER TABLE chunks ADD COLUMN pause REAL",
        """
        CREATE TABLE spoken (
            document INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
            place INTEGER NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (document, place)
        ) WITHOUT ROWID
        """,
        "PRAGMA user_version = 4",
    ),
    (
        "ALTER TABLE uploads ADD COLUMN read TEXT",
        "ALTER TABLE uploads ADD COLUMN lexicon TEXT",
        "PRAGMA user_version = 5",
    ),
    (
        """
        CREATE TABLE voices (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            owner TEXT NOT NULL,
            name TEXT NOT NULL,
            description TEXT,
            language TEXT,
            mixed TEXT,
            created REAL NOT NULL,
            deleted INTEGER NOT NULL DEFAULT 0,
            content BLOB NOT NULL
        )
        """,
        "CREATE UNIQUE INDEX voices_name ON voices (owner, name) WHERE deleted = 0",
        "CREATE INDEX documents_voice ON documents (voice)",
        "CREATE INDEX chunks_voice ON chunks (voice) WHERE voice IS NOT NULL",
        "PRAGMA user_version = 6",
    ),
    (
        "ALTER TABLE documents ADD COLUMN author TEXT",
        "PRAGMA user_version = 7",
    ),
    (
        "ALTER TABLE documents ADD COLUMN note TEXT",
        "PRAGMA user_version = 8",
    ),
)
"""Step n migrates version n to n + 1; a released step is never changed, only followed by another."""
