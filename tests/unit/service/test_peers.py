"""The thread that hears the other services: the database answers only while it does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from eventually import PATIENCE, eventually

from voxyard.service.documents import peers, server_answers


class Server:
    """A database whose connections hang while it is stopped, as those of a stopped process do."""

    def __init__(self) -> None:
        self.going = threading.Event()
        self.going.set()

    def connect(self) -> AbstractContextManager[Any]:
        return nullcontext(SimpleNamespace(execute=self._execute, notifies=self._notifies))

    def _execute(self, *_: Any) -> None:
        assert self.going.wait(PATIENCE)

    def _notifies(self, timeout: float) -> Iterator[Any]:
        threading.Event().wait(timeout)
        return iter(())


def test_a_database_that_hangs_counts_as_not_answering_until_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    monkeypatch.setattr(peers, "_TICK_SECONDS", 0.01)
    monkeypatch.setattr(server_answers, "ANSWER_SECONDS", 0.2)
    database: Any = SimpleNamespace(
        connect=server.connect,
        channel="voxyard",
        sender="me",
        answers=server_answers.ServerAnswers(),
        transactions=0,
        seconds=0.0,
    )
    claims: Any = SimpleNamespace(seconds=1e6, held=tuple, ran_out=dict, renew=tuple)
    listener: Any = SimpleNamespace(heard=tuple)
    found = peers.Peers(database, claims, listener, lambda: None)
    eventually(lambda: not found.state().store_answers, "nobody asks")
    found.start()
    eventually(lambda: found.state().store_answers, "it answers")
    server.going.clear()
    eventually(lambda: not found.state().store_answers, "it hangs")
    server.going.set()
    eventually(lambda: found.state().store_answers, "it answers again")
    found.close()


@pytest.mark.parametrize(
    ("answered", "missed", "now", "away"),
    [
        pytest.param(100.0, None, 200.0, False, id="nobody was kept waiting"),
        pytest.param(100.0, 101.0, 101.0, False, id="one connection was lost, others answer"),
        pytest.param(100.0, 105.0, 106.0, True, id="a question was given up, and there was no answer before it"),
        pytest.param(100.0, 105.0, 116.0, False, id="it is time that somebody asks again"),
        pytest.param(106.0, 105.0, 106.0, False, id="it answers again"),
    ],
)
def test_nobody_waits_for_a_database_that_answers_nobody(
    answered: float, missed: float | None, now: float, away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=answered)
    monkeypatch.setattr(server_answers, "time", SimpleNamespace(monotonic=lambda: clock.now))
    found = server_answers.ServerAnswers()
    found.answered()
    if missed is not None:
        clock.now = missed
        found.missed()
    clock.now = answered
    if missed is not None and answered > missed:
        found.answered()
    clock.now = now
    assert found.away == away
