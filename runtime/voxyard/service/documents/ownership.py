"""Ownership of documents: which of them this service synthesizes, alone or among several on one database."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from voxyard.service.documents import queries
from voxyard.service.documents.sql import Connection, Database
from voxyard.service.errors import ClaimLostError, StoreError, StoreUnavailableError

# An upload is a row beside its document until it is read.
UNFINISHED = """
    SELECT id, owner, EXISTS (SELECT 1 FROM uploads WHERE document = number) AS unread FROM documents
    WHERE state IN ('pending', 'processing') ORDER BY number
"""
IS_UNREAD = "SELECT EXISTS (SELECT 1 FROM uploads WHERE document = number) AS unread FROM documents WHERE id = $1"
CLAIM = """
    WITH oldest AS MATERIALIZED (
        SELECT number, claimed_by FROM documents WHERE state IN ('pending', 'processing')
            AND (claim_until IS NULL OR claim_until < clock_timestamp())
            AND owner <> ALL (CAST($3 AS TEXT[]))
            AND EXISTS (SELECT 1 FROM uploads WHERE document = number) = CAST($6 AS BOOLEAN)
        ORDER BY (SELECT coalesce(sum(busy), 0) FROM
            unnest(CAST($4 AS TEXT[]), CAST($5 AS BIGINT[])) AS held (owner, busy) WHERE held.owner = documents.owner),
            number
        LIMIT 1 FOR UPDATE SKIP LOCKED)
    UPDATE documents SET claimed_by = $1, claim = claim + 1,
        claim_until = clock_timestamp() + make_interval(secs => $2)
    FROM oldest WHERE documents.number = oldest.number
    RETURNING documents.id, documents.claim, oldest.claimed_by AS ran_out
"""
RENEW = """
    UPDATE documents SET claim_until = clock_timestamp() + make_interval(secs => $1)
    FROM (SELECT unnest(CAST($2 AS TEXT[])) AS id, unnest(CAST($3 AS BIGINT[])) AS claim) AS held
    WHERE documents.id = held.id AND documents.claim = held.claim
    RETURNING documents.id
"""
_NONE: Mapping[str, int] = MappingProxyType({})
_KINDS = ((False, False), (False, True), (True, False), (True, True))
RELEASE = "UPDATE documents SET claimed_by = NULL, claim_until = NULL WHERE id = $1 AND claim = $2"


@dataclass(frozen=True)
class SharedDocuments:
    """Documents that several services share, as one of them sees it."""

    store_answers: bool
    claims: int  # of this service
    ran_out: Mapping[str, int]  # claims of others that it took over, by their service


class Ownership(Protocol):
    """Documents of this service. `add` and `take` are called by one thread, the others by any."""

    @property
    def shared(self) -> bool:
        """True where other services may synthesize a document that this one does not."""

    def resume(self) -> None:
        """Adds the unfinished documents of earlier runs."""

    def add(self, id: str, owner: str) -> None:
        """Adds a document that was accepted, is retried, or was given back."""

    def take(self, busy: Mapping[str, int] = _NONE, *, room: bool = True, unread: bool = False) -> str | None:
        """The next document to synthesize, or with `unread` whose upload is to be read; None where none waits.

        `busy` has the number of documents in progress by owner: one with the fewest comes first, and of its documents
        the oldest. Without `room` only owners with none count.
        """

    def upload_read(self, id: str, owner: str) -> None:
        """Has a document wait to be synthesized, in the order of its arrival; its upload was taken and is read."""

    def look_again(self) -> None:
        """Has `take` look for documents whose services are gone."""

    def number_of(self, connection: Connection, id: str) -> int:
        """Row number of a document, for a write of its progress in the same transaction.

        Raises:
            ClaimLostError: another service has taken it over.
            NotFoundError: no such document.
        """

    def owns(self, id: str) -> bool:
        """True where no other service is known to have the document."""

    def end(self, connection: Connection, number: int) -> None:
        """Ends the ownership of a document that is completed or failed, in the same transaction."""

    def drop(self, id: str) -> None:
        """Forgets a document that has ended, was deleted or taken over."""

    def release(self, *ids: str) -> None:
        """Gives documents back to the other services."""


class _Waiting:
    """Documents by owner, in the order of their arrival."""

    def __init__(self) -> None:
        self._owners: dict[str, list[tuple[int, str]]] = {}  # heaps of arrival and id

    def add(self, arrival: int, id: str, owner: str) -> None:
        heapq.heappush(self._owners.setdefault(owner, []), (arrival, id))

    def take(self, busy: Mapping[str, int], room: bool) -> tuple[int, str, str] | None:
        """Arrival, id and owner of the first document of the owner with the fewest in progress."""
        owners = [owner for owner in self._owners if room or not busy.get(owner)]
        if not owners:
            return None
        owner = min(owners, key=lambda each: (busy.get(each, 0), self._owners[each][0]))
        arrival, id = heapq.heappop(self._owners[owner])
        if not self._owners[owner]:
            del self._owners[owner]
        return arrival, id, owner


class SoleOwnership:
    """All documents are this service's."""

    shared = False

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting = {unread: _Waiting() for unread in (False, True)}
        self._reading: dict[str, int] = {}  # id → arrival, of uploads that were taken
        self._arrivals = itertools.count()

    def resume(self) -> None:
        """Adds the unfinished documents of earlier runs."""
        with self._database.read() as connection:
            found = [(row["id"], row["owner"], row["unread"]) for row in connection.execute(UNFINISHED)]
        for id, owner, unread in found:
            self._waiting[bool(unread)].add(next(self._arrivals), id, owner)

    def add(self, id: str, owner: str) -> None:
        """Adds a document."""
        try:
            with self._database.read() as connection:
                row = connection.execute(IS_UNREAD, (id,)).fetchone()
        except StoreError:  # it is read when its turn to be spoken comes
            row = None
        self._waiting[row is not None and bool(row["unread"])].add(next(self._arrivals), id, owner)

    def take(self, busy: Mapping[str, int] = _NONE, *, room: bool = True, unread: bool = False) -> str | None:
        """The next document to synthesize or to read, of the owner with the fewest in progress, in order of arrival."""
        found = self._waiting[unread].take(busy, room)
        if found is None:
            return None
        arrival, id, _ = found
        if unread:
            self._reading[id] = arrival
        return id

    def upload_read(self, id: str, owner: str) -> None:
        """Has a document wait to be synthesized, at its place."""
        arrival = self._reading.pop(id, None)
        self._waiting[False].add(next(self._arrivals) if arrival is None else arrival, id, owner)

    def look_again(self) -> None:
        """Does nothing: all documents are known."""

    def number_of(self, connection: Connection, id: str) -> int:
        """Row number of a document. Raises NotFoundError."""
        return queries.number_of(connection, id)

    def owns(self, id: str) -> bool:
        """Always true."""
        return True

    def end(self, connection: Connection, number: int) -> None:
        """Does nothing."""

    def drop(self, id: str) -> None:
        """Forgets that its upload was taken."""
        self._reading.pop(id, None)

    def release(self, *ids: str) -> None:
        """Does nothing: no other service can take them."""


