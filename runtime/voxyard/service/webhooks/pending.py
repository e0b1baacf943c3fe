"""Pending webhooks: their table, in SQLite or PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from voxyard.service.documents.claims import Claims
from voxyard.service.documents.database import Connection, Database, Row

HookEvent = Literal["document.completed", "document.failed"]

_DUE = """
    SELECT * FROM (
        SELECT hooks.*, documents.id, documents.owner, documents.webhook, row_number() OVER (
            PARTITION BY documents.owner, documents.webhook ORDER BY hooks.next_try, hooks.number) AS turn
        FROM hooks JOIN documents ON documents.number = hooks.document WHERE hooks.next_try <= $1 AND {free}) AS due
    ORDER BY row_number() OVER (PARTITION BY owner ORDER BY turn, next_try, number), next_try, number
    LIMIT $2
"""
_FREE = "(taken_until IS NULL OR taken_until < clock_timestamp())"
_TAKE = """
    UPDATE hooks SET taken_until = clock_timestamp() + make_interval(secs => $1)
    WHERE number = $2 AND next_try = $3 AND {free}
"""
_LEAST_HOOK_SECONDS = 15.0  # more than a delivery takes


@dataclass(frozen=True)
class DueWebhook:
    """Webhook that is due; `tries` counts failed attempts, `next_try` is in Unix seconds."""

    id: int
    document: str
    owner: str
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
        self._due, self._take = (sql.format(free=_FREE if claims.shared else "TRUE") for sql in (_DUE, _TAKE))

    def pending(self, now: float, limit: int = 1000) -> tuple[DueWebhook, ...]:
        """Up to `limit` webhooks that are due and that no service has, by turns of the keys, and of each key's URLs."""
        with self._database.read() as connection:
            return tuple(_due_webhook(row) for row in connection.execute(self._due, (now, limit)))

    def take(self, hook: DueWebhook) -> bool:
        """Takes a webhook for this service to deliver: on a shared database no other gets it for a while.

        False where another service was first. Where neither `done` nor `tried` follows, it is due again: the service
        was killed.
        """
        if not self._claims.shared:
            return True
        seconds = max(_LEAST_HOOK_SECONDS, 2 * self._claims.seconds)
        with self._database.write() as connection:
            return connection.execute(self._take, (seconds, hook.id, hook.next_try)).rowcount == 1

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
        row["number"],
        row["id"],
        row["owner"],
        row["webhook"],
        row["event"],
        row["tries"],
        row["next_try"],
        row["error"],
    )
