"""Memory that a worker gives back while it is idle; no GPU is needed: torch.cuda is a fake."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from spoken import ListSource

from voxyard.bark.attempts import ChunksInFlight
from voxyard.bark.device import IDLE_SECONDS, WORTH_BYTES, IdleMemory, give_back
from voxyard.speech.requests import Request


class ByHand(threading.Timer):
    """A timer that comes when `function` is called."""

    made: list[ByHand]

    def start(self) -> None:
        self.made.append(self)


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[ByHand]:
    made: list[ByHand] = []
    monkeypatch.setattr(ByHand, "made", made, raising=False)
    return made


def test_what_grew_is_given_back_while_no_chunk_comes(timers: list[ByHand]) -> None:
    given: list[str] = []
    with IdleMemory(lambda: given.append("back"), ByHand).waiting():
        (timer,) = timers
        assert (timer.interval, given) == (IDLE_SECONDS, [])
        timer.function()
    assert given == ["back"]


def test_a_timer_that_comes_with_a_chunk_gives_nothing_back(timers: list[ByHand]) -> None:
    """A graph may be captured then."""
    given: list[str] = []
    with IdleMemory(lambda: given.append("back"), ByHand).waiting():
        pass
    timers[0].function()
    assert given == []
    assert timers[0].finished.is_set()


def test_only_a_worker_without_a_chunk_waits() -> None:
    waits: list[str] = []

    @contextmanager
    def waiting() -> Iterator[None]:
        waits.append("waited")
        yield

    def refuse(_: Request) -> None:
        raise AssertionError

    chunks = ChunksInFlight(ListSource([]), refuse, 1, waiting)  # type: ignore[arg-type]
    assert chunks.take(2, False) == []
    assert waits == []
    assert chunks.take(2, True) is None
    assert waits == ["waited"]


@pytest.mark.parametrize(("kept", "emptied"), [(0, 0), (WORTH_BYTES - 1, 0), (WORTH_BYTES, 1)])
def test_only_what_is_worth_it_is_given_back(monkeypatch: pytest.MonkeyPatch, kept: int, emptied: int) -> None:
    calls: list[None] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 5_000)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 5_000 + kept)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append(None))
    give_back()
    assert len(calls) == emptied


def test_a_worker_on_a_cpu_has_nothing_to_give_back() -> None:
    give_back()
