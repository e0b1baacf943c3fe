"""Thread that keeps a service in touch with the others on its database: renews claims, hears what the others do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from voxyard.service.documents.claims import Claims, SharedDocuments
from voxyard.service.documents.postgres import PostgresDatabase
from voxyard.service.documents.postgres_start import first_line
from voxyard.service.errors import ServiceError

if TYPE_CHECKING:
    from voxyard.service.documents.queue import DocumentQueue

_log = logging.getLogger(__name__)

_TICK_SECONDS = 0.5  # between two looks whether the thread is to end
_RECONNECT_SECONDS = 1.0


class Peers:
    """Renews the claims at a third of their life, repeats who has listeners, gives the queue the others' messages.

    `on_missed` is called where messages may have been missed: the connection was lost, or is new.
    """

    def __init__(
        self, database: PostgresDatabase, claims: Claims, queue: DocumentQueue, on_missed: Callable[[], None]
    ) -> None:
        self._database, self._claims, self._queue, self._on_missed = database, claims, queue, on_missed
        self._stop = threading.Event()
        self._next_renewal = 0.0
        self._thread = threading.Thread(target=self._run, name="voxyard-peers", daemon=True)

    def state(self) -> SharedDocuments:
        """State for the metrics."""
        database = self._database
        asked = database.transactions, database.seconds
        return SharedDocuments(database.answers.fresh, len(self._claims.held()), self._claims.ran_out(), *asked)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        heard = True  # a connection that is lost is logged once
        while not self._stop.is_set():
            try:
                with self._database.connect() as connection:
                    listen = sql.SQL("LISTEN {}").format(sql.Identifier(self._database.channel))
                    connection.execute(listen)
                    heard = True
                    self._database.answers.answered()
                    self._on_missed()
                    self._follow(connection)
            except (psycopg.Error, ServiceError) as error:
                self._database.answers.missed()
                if heard:
                    _log.warning("the other services cannot be heard: %s; connecting again", first_line(error))
                heard = False
                self._stop.wait(_RECONNECT_SECONDS)
            except Exception:  # noqa: BLE001 — without this thread the claims run out
                _log.exception("internal error in the connection with the other services; continuing")
                self._stop.wait(_RECONNECT_SECONDS)

    def _follow(self, connection: psycopg.Connection) -> None:
        while not self._stop.is_set():
            for notification in connection.notifies(timeout=_TICK_SECONDS):
                sender, _, message = notification.payload.partition(" ")
                kind, _, id = message.partition(" ")
                if sender != self._database.sender:
                    self._queue.peer_message(kind, id, sender)
            if time.monotonic() >= self._next_renewal:
                self._next_renewal = time.monotonic() + self._claims.seconds / 3
                for id in self._claims.renew():
                    self._queue.peer_message("taken", id, self._database.sender)
                for id in self._queue.with_listeners():  # of a service that does not repeat it, they are gone
                    connection.execute("SELECT pg_notify(%s, %s)", self._database.message("heard", id))
            connection.execute("SELECT 1")  # a server that hangs, or was cut off, says nothing by itself
            self._database.answers.answered()
