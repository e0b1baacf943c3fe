"""Prefetch: ordered, bounded, resized at any time; it ends cleanly, and hands errors over."""

import random
import threading
import time
from collections.abc import Iterator
from itertools import count

import pytest
from eventually import PATIENCE, eventually

from voxyard.trainer.prefetch import Prefetch


def noted(made: list[int], items: Iterator[int] | None = None) -> Iterator[int]:
    """Numbers, each noted in `made` once it was asked for."""
    for number in items or count():
        made.append(number)
        yield number


def same(number: int) -> int:
    return number


@pytest.mark.parametrize("lends", [False, True])
@pytest.mark.parametrize("threads", [1, 4, 9])
def test_batches_come_in_order_whatever_order_they_are_made_in_and_then_none(threads: int, lends: bool) -> None:
    draw = random.Random(0)
    delays = [draw.uniform(0, 0.004) for _ in range(40)]

    def make(number: int) -> int:
        time.sleep(delays[number])
        return number

    batches = Prefetch(iter(range(40)), make, threads=threads, most=8, lends=lends)
    assert [batches.get() for _ in range(41)] == [*range(40), None]
    batches.close()


@pytest.mark.parametrize(("threads", "most"), [(1, 1), (4, 2), (2, 5), (8, 8)])
def test_the_bound_is_of_what_is_held_batches_in_the_making_included(threads: int, most: int) -> None:
    """--buffer-size bounds what exists."""
    held, most_held = 0, 0
    lock = threading.Lock()

    def make(number: int) -> int:
        nonlocal held, most_held
        with lock:
            held += 1
            most_held = max(most_held, held)
        time.sleep(0.001)
        return number

    batches = Prefetch(iter(range(30)), make, threads=threads, most=most)
    eventually(lambda: batches.full, "all that may be made is made")
    time.sleep(0.02)
    assert (held, batches.held, batches.ready) == (most, most, most)
    while batches.get() is not None:
        with lock:
            held -= 1
    assert most_held <= most + 1  # the one just handed out is counted until this test notes it
    batches.close()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_a_batch_that_is_lent_takes_a_slot(slots: int, threads: int) -> None:
    """--prefetch-buffer-size counts the batch in use as well: with one slot nothing is made beside it."""
    made: list[int] = []
    ring = Prefetch(noted(made), same, threads=threads, most=slots, lends=True)
    for taken in range(5):
        expected = slots + max(taken - 1, 0)  # the slot of a batch comes back as the next one is taken
        eventually(lambda: ring.full, "the ring is full")
        time.sleep(0.02)
        assert len(made) == expected
        assert ring.ready == slots - (taken > 0)
        ring.get()
    ring.close()


def test_threads_make_batches_side_by_side() -> None:
    """--num-workers has an effect: four threads meet at a barrier that one alone never passes."""
    barrier = threading.Barrier(4)
    batches = Prefetch(iter(range(4)), lambda _: barrier.wait(PATIENCE), threads=4, most=4)
    assert batches.get() is not None
    batches.close()


def test_the_first_batch_comes_first_where_it_is_ready_last() -> None:
    """Copies onto a GPU wait for the step in progress: two that wait for the same one arrive together."""
    both = threading.Barrier(2)

    def make(number: int) -> int:
        if number < 2:
            both.wait(PATIENCE)  # passes only if both are being made at the same time
            time.sleep(0.05 * (1 - number))  # and the first is ready last
        return number

    ring = Prefetch(iter(range(10)), make, threads=3, most=3, lends=True)
    assert [ring.get() for _ in range(11)] == [*range(10), None]
    ring.close()


def test_more_threads_are_taken_while_it_runs() -> None:
    """Two never pass a barrier of four."""
    barrier = threading.Barrier(4)
    batches = Prefetch(iter(range(4)), lambda _: barrier.wait(PATIENCE), threads=2, most=2)
    eventually(lambda: barrier.n_waiting == 2, "both wait")
    batches.resize(threads=4, most=4)
    assert batches.get() is not None
    batches.close()


def test_sizes_that_change_at_any_time_change_no_batch() -> None:
    """What is trained on stays the same, bit for bit: the items alone decide on batches and order."""
    draw = random.Random(3)
    before = threading.active_count()
    batches = Prefetch(iter(range(300)), same, threads=1, most=1)
    found = []
    while (batch := batches.get()) is not None:
        found.append(batch)
        batches.resize(threads=draw.randint(1, 8), most=draw.randint(1, 8))
    assert found == list(range(300))
    eventually(lambda: threading.active_count() <= before, "its threads have ended")
    batches.close()


def test_a_smaller_bound_holds_less_once_what_was_made_is_taken() -> None:
    batches = Prefetch(iter(range(50)), same, threads=4, most=8)
    eventually(lambda: batches.full, "all eight are ready")
    batches.resize(threads=1, most=2)
    for _ in range(8):
        batches.get()
    eventually(lambda: batches.full, "two are ready")
    assert (batches.held, batches.ready) == (2, 2)
    batches.close()


def test_waiting_for_a_batch_can_be_interrupted() -> None:
    release = threading.Event()
    batches = Prefetch(iter([1]), lambda _: release.wait(PATIENCE), threads=1, most=2)
    asked = 0

    def interrupted() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    assert batches.get(interrupted) is None
    release.set()
    assert batches.get() is True
    batches.close()


@pytest.mark.parametrize("lends", [False, True])
def test_closing_ends_the_threads_whatever_they_wait_for(lends: bool) -> None:
    before = threading.active_count()
    batches = Prefetch(count(), same, threads=4, most=2, lends=lends)
    eventually(lambda: batches.full)
    batches.close()
    assert threading.active_count() <= before  # one of another test may have ended
    assert batches.get() is None


@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_is_made_while_it_is_paused(threads: int) -> None:
    making = threading.Event()
    made: list[int] = []

    def make(number: int) -> int:
        making.set()
        time.sleep(0.05)
        made.append(number)
        return number

    ring = Prefetch(count(), make, threads=threads, most=3, lends=True)
    making.wait(PATIENCE)
    with ring.paused():
        before = len(made)
        assert before >= 1
        for _ in range(before):
            ring.get()
        time.sleep(0.15)
        assert len(made) == before
    eventually(lambda: len(made) > before)
    ring.close()


@pytest.mark.parametrize("lends", [False, True])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("failing", ["item", "batch"])
def test_an_error_comes_after_the_batches_before_it_and_is_the_end(failing: str, threads: int, lends: bool) -> None:
    def reads() -> Iterator[int]:
        for number in count():
            if failing == "item" and number == 2:
                raise OSError("disk gone")
            yield number

    def make(number: int) -> int:
        if failing == "batch" and number == 2:
            raise OSError("disk gone")
        time.sleep(0.02)
        return number

    before = threading.active_count()
    batches = Prefetch(reads(), make, threads=threads, most=4, lends=lends)
    assert [batches.get(), batches.get()] == [0, 1]
    for _ in range(2):
        with pytest.raises(OSError, match="disk gone") as caught:
            batches.get()
        assert {"reads", "make"} & {entry.name for entry in caught.traceback}
    eventually(lambda: threading.active_count() <= before, "its threads have ended")
    batches.close()


@pytest.mark.parametrize("items", [0, 1])
def test_the_first_is_not_waited_for_where_there_is_none(items: int) -> None:
    batches = Prefetch(iter(range(items)), same, threads=2, most=2)
    assert batches.first_ready.wait(PATIENCE)
    assert batches.get() == (0 if items else None)
    batches.close()
