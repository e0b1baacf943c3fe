"""The ring: bounded, ordered, ends cleanly, and hands errors over."""

import threading
import time
from collections.abc import Callable

import pytest
from eventually import PATIENCE, eventually

from voxyard.trainer.ring import Ring


def counting(limit: int | None = None, made: list[int] | None = None) -> Callable[[], int | None]:
    numbers = iter(range(limit)) if limit is not None else iter(range(10**9))

    def produce() -> int | None:
        number = next(numbers, None)
        if made is not None and number is not None:
            made.append(number)
        return number

    return produce


def ring_of(take: Callable[[], int | None], slots: int, threads: int = 1) -> Ring[int, int]:
    return Ring(take, lambda number: number, slots, threads=threads)


def test_batches_come_in_order_and_then_none():
    ring = ring_of(counting(10), slots=3)
    ring.start()
    assert [ring.get()[0] for _ in range(11)] == [*range(10), None]
    ring.close()


@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_never_more_batches_than_slots_exist(slots):
    """--prefetch-buffer-size counts the batch in use as well."""
    made: list[int] = []
    ring = ring_of(counting(made=made), slots)
    ring.start()
    for taken in range(5):
        expected = slots + max(taken - 1, 0)  # the slot of a batch comes back as the next one is taken
        eventually(lambda: ring.full, "the ring is full")
        time.sleep(0.02)
        assert len(made) == expected
        assert ring.depth == slots - (taken > 0)
        ring.get()
    ring.close()


def test_with_one_slot_nothing_is_made_while_a_batch_is_in_use():
    """The knob has an effect: one slot serialises."""
    made: list[int] = []
    ring = ring_of(counting(made=made), slots=1)
    ring.start()
    ring.get()
    time.sleep(0.05)
    assert made == [0]
    ring.close()


def test_an_error_of_the_producer_reaches_the_consumer_after_the_good_batches():
    good = counting(2)

    def produce() -> int:
        number = good()
        if number is None:
            raise OSError("disk gone")
        return number

    ring = ring_of(produce, slots=3)
    ring.start()
    assert [ring.get()[0], ring.get()[0]] == [0, 1]
    with pytest.raises(OSError, match="disk gone") as caught:
        ring.get()
    assert any(entry.name == "produce" for entry in caught.traceback)
    ring.close()


def test_waiting_is_measured_and_can_be_interrupted():
    release = threading.Event()

    def produce() -> int:
        release.wait(PATIENCE)
        return 1

    ring = ring_of(produce, slots=2)
    ring.start()
    begun = time.perf_counter()
    batch, waited = ring.get(interrupted=lambda: time.perf_counter() > begun + 0.3)
    assert batch is None
    assert 0.25 <= waited <= time.perf_counter() - begun
    release.set()
    ring.close()


def test_closing_ends_the_thread_whatever_it_waits_for():
    before = threading.active_count()
    ring = ring_of(counting(), slots=2)
    ring.start()
    eventually(lambda: ring.full)
    ring.close()
    assert threading.active_count() == before
    assert ring.get()[0] is None


def test_several_threads_make_batches_at_once_and_they_come_in_order():
    """Copies onto a GPU wait for the step in progress: two that wait for the same one arrive together."""
    both = threading.Barrier(2)

    def make(number: int) -> int:
        if number < 2:
            both.wait(PATIENCE)  # passes only if both are being made at the same time
            time.sleep(0.05 * (1 - number))  # and the first is ready last
        return number

    ring = Ring(counting(10), make, slots=3, threads=3)
    ring.start()
    assert [ring.get()[0] for _ in range(11)] == [*range(10), None]
    ring.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_is_made_while_the_ring_is_paused(threads):
    making = threading.Event()
    made: list[int] = []

    def make(number: int) -> int:
        making.set()
        time.sleep(0.05)
        made.append(number)
        return number

    ring = Ring(counting(), make, slots=3, threads=threads)
    ring.start()
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


def test_an_error_in_one_of_several_threads_comes_in_its_turn():
    def make(number: int) -> int:
        if number == 2:
            raise OSError("disk gone")
        time.sleep(0.02)
        return number

    ring = Ring(counting(), make, slots=4, threads=4)
    ring.start()
    assert [ring.get()[0], ring.get()[0]] == [0, 1]
    with pytest.raises(OSError, match="disk gone"):
        ring.get()
    before = threading.active_count()
    ring.close()
    assert threading.active_count() <= before
