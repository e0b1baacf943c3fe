"""Claims: which documents this service synthesizes, alone or among several on one database."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from voxyard.service.documents import queries
from voxyard.service.documents.database import Connection, Database, Row
from voxyard.service.errors import ClaimLostError, ServiceError, StoreUnavailableError

_log = logging.getLogger(__name__)

Stage = Literal["extracting", "redoing", "speaking"]
"""What a document waits for: the text of its upload, chunks to be spoken again, or its chunks to be spoken."""
_UNFINISHED = "state IN ('pending', 'processing') AND {} (SELECT 1 FROM uploads WHERE document = number)"
STAGES: dict[Stage, str] = {
    "extracting": _UNFINISHED.format("EXISTS"),
    "redoing": "redos > 0",
    "speaking": _UNFINISHED.format("NOT EXISTS"),
}
_OWNERS = "SELECT owner, min(number) AS oldest FROM documents WHERE {waiting} AND ({free}) GROUP BY owner"
_OLDEST = """
    SELECT number, id, claim, claimed_by, {silent} AS silent FROM documents WHERE {waiting} AND ({free}) AND owner = $1
    ORDER BY number {one}
"""
_CLAIM = "UPDATE documents SET claimed_by = $1, claim = claim + 1, claim_until = {until} WHERE number = $3"
_HELD = "SELECT number FROM documents WHERE id = $1 AND claim = $2 {lock}"
RENEW = """
    UPDATE documents SET claim_until = clock_timestamp() + make_interval(secs => $1)
    FROM (SELECT unnest(CAST($2 AS TEXT[])) AS id, unnest(CAST($3 AS BIGINT[])) AS claim) AS held
    WHERE documents.id = held.id AND documents.claim = held.claim
    RETURNING documents.id
