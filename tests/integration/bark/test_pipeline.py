"""The order in which the two causal stages step, with rows that only count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from spoken import ListSource

from voxyard.bark.pipeline import step_refilled

ROWS = 4


class CountedRows:
    """A stage whose chunks, (number, steps in the first stage, in the second), only grow older."""

    def __init__(self, stage: int) -> None:
        self.steps = 0
        self.used = 0  # rows with a chunk, over all steps
        self.most = 0
        self._stage, self._left = stage, dict[tuple[int, int, int], int]()

    def __len__(self) -> int:
        return len(self._left)

    @property
    def free(self) -> int:
        return ROWS - len(self._left)

    def enter(self, work: tuple[int, int, int]) -> None:
        assert self.free
        self._left[work] = work[self._stage]
        self.most = max(self.most, len(self._left))

    def remove(self, unwanted: Callable[[tuple[int, int, int]], bool]) -> list[tuple[int, int, int]]:
        removed = [work for work in self._left if unwanted(work)]
        for work in removed:
            del self._left[work]
        return removed

    def step(self) -> list[tuple[int, int, int]]:
        self.steps += 1
        self.used += len(self._left)
        self._left = {work: left - 1 for work, left in self._left.items()}
        done = [work for work, left in self._left.items() if left <= 0]
        for work in done:
            del self._left[work]
        return done


def run(
    chunks: Sequence[tuple[int, int, int]], urgent: int | None = None
) -> tuple[CountedRows, CountedRows, list[int]]:
    """The stages after all chunks, and the order in which chunks came out; `urgent` is a chunk's number."""
    first, second, source = CountedRows(1), CountedRows(2), ListSource(chunks)
    out: list[int] = []
    for done in step_refilled(
        first,
        second,
        lambda room, wait: source.take(room, wait=wait) or None,
        lambda work: work,
        lambda work: work[0] == urgent,
    ):
        out += [number for number, _, _ in done]
    return first, second, out


def test_both_stages_decode_full_batches_while_there_are_chunks() -> None:
    chunks = [(number, 3 + 5 * number % 11, 3 * (3 + 5 * number % 11)) for number in range(60)]

    first, second, out = run(chunks)

    assert sorted(out) == list(range(60))
    for stage, place in ((first, 1), (second, 2)):
        assert stage.used == sum(chunk[place] for chunk in chunks)
        assert stage.used / stage.steps > 0.9 * ROWS  # in fours that wait for the longest: 0.64
    assert out[0] in range(4)
    assert out[:8] != sorted(out[:8])  # a short one overtakes


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 9])
def test_every_chunk_comes_out_once(count: int) -> None:
    _, _, out = run([(number, 1 + number % 2, 1 + number % 3) for number in range(count)])
    assert sorted(out) == list(range(count))


def test_a_chunk_that_comes_while_others_are_under_way_enters_a_free_row() -> None:
    first, second = CountedRows(1), CountedRows(2)
    coming = [[(0, 5, 15)], [], [(1, 5, 15)], []]

    def take(room: int, wait: bool) -> list[tuple[int, int, int]] | None:
        return coming.pop(0) if coming else None if wait else []

    out = [number for done in step_refilled(first, second, take, lambda work: work) for number, _, _ in done]

    assert out == [0, 1]
    assert first.most == second.most == 2
    assert first.steps + second.steps < 2 * 20


def test_a_cancelled_chunk_leaves_its_row_in_either_stage_and_between_them() -> None:
    first, second = CountedRows(1), CountedRows(2)
    source = ListSource([(number, 4, 10 + 10 * number) for number in range(8)])
    gone = {17: {1, 5}, 20: {6}}  # by look: one in the second stage and one in the first; one between them
    looks = 0

    def cancelled() -> Callable[[tuple[int, int, int]], bool] | None:
        nonlocal looks
        looks += 1
        numbers = gone.get(looks, set())
        return (lambda work: work[0] in numbers) if numbers else None

    def take(room: int, wait: bool) -> list[tuple[int, int, int]] | None:
        return list(source.take(room, wait=wait)) or None

    stepping = step_refilled(first, second, take, lambda work: work, cancelled=cancelled)
    out = [work[0] for done in stepping for work in done]

    assert sorted(out) == [0, 2, 3, 4, 7]
    assert first.used == 8 * 4 - 2  # of the last steps of chunk 5
    assert second.used == sum(10 + 10 * number for number in (0, 2, 3, 4, 7)) + 11  # of chunk 1


def test_after_an_urgent_chunk_was_cancelled_the_others_are_refilled() -> None:
    first, second = CountedRows(1), CountedRows(2)
    coming = [[(9, 4, 6)], [(number, 3, 5) for number in range(4)]]
    steps = 0

    def take(room: int, wait: bool) -> list[tuple[int, int, int]] | None:
        return coming.pop(0) if coming else None if wait else []

    def cancelled() -> Callable[[tuple[int, int, int]], bool] | None:
        nonlocal steps
        steps += 1
        return (lambda work: work[0] == 9) if steps == 3 else None

    stepping = step_refilled(first, second, take, lambda work: work, lambda work: work[0] == 9, cancelled)
    out = [work[0] for done in stepping for work in done]

    assert sorted(out) == [0, 1, 2, 3]
    assert first.most == second.most == 4


def steps_until(urgent: int, busy: Sequence[tuple[int, int, int]], then: Sequence[tuple[int, int, int]]) -> list[str]:
    """Steps and entries from the moment an urgent chunk is taken beside busy rows until it is done."""
    first, second = CountedRows(1), CountedRows(2)
    found: list[str] = []
    coming, taken, done = [list(busy), list(then)], False, False

    def take(room: int, wait: bool) -> list[tuple[int, int, int]] | None:
        nonlocal taken
        if coming and not (len(coming) == 1 and second.steps < 3):  # the urgent one comes while the coarse rows step
            works = coming[0][:room]
            del coming[0][: len(works)]
            if not coming[0]:
                coming.pop(0)
            taken |= any(work[0] == urgent for work in works)
            return works
        return None if wait and not coming else []

    for name, stage in (("first", first), ("second", second)):
        enter, step = stage.enter, stage.step

        def entering(work: tuple[int, int, int], name: str = name, enter: Any = enter) -> None:
            if taken and not done:
                found.append(f"{work[0]} enters {name}")
            enter(work)

        def stepping(name: str = name, step: Any = step) -> Any:
            if taken and not done:
                found.append(name)
            return step()

        stage.enter, stage.step = entering, stepping  # type: ignore[method-assign]
    for answers in step_refilled(first, second, take, lambda work: work, lambda work: work[0] == urgent):
        done |= any(work[0] == urgent for work in answers)
    assert done
    assert not first
    assert not second
    return found


def test_an_urgent_chunk_takes_the_steps_that_it_takes_alone_also_beside_busy_rows() -> None:
    busy = [(number, 3, 20) for number in range(3)]

    found = steps_until(9, busy, [(9, 4, 6), (10, 2, 5)])

    others = [each for each in found if each.startswith(("9 ", "10 "))]
    assert others == ["9 enters first", "10 enters first", "9 enters second"]  # those that came with it, no later one
    assert [each for each in found if "enters" not in each] == ["first"] * 4 + ["second"] * 6


def test_urgent_chunks_come_out_first_and_every_chunk_once() -> None:
    for number in range(6):
        _, _, out = run([(each, 3 + each % 2, 5) for each in range(6)], urgent=number)
        assert sorted(out) == list(range(6))
    assert run([(0, 9, 9), (1, 1, 1), (2, 1, 1), (3, 1, 1)], urgent=0)[2][0] == 0
