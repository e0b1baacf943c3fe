"""The thread that hears the other services: the database answers only while it does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from eventually import PATIENCE, eventually

from voxyard.service.documents import peers


class Server:
    """A database whose connections hang while it is stopped, as those of a stopped process do."""

    def __init__(self) -> None:
        self.going = threading.Event()
        self.going.set()

    def connect(self, *_: Any, **named: Any) -> AbstractContextManager[Any]:
        return nullcontext(SimpleNamespace(execute=self._execute, notifies=self._notifies))

    def _execute(self, *_: Any) -> None:
        assert self.going.wait(PATIENCE)

    def _notifies(self, timeout: float) -> Iterator[Any]:
        threading.Event().wait(timeout)
        return iter(())


def test_a_database_that_hangs_counts_as_not_answering_until_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    monkeypatch.setattr(psycopg, "connect", server.connect)
    monkeypatch.setattr(peers, "_TICK_SECONDS", 0.01)
    monkeypatch.setattr(peers, "ANSWER_SECONDS", 0.2)
    database: Any = SimpleNamespace(conninfo="", channel="voxyard", sender="me")
    claims: Any = SimpleNamespace(seconds=1e6, held=tuple, ran_out=dict, renew=tuple)
    listener: Any = SimpleNamespace(heard=tuple)
    found = peers.Peers(database, claims, listener, lambda: None)
    assert not found.state().store_answers
    found.start()
    eventually(lambda: found.state().store_answers, "it answers")
    server.going.clear()
    eventually(lambda: not found.state().store_answers, "it hangs")
    server.going.set()
    eventually(lambda: found.state().store_answers, "it answers again")
    found.close()
