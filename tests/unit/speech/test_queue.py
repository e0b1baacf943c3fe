"""Order in which chunks leave the queue, and the audio that tenants get of simulated workers."""

from __future__ import annotations

from collections import Counter

import pytest
from simulated_pool import SimulatedPool

from voxyard.speech.pool.queue import ChunkKey, ChunkQueue, QueuedChunk

SECONDS = 4.0  # of a chunk


def queue(*jobs: tuple[list[float], int, bool]) -> ChunkQueue:
    made = ChunkQueue()
    for number, (seconds, priority, listening) in enumerate(jobs):
        made.add_job(number, priority=priority, listening=listening)
        for index, estimate in enumerate(seconds):
            made.put(QueuedChunk(ChunkKey(number, index), estimate))
    return made


def drained(waiting: ChunkQueue) -> list[tuple[int, int]]:
    order = []
    while (entry := waiting.take(lambda _: True)) is not None:
        order.append((entry.key.job, entry.key.index))
    return order


def first(waiting: ChunkQueue) -> QueuedChunk:
    entry = waiting.take(lambda _: True)
    assert entry is not None
    return entry


def test_the_longest_chunk_comes_first_and_equal_ones_in_text_order() -> None:
    assert drained(queue(([3, 9, 1, 9], 0, False))) == [(0, 1), (0, 3), (0, 0), (0, 2)]


def test_the_earliest_chunk_comes_first_where_somebody_listens() -> None:
    assert drained(queue(([3, 9, 1], 0, True))) == [(0, 0), (0, 1), (0, 2)]


def test_listening_may_begin_and_end_while_chunks_wait() -> None:
    waiting = queue(([3, 9, 1, 7], 0, False))
    before = first(waiting).key

    waiting.listen(0, True)
    after = first(waiting).key
    waiting.listen(0, False)

    assert (before, after) == (ChunkKey(0, 1), ChunkKey(0, 0))
    assert drained(waiting) == [(0, 3), (0, 2)]


def test_a_job_of_higher_priority_goes_before_older_ones() -> None:
    assert drained(queue(([9, 8], 0, False), ([1, 2], 5, False))) == [(1, 1), (1, 0), (0, 0), (0, 1)]


def test_a_job_somebody_listens_to_goes_before_an_older_one_of_equal_priority() -> None:
    assert drained(queue(([9], 0, False), ([1], 0, True))) == [(1, 0), (0, 0)]


def test_what_a_worker_may_not_run_stays_in_its_place() -> None:
    waiting = queue(([9, 8, 7], 0, False))

    taken = [waiting.take(lambda entry: entry.key.index != 0) for _ in range(3)]

    assert [entry and entry.key for entry in taken] == [ChunkKey(0, 1), ChunkKey(0, 2), None]
    waiting.listen(0, True)
    assert drained(waiting) == [(0, 0)]


def test_a_removed_job_is_forgotten_with_what_comes_back_of_it() -> None:
    waiting = queue(([9, 8], 0, False))
    entry = first(waiting)

    waiting.remove_job(0)
    waiting.put(entry)

    assert len(waiting) == 0
    assert drained(waiting) == []


def shared(*tenants: tuple[str, float, list[float]]) -> ChunkQueue:
    made = ChunkQueue()
    for number, (tenant, share, seconds) in enumerate(tenants):
        made.add_job(number, tenant=tenant, share=share)
        for index, estimate in enumerate(seconds):
            made.put(QueuedChunk(ChunkKey(number, index), estimate))
    return made


def test_two_tenants_take_turns_whichever_came_first() -> None:
    order = [job for job, _ in drained(shared(("a", 1, [5.0] * 1000), ("b", 1, [5.0] * 20)))]

    assert order[:40].count(1) == 20
    assert set(order[40:]) == {0}


def test_turns_are_measured_in_seconds_of_audio() -> None:
    order = [job for job, _ in drained(shared(("short", 1, [1.0] * 400), ("long", 1, [10.0] * 40)))]

    assert order[:220].count(1) in (19, 20, 21)


def test_shares_of_one_to_three_give_audio_of_one_to_three() -> None:
    order = [job for job, _ in drained(shared(("a", 1, [2.0] * 300), ("b", 3, [2.0] * 300)))]

    assert abs(order[:200].count(1) - 150) <= 1


def test_a_tenant_that_comes_late_begins_at_once_and_does_not_catch_up() -> None:
    waiting = shared(("a", 1, [5.0] * 200))
    for _ in range(50):
        first(waiting)
    waiting.add_job(1, tenant="b")
    for index in range(100):
        waiting.put(QueuedChunk(ChunkKey(1, index), 5.0))

    order = [job for job, _ in drained(waiting)]

    assert 1 in order[:2]
    assert abs(order[:60].count(1) - 30) <= 1


