"""In which order chunks leave the queue."""

from __future__ import annotations

from voxyard.speech.pool.queue import ChunkKey, ChunkQueue, QueuedChunk


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