"""
RELEASE = "UPDATE documents SET claimed_by = NULL, claim_until = NULL WHERE id = $1 AND claim = $2"
_NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class SharedDocuments:
    """Documents that several services share, as one of them sees it."""

    store_answers: bool
    claims: int  # of this service
    ran_out: Mapping[str, int]  # claims of others that it took over, by their service
    transactions: int = 0  # of this service with the database, and the time that they took
    seconds: float = 0.0


class Claims:
    """Claims on documents. On PostgreSQL each lives for some seconds, unless it is renewed; on SQLite as long as this.

    A claim's number, which counts up with each claim on the document, is the fence: a write of progress locks the row
    where it still has that number, and so is refused once another service has claimed the document. `take` is called
    by one thread, the others by any.
    """

    def __init__(self, database: Database, service: str, seconds: float) -> None:
        self._database, self.seconds = database, seconds
        self.shared = database.rules.shared
        """True where other services may synthesize a document that this one does not."""
        self._service = service
        rules = vars(database.rules)
        self._owners = {stage: _OWNERS.format(waiting=waiting, **rules) for stage, waiting in STAGES.items()}
        self._oldest = {stage: _OLDEST.format(waiting=waiting, **rules) for stage, waiting in STAGES.items()}
        self._claim, self._number = _CLAIM.format(**rules), _HELD.format(**rules)
        self._held: dict[str, int] = {}  # id → claim
        self._lock = threading.Lock()
        self._look: dict[tuple[Stage, bool], bool] = {}
        self._ran_out: Counter[str] = Counter()
        self.look_again()

    def look_again(self) -> None:
        """Has `take` look for documents: some were accepted, are retried or given back, or their services are gone."""
        self._look = {(stage, room): True for stage in STAGES for room in (False, True)}

    def take(self, stage: Stage = "speaking", busy: Mapping[str, int] = _NONE, *, room: bool = True) -> str | None:
        """Claims a document that waits for this and that nobody has; None where there is none, or no answer.

        `busy` has the number of documents in progress by owner: one with the fewest comes first, and of its documents
        the oldest. Without `room` only owners with none count.
        """
        if not self._look[stage, room]:
            return None
        self._look[stage, False] = False
        self._look[stage, True] = self._look[stage, True] and not room
        try:
            with self._database.write() as connection:
                row = self._claimed(connection, stage, busy, room)
        except ServiceError as error:  # the next look is soon
            if not isinstance(error, StoreUnavailableError):
                _log.warning("no document can be begun: %s", error)
            return None
        if row is None:
            return None
        self.look_again()
        with self._lock:
            self._held[row["id"]] = row["claim"] + 1
            if row["claimed_by"] is not None:
                former = str(row["claimed_by"]).rpartition(":")[0]
                self._ran_out[former] += 1
                if row["silent"] is not None:
                    silent = row["silent"] + self.seconds  # its claim was renewed that long ago, where it has ours
                    _log.warning("document %s is taken over from %s, silent for %.1f s", row["id"], former, silent)
        return str(row["id"])

    def _claimed(self, connection: Connection, stage: Stage, busy: Mapping[str, int], room: bool) -> Row | None:
        """Row of the document that is claimed, as it was before."""
        owners, oldest, claim = self._owners[stage], self._oldest[stage], self._claim
        found = [(busy.get(row["owner"], 0), row["oldest"], row["owner"]) for row in connection.execute(owners)]
        for count, _, owner in sorted(found):
            rows = connection.execute(oldest, (owner,)) if room or not count else ()
            for row in rows:  # none where others were faster
                if row["claimed_by"] is None or self._held.get(row["id"]) != row["claim"]:  # else it is renewed late
                    connection.execute(claim, (self._service, self.seconds, row["number"]))
                    return row
        return None

    def number_of(self, connection: Connection, id: str) -> int:
        """Row number of a document, locked against another claim until the transaction ends.

        Raises:
            ClaimLostError: another service has taken it over.
            NotFoundError: no such document.
        """
        statement = self._number
        row = connection.execute(statement, (id, self._held.get(id, -1))).fetchone()
        if row is None:
            queries.number_of(connection, id)
            raise ClaimLostError(f"document {id} was taken over by another service")
        return int(row["number"])

    def number(self, id: str) -> int:
        """Number of this service's claim on a document. Raises ClaimLostError."""
        if (claim := self._held.get(id)) is None:
            raise ClaimLostError(f"document {id} was given back")
        return claim

    def owns(self, id: str) -> bool:
        """True where this service has a claim that it does not know to be lost."""
        return id in self._held

    def end(self, connection: Connection, number: int) -> None:
        """Ends the claim of a document that is completed or failed, in the same transaction."""
        connection.execute("UPDATE documents SET claimed_by = NULL, claim_until = NULL WHERE number = $1", (number,))

    def drop(self, id: str) -> None:
        """Forgets a claim without giving it back."""
        with self._lock:
            self._held.pop(id, None)

    def release(self, *ids: str) -> None:
        """Gives documents back: another service can claim them at once."""
        with self._lock:
            released = [(id, self._held.pop(id)) for id in ids if id in self._held]
        if not released:
            return
        with self._database.write() as connection:
            connection.executemany(RELEASE, released)
            for id, _ in released:
                connection.notify("accepted", id)

    def held(self) -> tuple[str, ...]:
        """Ids of the documents with a claim of this service."""
        with self._lock:
            return tuple(self._held)

    def ran_out(self) -> dict[str, int]:
        """Documents that this service took over since its start, by the service whose claims had run out."""
        with self._lock:
            return dict(self._ran_out)

    def renew(self) -> tuple[str, ...]:
        """Renews all claims; returns the ids of documents that are another service's now, or deleted."""
        with self._lock:
            held = dict(self._held)
        if not held:
            return ()
        with self._database.write() as connection:
            found = connection.execute(RENEW, (self.seconds, list(held), list(held.values())))
            renewed = {row["id"] for row in found}
        with self._lock:
            lost = [id for id, claim in held.items() if id not in renewed and self._held.get(id) == claim]
            for id in lost:
                del self._held[id]
        return tuple(lost)
