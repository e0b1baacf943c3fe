"""Thread of updates: order, room, and failures of the updates on the data device."""

from __future__ import annotations

import threading

import pytest
from eventually import PATIENCE

from voxyard.trainer.steps.update_thread import AHEAD, UpdateThread


def test_batches_are_trained_on_one_by_one_in_their_order() -> None:
    seen: list[int] = []

    def update(batch: int) -> dict[str, float]:
        seen.append(batch)
        return {"total": float(batch)}

    thread: UpdateThread[int] = UpdateThread(update)
    futures = [thread.submit(batch) for batch in range(20)]
    thread.drain()
    assert seen == list(range(20))
    assert [each.result()["total"] for each in futures] == list(range(20))
    thread.close()


def test_the_first_device_is_ahead_by_no_more_than_it_may() -> None:
    begun, go = threading.Semaphore(0), threading.Semaphore(0)

    def update(batch: int) -> dict[str, float]:
        begun.release()
        go.acquire()
        return {}

    thread: UpdateThread[int] = UpdateThread(update)
    for batch in range(AHEAD + 1):
        thread.submit(batch)
    more = threading.Thread(target=thread.submit, args=(AHEAD + 1,))
    begun.acquire()
    more.start()
    before = thread.blocked_seconds
    more.join(1)
    assert more.is_alive()
    go.release()
    more.join(PATIENCE)
    assert not more.is_alive()
    assert thread.blocked_seconds - before >= 0.1
    for _ in range(AHEAD + 1):
        go.release()
    thread.drain()
    thread.close()


def test_a_failure_ends_the_thread_and_is_raised_to_all_who_ask() -> None:
    seen: list[int] = []

    def update(batch: int) -> dict[str, float]:
        seen.append(batch)
        raise ValueError(f"batch {batch} cannot be")

    thread: UpdateThread[int] = UpdateThread(update)
    futures = [thread.submit(0)]
    with pytest.raises(ValueError, match="batch 0"):
        thread.drain()
    with pytest.raises(ValueError, match="batch 0"):
        thread.submit(1)
    with pytest.raises(ValueError, match="batch 0"):
        futures[0].result()
    assert seen == [0]
    thread.close()
