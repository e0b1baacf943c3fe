"""Pending webhooks: their table, in SQLite or PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from voxyard.service.documents.claims import Claims
from voxyard.service.documents.database import Connection, Database, Row

HookEvent = Literal["document.completed", "document.failed"]

TAKE_HOOKS = """
    UPDATE hooks SET taken_until = clock_timestamp() + make_interval(secs => $1) FROM documents
    WHERE documents.number = hooks.document AND hooks.number IN (
        SELECT number FROM hooks WHERE (taken_until IS NULL OR taken_until < clock_timestamp()) AND number IN (
            SELECT hooks.number FROM hooks JOIN documents ON documents.number = hooks.document
            WHERE hooks.next_try <= $2 AND (taken_until IS NULL OR taken_until < clock_timestamp())
            ORDER BY
                row_number() OVER (PARTITION BY documents.owner ORDER BY hooks.next_try, hooks.number),
                hooks.next_try, hooks.number
            LIMIT $3)
        FOR UPDATE SKIP LOCKED)
    RETURNING hooks.number, documents.id, documents.webhook, hooks.event, hooks.tries, hooks.next_try, hooks.error
"""
_LEAST_HOOK_SECONDS = 15.0  # more than a delivery takes
_MOST_HOOKS = 8  # as many as are delivered at a time: another key's wait for no longer than one delivery takes


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


class PendingWebhooks:
    """Webhooks of ended documents. Its methods raise as those of the store, and may be called from any thread.

    Several services may share the table: each takes webhooks for a while, in which no other gets them.
    """

    def __init__(self, database: Database, claims: Claims) -> None:
        self._database, self._claims = database, claims

    def pending(self, now: float, limit: int = 100) -> tuple[DueWebhook, ...]:
        """Up to `limit` webhooks that are due, by turns of the keys, of each the longest overdue first."""
        with self._database.read() as connection:
            found = connection.execute(
                """
                SELECT hooks.number, documents.id, documents.webhook, hooks.event, hooks.tries, hooks.next_try,
                    hooks.error
                FROM hooks JOIN documents ON documents.number = hooks.document
                WHERE hooks.next_try <= $1
                ORDER BY
                    row_number() OVER (PARTITION BY documents.owner ORDER BY hooks.next_try, hooks.number),
                    hooks.next_try, hooks.number
                LIMIT $2
                """,
                (now, limit),
            )
            return tuple(_due_webhook(row) for row in found)

    def take(self, now: float, limit: int = _MOST_HOOKS) -> tuple[DueWebhook, ...]:
        """Some webhooks that are due, for this service to deliver: on a shared database no other gets them for a while.

        Where neither `done` nor `tried` follows, they are due again: the service was killed.
        """
        if not self._claims.shared:
            return self.pending(now, limit)
        seconds = max(_LEAST_HOOK_SECONDS, 2 * self._claims.seconds)
        with self._database.write() as connection:
            found = connection.execute(TAKE_HOOKS, (seconds, now, limit))
            return tuple(sorted((_due_webhook(row) for row in found), key=lambda hook: hook.id))

    def tried(self, id: int, when: float, next_try: float | None, error: str | None) -> None:
        """Records a failed delivery at `when`; the webhook is due again at `next_try`, or never where that is None."""
        if next_try is None:
            self.done(id)
            return
        with self._database.write() as connection:
            connection.execute(
                "UPDATE hooks SET tries = tries + 1, next_try = $1, error = $2, taken_until = NULL WHERE number = $3",
                (max(next_try, when), error, id),
            )

    def done(self, id: int) -> None:
        """Removes a webhook that was delivered or given up."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM hooks WHERE number = $1", (id,))


def add(connection: Connection, document: int, event: HookEvent, when: float) -> None:
    """Makes the webhook of a document due at `when`, where it has one; `document` is its row number."""
    connection.execute(
        """
        INSERT INTO hooks (document, event, next_try)
        SELECT number, $1, $2 FROM documents WHERE number = $3 AND webhook IS NOT NULL
        """,
        (event, when, document),
    )


def _due_webhook(row: Row) -> DueWebhook:
    return DueWebhook(
        row["number"], row["id"], row["webhook"], row["event"], row["tries"], row["next_try"], row["error"]
    )
