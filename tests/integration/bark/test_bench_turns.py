"""Turns of the Bark benchmark: who has them, and who is the fastest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from bench_end_to_end import best, in_turns, ratios


class Clock:
    """A timer that contestants advance."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


class Scripted:
    """Takes scripted times for its turns."""

    def __init__(self, clock: Clock, *turns: float) -> None:
        self._clock, self._turns = clock, iter(turns)

    @contextmanager
    def watched(self, _: Any) -> Iterator[None]:
        yield

    def speak(self, _: Any) -> float:
        self._clock.seconds += next(self._turns)
        return 1.0


def test_the_precision_of_the_first_round_goes_on_where_it_is_slower_in_the_next() -> None:
    clock = Clock()
    turns = {"voxyard bfloat16": (6, 9, 6), "voxyard int8": (7,), "transformers bfloat16": (12, 12, 12)}
    made: Any = {name: (lambda turns=turns: Scripted(clock, *turns)) for name, turns in turns.items()}
    timer: Any = SimpleNamespace(now=clock.now)

    runs = in_turns(made, ["a"], timer, 3)

    assert {name: tuple(run.seconds) for name, run in runs.items()} == turns
    assert best(runs) == {"voxyard": "voxyard bfloat16", "transformers": "transformers bfloat16"}
    assert ratios("p", runs) == {"p_vs_transformers": 2.0}
