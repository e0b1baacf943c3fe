"""First sound: what a listener hears first is decoded at once, alone on its worker, before all other chunks."""

from __future__ import annotations

import pytest
from simulated_pool import SimulatedPool

from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.queue import ChunkKey
from voxyard.speech.pool.scheduler import Scheduler, SendChunk

WARM = PoolLimits(warm_workers=2)


def sends(scheduler: Scheduler, now: float = 0.0) -> list[SendChunk]:
    return [action for action in scheduler.actions(now) if isinstance(action, SendChunk)]


def asking(rows: int) -> Scheduler:
    """A worker that has asked for a chunk for each row."""
    scheduler = Scheduler(1, PoolLimits(warm_workers=1))
    scheduler.actions(0.0)
    scheduler.engine_ready(0, 1, rows, 0.0)
    scheduler.actions(0.0)
    for _ in range(rows):
        scheduler.chunk_wanted(0, 1, 0.0)
    return scheduler


def test_a_listeners_first_chunk_runs_alone_and_is_urgent_and_the_others_follow() -> None:
    scheduler = asking(rows=4)
    scheduler.submit(0, [1.0] * 8, 0.0, listening=True)

    (first,) = sends(scheduler)
    assert (first.chunk, first.urgent, first.held) == (ChunkKey(0, 0), True, 1)

    assert scheduler.chunk_done(0, 1, first.lease, 1.0)
    scheduler.chunk_wanted(0, 1, 1.0)
    then = sends(scheduler, 1.0)
    assert [(send.chunk.index, send.urgent) for send in then] == [(1, False), (2, False), (3, False), (4, False)]


def test_without_a_listener_nothing_is_urgent() -> None:
    scheduler = asking(rows=4)
    scheduler.submit(0, [1.0] * 8, 0.0)

    assert [send.urgent for send in sends(scheduler)] == [False] * 4


def test_a_second_listeners_first_chunk_goes_before_what_the_first_one_hears_later() -> None:
    scheduler = asking(rows=2)
    scheduler.submit(0, [1.0] * 8, 0.0, listening=True)
    (first,) = sends(scheduler)
    scheduler.submit(1, [1.0] * 8, 0.5, listening=True)

    assert scheduler.chunk_done(0, 1, first.lease, 1.0)

    (second,) = sends(scheduler, 1.0)
    assert (second.chunk, second.urgent) == (ChunkKey(1, 0), True)


def test_other_workers_begin_with_the_rest_meanwhile() -> None:
    pool = SimulatedPool(2, rows=4, limits=WARM, duration=lambda _: 10.0)
    pool.run(until=1.0)

    pool.at(1.0, lambda: pool.scheduler.submit(0, [1.0] * 20, 1.0, listening=True))
    pool.run(until=5.0)

    by_slot = {slot: sorted(key.index for _, each, key in pool.sent if each == slot) for slot in (0, 1)}
    assert by_slot == {0: [0], 1: [1, 2, 3, 4]}


@pytest.mark.parametrize("rows", [1, 4, 16])
def test_the_first_chunk_is_there_as_soon_as_if_it_were_the_whole_text(rows: int) -> None:
    heard = []
    for chunks in (1, 60):
        pool = SimulatedPool(1, rows=rows, duration=lambda key: 3.0 if key.index == 0 else 10.0)
        pool.scheduler.submit(0, [3.0] + [10.0] * (chunks - 1), 0.0, listening=True)
        pool.run()
        assert len(pool.spoken) == chunks
        heard.append(next(when for when, _, key in pool.spoken if key.index == 0))

    assert heard[1] == pytest.approx(heard[0])