def test_a_tenant_of_many_small_jobs_has_no_more_than_its_share() -> None:
    waiting = shared(("a", 1, [5.0] * 100))
    order = []
    for number in range(1, 61):  # each comes once the one before has left
        waiting.add_job(number, tenant="b")
        waiting.put(QueuedChunk(ChunkKey(number, 0), 5.0))
        while (left := first(waiting).key.job) == 0:
            order.append(0)
        order.append(1)
        waiting.remove_job(left)

    assert abs(order.count(1) - order.count(0)) <= 2


def test_priority_and_a_listener_count_among_the_jobs_of_a_tenant() -> None:
    waiting = shared(("a", 1, [5.0] * 4), ("b", 1, [5.0] * 4))
    waiting.add_job(2, priority=1, listening=True, tenant="a")
    waiting.put(QueuedChunk(ChunkKey(2, 0), 5.0))

    order = [job for job, _ in drained(waiting)]

    assert order == [2, 1, 0, 1, 0, 1, 0, 1, 0]


def test_a_held_job_of_one_tenant_does_not_hold_those_of_others() -> None:
    waiting = shared(("a", 1, [5.0]))
    waiting.add_job(1, priority=1, tenant="b")
    waiting.put(QueuedChunk(ChunkKey(1, 0), 5.0))
    waiting.hold(1)

    assert drained(waiting) == [(1, 0)]


def spoken_by(pool: SimulatedPool, until: float) -> Counter[int]:
    """Chunks that were done by then, by job."""
    return Counter(key.job for when, _, key in pool.spoken if when <= until)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "rows"), [(1, 1), (2, 8)])
def test_one_tenants_flood_leaves_another_its_share(workers: int, rows: int) -> None:
    pool = SimulatedPool(workers, rows=rows, duration=lambda _: SECONDS)
    pool.scheduler.submit(0, [SECONDS] * 600, 0.0, tenant="flood")
    pool.scheduler.submit(1, [SECONDS] * 200, 0.0, tenant="other")

    pool.run()

    done = max(when for when, _, key in pool.spoken if key.job == 1)
    both = spoken_by(pool, done)
    assert both[1] == 200
    assert both[0] <= 200 * 1.15 + workers * rows


@pytest.mark.parametrize("share", [1.0, 3.0])
def test_throughput_follows_the_shares(share: float) -> None:
    pool = SimulatedPool(2, rows=4, duration=lambda _: SECONDS)
    pool.scheduler.submit(0, [SECONDS] * 600, 0.0, tenant="one", share=1.0)
    pool.scheduler.submit(1, [SECONDS] * 600, 0.0, tenant="two", share=share)

    pool.run()

    half = spoken_by(pool, max(when for when, _, key in pool.spoken if key.job == 1))
    assert half[1] / half[0] == pytest.approx(share, rel=0.1)


def test_a_short_text_is_spoken_within_a_chunk_of_another_tenants_flood() -> None:
    pool = SimulatedPool(1, rows=4, duration=lambda _: SECONDS)
    pool.scheduler.submit(0, [SECONDS] * 1000, 0.0, tenant="flood")
    pool.scheduler.submit(1, [SECONDS] * 2, 0.0, tenant="other", listening=True, priority=1)

    pool.run()

    assert max(when for when, _, key in pool.spoken if key.job == 1) <= 4 * SECONDS


def test_a_step_of_the_pool_looks_at_none_of_the_chunks_that_wait_unless_they_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = SimulatedPool(2, rows=2)
    pool.scheduler.submit(0, [SECONDS] * 40, 0.0)
    monkeypatch.setattr(ChunkQueue, "__iter__", lambda _: pytest.fail("every waiting chunk was looked at"))

    pool.run()

    assert len(pool.spoken) == 40


def test_chunks_that_failed_are_taken_in_the_order_in_force() -> None:
    for listening, order in ((False, [3, 2, 1]), (True, [1, 2, 3])):
        waiting = queue(([9, 1, 2, 3], 0, listening))
        taken = {chunk.key.index: chunk for chunk in (first(waiting) for _ in range(4))}
        for index in (1, 2, 3):
            taken[index].alone = True
        for chunk in taken.values():
            waiting.put(chunk)

        found = [waiting.take(lambda _: True, failed=True) for _ in range(4)]

        assert [None if each is None else each.key.index for each in found] == [*order, None]
        assert drained(waiting) == [(0, 0)]
