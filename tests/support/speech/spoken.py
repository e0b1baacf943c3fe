"""Chunks spoken by an engine without a pool."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from voxyard.speech.engine import Engine
from voxyard.speech.requests import Cancelled, Request, Result, Unspeakable

Chunk = TypeVar("Chunk")


class ListSource(Generic[Chunk]):
    """A source that has all its chunks from the start, and gives them out in their order."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._left = deque(chunks)

    def take(self, room: int, *, wait: bool) -> Sequence[Chunk]:
        """The next ones."""
        return [self._left.popleft() for _ in range(min(room, len(self._left)))]

    def cancelled(self) -> Sequence[Chunk]:
        """None."""
        return ()

    def progress(self, pause: float = 0.0) -> None:
        """Nobody watches."""


def answers(engine: Engine, requests: Sequence[Request]) -> list[Result | Unspeakable | Cancelled]:
    """The engine's answer to each request, in their order."""
    made = {id(request): answer for request, answer in engine.speak(ListSource(requests))}
    return [made[id(request)] for request in requests]


def speak(engine: Engine, requests: Sequence[Request]) -> list[Result]:
    """The engine's result for each request, in their order; none may be unspeakable."""
    results = [answer for answer in answers(engine, requests) if isinstance(answer, Result)]
    assert len(results) == len(requests)
    return results


def refusal(engine: Engine, request: Request) -> str:
    """The reason why the engine cannot speak a request."""
    (answer,) = answers(engine, [request])
    assert isinstance(answer, Unspeakable)
    return answer.reason
