"""Chunks and batches that end their worker's process, on a simulated clock: chunks given up, batches made smaller."""

from __future__ import annotations

import random

import pytest
from simulated_pool import Fate, SimulatedPool

from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.queue import ChunkKey
from voxyard.speech.pool.worker_process import EndCause
from voxyard.speech.pool.worker_slot import WorkerSlot


def keys(count: int, job: int = 0) -> list[ChunkKey]:
    return [ChunkKey(job, index) for index in range(count)]


def spoken(pool: SimulatedPool) -> list[ChunkKey]:
    return sorted(key for _, _, key in pool.spoken)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_deadly_chunk_is_given_up_after_two_deaths_of_its_own_and_its_mates_are_spoken(slots: int) -> None:
    deadly = ChunkKey(0, 3)
    pool = SimulatedPool(
        slots, rows=4, fate=Fate(deadly=frozenset({deadly})), duration=lambda key: 1.0 if key == deadly else 4.0
    )
    pool.scheduler.submit(0, [1.0] * 24, 0.0)

    pool.run()

    own = [slot for slot, held in pool.deaths if held == (deadly,)]
    assert len(own) == 2
    assert len(set(own)) == min(slots, 2)  # on another worker, where there is one
    assert len(pool.deaths) == 3  # and one with its mates
    assert list(pool.given_up) == [deadly]
    assert spoken(pool) == [key for key in keys(24) if key != deadly]


def test_a_single_chunk_that_ends_its_process_is_given_up_after_two_deaths() -> None:
    pool = SimulatedPool(2, rows=4, fate=Fate(deadly=frozenset({ChunkKey(0, 0)})))
    pool.scheduler.submit(0, [1.0], 0.0)

    pool.run()

    assert len(pool.deaths) == 2
    assert list(pool.given_up) == [ChunkKey(0, 0)]


def test_where_workers_also_die_of_something_else_a_chunk_has_a_third_chance() -> None:
    pool = SimulatedPool(1, duration=lambda _: 4.0)
    pool.scheduler.submit(0, [1.0] * 3, 0.0, listening=True)

    for second in (2.0, 10.0, 12.0):  # chunk 0 once, chunk 1 twice
        pool.at(second, lambda: pool._die(pool._processes[0]))
    pool.run()

    assert pool.deaths == [(0, (ChunkKey(0, 0),)), (0, (ChunkKey(0, 1),)), (0, (ChunkKey(0, 1),))]
    assert spoken(pool) == keys(3)
    assert not pool.given_up


@pytest.mark.parametrize("seed", range(60))
def test_kills_from_outside_while_mates_are_in_give_up_nothing_but_the_deadly(seed: int) -> None:
    dice = random.Random(seed)
    slots, count = dice.randint(1, 5), dice.randint(2, 80)
    deadly = frozenset(dice.sample(keys(count), k=dice.choice([0, 0, 1, 2])))
    fate = Fate(deadly=deadly, death_share=dice.choice([0.05, 0.2, 0.5]), with_mates=True)
    fate.ending = "crashed"
    pool = SimulatedPool(
        slots, rows=dice.randint(1, 8), fate=fate, seed=seed, duration=lambda _: dice.uniform(0.5, 2.0)
    )
    pool.scheduler.submit(0, [dice.uniform(0.5, 13) for _ in range(count)], 0.0, listening=dice.random() < 0.3)

    pool.run()

    assert set(pool.given_up) == deadly
    assert spoken(pool) == sorted(set(keys(count)) - deadly)
    for key in deadly:
        assert sum(held == (key,) for _, held in pool.deaths) == PoolLimits().max_deaths
    shared = [key for _, held in pool.deaths if len(held) > 1 for key in held]
    assert len(shared) == len(set(shared))  # a suspect never again brings its mates down


@pytest.mark.parametrize("ending", ["crashed", "out of memory"])
def test_a_batch_that_ends_its_process_is_halved_until_it_lives(ending: EndCause) -> None:
    pool = SimulatedPool(1, rows=8, fate=Fate(rows_that_live={0: 3}, ending=ending), duration=lambda _: 4.0)
    pool.scheduler.submit(0, [1.0] * 60, 0.0)

    pool.run()

    assert [rows for _, rows in pool.rows] == [8, 4, 2]
    assert spoken(pool) == keys(60)
    assert not pool.given_up


def test_a_worker_killed_from_outside_keeps_its_rows() -> None:
    pool = SimulatedPool(1, rows=8, duration=lambda _: 4.0)
    pool.scheduler.submit(0, [1.0] * 30, 0.0)

    for second in (2.0, 40.0):
        pool.at(second, lambda: pool._die(pool._processes[0]))
    pool.run()

    assert [rows for _, rows in pool.rows] == [8, 8, 8]
    assert spoken(pool) == keys(30)


def test_a_kill_for_want_of_memory_suspects_no_chunk() -> None:
    pool = SimulatedPool(1, rows=4, fate=Fate(rows_that_live={0: 2}, ending="out of memory"), duration=lambda _: 4.0)
    pool.scheduler.submit(0, [1.0] * 12, 0.0)

    pool.run()

    begun = [held for _, held in pool.held]
    assert begun[4:6] == [1, 2]  # two rows at once after the kill, nothing alone
    assert spoken(pool) == keys(12)


def test_rows_are_given_back_to_the_next_process_and_not_to_the_running_one() -> None:
    slot = WorkerSlot(0)
    slot.engine_ready(8, 0.0)
    slot.halve_batch()
    slot.crashed_batches.append(frozenset(keys(2)))

    slot.acquit_batches(ChunkKey(0, 5))
    slot.start(1.0, PoolLimits())
    assert slot.rows == 4
    slot.acquit_batches(ChunkKey(0, 1))
    assert slot.rows == 4
    slot.start(2.0, PoolLimits())
    assert slot.rows == 8


def test_a_chunk_found_to_crash_alone_gives_the_batch_its_rows_back() -> None:
    deadly = ChunkKey(0, 1)
    pool = SimulatedPool(1, rows=8, fate=Fate(deadly=frozenset({deadly}), ending="crashed"), duration=lambda _: 4.0)
    pool.scheduler.submit(0, [1.0] * 60, 0.0, listening=True)

    pool.at(300.0, lambda: pool._die(pool._processes[0]))
    pool.run(until=300.0)
    pool.scheduler.submit(1, [1.0] * 20, 300.0)
    pool.run()

    assert list(pool.given_up) == [deadly]
    begun = [rows for _, rows in pool.rows]
    assert begun[:2] == [8, 4]
    assert begun[-1] == 8
    assert spoken(pool) == sorted({*keys(60), *keys(20, 1)} - {deadly})