class Claims:
    """Claims on documents of a PostgreSQL database: each lives for some seconds, unless it is renewed.

    A claim's number, which counts up with each owner of the document, is the fence: a write of progress locks the row
    where it still has that number, and so is refused once another service has claimed the document.
    """

    shared = True

    def __init__(self, database: Database, service: str, seconds: float) -> None:
        self._database, self._service, self.seconds = database, service, seconds
        self._held: dict[str, int] = {}  # id → claim
        self._lock = threading.Lock()
        self._look = dict.fromkeys(_KINDS, True)  # by unread and room: such a document may wait
        self._ran_out: Counter[str] = Counter()

    def resume(self) -> None:
        """Looks for unfinished documents."""
        self.look_again()

    def add(self, id: str, owner: str) -> None:
        """Looks for documents: any service may have taken this one."""
        self.look_again()

    def look_again(self) -> None:
        """Looks for documents whose claims ran out."""
        self._look = dict.fromkeys(_KINDS, True)

    def take(self, busy: Mapping[str, int] = _NONE, *, room: bool = True, unread: bool = False) -> str | None:
        """Claims a document that nobody has; None where there is none, or the database does not answer."""
        if not self._look[unread, room]:
            return None
        self._look[unread, False] = False
        self._look[unread, True] = self._look[unread, True] and not room
        owners, counts = list(busy), list(busy.values())
        excluded = [] if room else [owner for owner in owners if busy[owner]]
        try:
            with self._database.write() as connection:
                values = (self._service, self.seconds, excluded, owners, counts, unread)
                claimed = connection.execute(CLAIM, values)
                row = claimed.fetchone()
        except StoreUnavailableError:
            return None  # the next look is soon
        if row is None:
            return None
        self.look_again()
        id = str(row["id"])
        with self._lock:
            self._held[id] = row["claim"]
            if row["ran_out"] is not None:
                self._ran_out[str(row["ran_out"]).rpartition(":")[0]] += 1
        return id

    def upload_read(self, id: str, owner: str) -> None:
        """Gives a document back, so that whichever service has room for it claims it."""
        self.release(id)
        self.look_again()

    def number_of(self, connection: Connection, id: str) -> int:
        """Row number of a document, locked against another claim until the transaction ends.

        Raises:
            ClaimLostError: another service has taken it over.
            NotFoundError: no such document.
        """
        row = connection.execute(
            "SELECT number FROM documents WHERE id = $1 AND claim = $2 FOR UPDATE", (id, self._held.get(id, -1))
        ).fetchone()
        if row is None:
            queries.number_of(connection, id)
            raise ClaimLostError(f"document {id} was taken over by another service")
        return int(row["number"])

    def owns(self, id: str) -> bool:
        """True where this service has a claim that it does not know to be lost."""
        return id in self._held

    def end(self, connection: Connection, number: int) -> None:
        """Ends the claim of a document that is completed or failed."""
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
