"""Scheduling of chunks on a simulated clock: faults, batches, small and large documents."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from simulated_pool import LOOK, Fate, SimulatedPool

from voxyard.speech.config import SpeechSection
from voxyard.speech.pool.limits import PoolLimits, workers_wanted
from voxyard.speech.pool.queue import ChunkKey
from voxyard.speech.pool.scheduler import BeginWork, FailChunk, KillWorker, Scheduler, SendChunk, StartWorker


def keys(count: int, job: int = 0) -> list[ChunkKey]:
    return [ChunkKey(job, index) for index in range(count)]


def spoken(pool: SimulatedPool) -> list[ChunkKey]:
    return sorted(key for _, _, key in pool.spoken)


@pytest.mark.parametrize(("chunks", "workers"), [(1, 1), (4, 1), (5, 2), (10, 3), (11, 8), (200, 8)])
def test_a_small_document_starts_few_workers_and_a_large_one_all(chunks: int, workers: int) -> None:
    assert workers_wanted(chunks, 8) == workers


def test_four_chunks_are_not_kept_for_a_second_worker_that_still_starts() -> None:
    pool = SimulatedPool(2, rows=4, limits=PoolLimits(warm_workers=2), start=lambda slot: 100.0 * slot)
    pool.scheduler.submit(0, [1.0] * 4, 0.0)

    pool.run()

    assert {slot for _, slot, _ in pool.sent} == {0}
    assert pool.makespan < 100


def test_a_large_document_is_shared_with_workers_that_still_start() -> None:
    pool = SimulatedPool(4, rows=16, start=lambda slot: 1.0 + slot, duration=lambda _: 50.0)
    pool.scheduler.submit(0, [1.0] * 12, 0.0)

    pool.run()

    assert {slot for _, slot, _ in pool.spoken} == {0, 1, 2, 3}
    assert spoken(pool) == keys(12)


def test_a_worker_gets_a_chunk_for_each_row_and_for_each_row_that_is_free() -> None:
    pool = SimulatedPool(1, rows=3)
    pool.scheduler.submit(0, [1.0] * 10, 0.0)

    pool.run()

    assert max(held for _, held in pool.held) == 3
    assert pool.makespan < 4.0 + 6 * LOOK  # rows are refilled: ten chunks of a second in three rows


def test_a_row_that_is_free_gets_the_next_chunk_while_its_mates_speak_on() -> None:
    seconds = [9.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    pool = SimulatedPool(1, rows=2, duration=lambda key: seconds[key.index])
    pool.scheduler.submit(0, seconds, 0.0)

    pool.run()

    assert pool.makespan == pytest.approx(9.0)  # five seconds of chunks beside it, a look before each
    assert [key.index for _, _, key in pool.spoken] == [1, 2, 3, 4, 5, 0]


def test_one_chunk_at_a_time_where_the_limit_says_so() -> None:
    pool = SimulatedPool(1, rows=8, limits=PoolLimits(max_chunks=1))
    pool.scheduler.submit(0, [1.0] * 3, 0.0)

    pool.run()

    assert [held for _, held in pool.held] == [1, 1, 1]


def test_a_listener_hears_the_chunks_from_the_beginning() -> None:
    pool = SimulatedPool(1)
    pool.scheduler.submit(0, [1.0, 5.0, 9.0], 0.0, listening=True)

    pool.run()

    assert [key for _, _, key in pool.spoken] == keys(3)


def test_a_listener_who_comes_later_hears_the_chunks_from_the_beginning_too() -> None:
    pool = SimulatedPool(1)
    pool.scheduler.submit(0, [1.0, 5.0, 9.0], 0.0)
    pool.scheduler.listen(0, True)

    pool.run()

    assert [key for _, _, key in pool.spoken] == keys(3)


def test_a_killed_workers_chunks_are_spoken_by_others() -> None:
    pool = SimulatedPool(3, rows=4, duration=lambda _: 10.0)
    pool.scheduler.submit(0, [1.0] * 20, 0.0)

    pool.at(5.0, lambda: pool.scheduler.process_ended(0, 1, "killed by signal 9", 5.0))
    pool.run()

    assert spoken(pool) == keys(20)
    assert not pool.given_up


def test_a_worker_that_died_starts_again_after_a_pause_that_grows() -> None:
    limits = PoolLimits(backoff=2.0, max_backoff=5.0)
    assert [limits.backoff_after(times) for times in (1, 2, 3, 100)] == [2.0, 4.0, 5.0, 5.0]


def test_a_hung_worker_is_killed_and_its_batch_spoken_elsewhere() -> None:
    pool = SimulatedPool(2, fate=Fate(hang_share=0.1), seed=5)
    pool.scheduler.submit(0, [1.0] * 40, 0.0)

    pool.run()

    assert spoken(pool) == keys(40)
    assert pool.kills
    assert all("no heartbeat" in reason for _, reason in pool.kills)


def test_an_engine_that_hangs_while_heartbeats_go_on_is_found_in_half_a_minute_as_shipped() -> None:
    pool = SimulatedPool(2, rows=4, limits=SpeechSection().limits(), fate=Fate(stuck=frozenset({ChunkKey(0, 7)})))
    pool.scheduler.submit(0, [1.0] * 12, 0.0)
    killed: list[float] = []
    carry_out = pool._carry_out
    pool._carry_out = lambda action: (isinstance(action, KillWorker) and killed.append(pool.now), carry_out(action))  # type: ignore[assignment, func-returns-value]

    pool.run()

    hung = [when for when, _, key in pool.sent if key == ChunkKey(0, 7)]
    assert killed
    assert all(0 < kill - sent < 30 for kill, sent in zip(killed, hung, strict=True))
    assert all("made no progress on its chunks for 20 s" in reason for _, reason in pool.kills)
    assert list(pool.given_up) == [ChunkKey(0, 7)]
    assert spoken(pool) == [key for key in keys(12) if key.index != 7]


@pytest.mark.slow
def test_a_worker_that_reports_progress_may_take_an_hour_for_a_chunk() -> None:
    pool = SimulatedPool(1, rows=4, limits=SpeechSection().limits(), duration=lambda _: 3600.0)
    pool.scheduler.submit(0, [1.0] * 4, 0.0)

    pool.run()

    assert spoken(pool) == keys(4)
    assert not pool.kills


def test_a_worker_that_loads_may_be_silent_for_minutes_and_no_longer_than_its_start() -> None:
    """On a busy host the interpreter's lock, or the imports before the first heartbeat, take longer than a beat."""
    limits = SpeechSection().limits()
    scheduler = Scheduler(1, limits)
    scheduler.submit(0, [1.0], 0.0)
    scheduler.actions(0.0)
    assert scheduler.actions(limits.start_timeout - 1) == ()
    assert scheduler.next_deadline(limits.start_timeout - 1) == pytest.approx(1.0)
    scheduler.engine_ready(0, 1, 1, limits.start_timeout - 1)
    assert not any(isinstance(each, KillWorker) for each in scheduler.actions(limits.start_timeout))
    (killed, *_) = scheduler.actions(limits.start_timeout + limits.heartbeat_timeout)
    assert isinstance(killed, KillWorker)
    assert "no heartbeat" in killed.reason


def beating(progress: Callable[[int], int], pause: float = 0.0) -> Scheduler:
    """A worker with a chunk, whose heartbeats have come every second for 40 s."""
    scheduler = Scheduler(1)
    scheduler.submit(0, [1.0], 0.0)
    scheduler.actions(0.0)
    scheduler.engine_ready(0, 1, 1, 0.0)
    assert asking(scheduler, 0, 1)
    for second in range(1, 41):
        scheduler.heartbeat(0, 1, float(second), progress(second), pause)
    return scheduler


def test_heartbeats_without_another_report_of_progress_are_none() -> None:
    (killed, *_) = beating(lambda _: 7).actions(40.0)
    assert isinstance(killed, KillWorker)
    assert killed.cause == "hung"


def test_one_report_a_few_seconds_is_progress_enough() -> None:
    assert beating(lambda second: second // 15).actions(40.0) == ()


def test_a_pause_that_the_engine_has_asked_for_is_added_to_its_time() -> None:
    scheduler = beating(lambda _: 7, pause=30.0)
    assert scheduler.actions(40.0) == ()
    assert scheduler.next_deadline(50.0) == pytest.approx(1.0)
    scheduler.heartbeat(0, 1, 51.0, 7, 30.0)
    (killed, *_) = scheduler.actions(51.0)
    assert isinstance(killed, KillWorker)


def asking(scheduler: Scheduler, slot: int, times: int) -> tuple[SendChunk, ...]:
    """Chunks that a worker gets that asks so often."""
    for _ in range(times):
        scheduler.chunk_wanted(slot, 1, 0.0)
    return tuple(action for action in scheduler.actions(0.0) if isinstance(action, SendChunk))


def test_a_result_that_comes_after_the_lease_was_given_to_another_is_dropped() -> None:
    scheduler = Scheduler(1)
    scheduler.submit(0, [1.0, 1.0], 0.0)
    scheduler.actions(0.0)
    scheduler.engine_ready(0, 1, 2, 0.0)
    sent, _ = asking(scheduler, 0, 2)

    scheduler.process_ended(0, 1, "killed by signal 9", 0.6)

    assert not scheduler.chunk_done(0, 1, sent.lease, 0.7)


def test_a_worker_that_raised_begins_anew_and_has_to_ask_again() -> None:
    scheduler = Scheduler(1)
    scheduler.submit(0, [1.0, 1.0, 1.0], 0.0)
    scheduler.actions(0.0)
    scheduler.engine_ready(0, 1, 2, 0.0)
    first, other = asking(scheduler, 0, 2)
    assert scheduler.chunk_done(0, 1, first.lease, 0.5)

    scheduler.chunk_wanted(0, 1, 0.9)
    scheduler.engine_raised(0, 1, "a stumble", 1.0)

    assert scheduler.actions(1.0) == (BeginWork(0, 1, 2),)
    (second,) = asking(scheduler, 0, 1)
    assert not scheduler.chunk_done(0, 1, other.lease, 1.1)
    assert scheduler.chunk_done(0, 1, second.lease, 1.2)
    assert not scheduler.chunk_done(0, 1, second.lease, 1.3)


def test_who_has_the_fewest_gets_the_next_chunk() -> None:
    pool = SimulatedPool(2, rows=16, limits=PoolLimits(warm_workers=2), duration=lambda _: 10.0)
    pool.scheduler.submit(0, [1.0], 0.0)
    pool.run(until=1.0)

    pool.scheduler.submit(1, [1.0] * 11, 1.0)
    pool.run()

    assert sorted(pool.held[1:]) == [(0, 2), (0, 3), (0, 4), (0, 5), (0, 6), *((1, held) for held in range(1, 7))]


def test_out_of_memory_halves_the_rows_until_they_fit() -> None:
    pool = SimulatedPool(1, rows=8, fate=Fate(rows_that_fit={0: 3}))
    pool.scheduler.submit(0, [1.0] * 16, 0.0)

    pool.run()

    assert pool.rows == [(0, 8), (0, 4), (0, 2)]
    assert spoken(pool) == keys(16)
    assert not pool.given_up


def test_an_idle_worker_without_room_for_one_row_cools_down_and_does_not_begin_for_ever() -> None:
    scheduler = Scheduler(1)
    scheduler.submit(0, [1.0], 0.0)
    scheduler.actions(0.0)
    scheduler.engine_ready(0, 1, 1, 0.0)
    told = []
    for second in (1.0, 2.0):
        scheduler.engine_raised(0, 1, "no room for the cache", second, out_of_memory=True)
        told += [type(action).__name__ for action in scheduler.actions(second)]

    assert told == ["BeginWork", "BeginWork", "KillWorker"]
    assert scheduler.slots[0].phase == "resting"
    assert scheduler.stats().waiting == 1


def test_a_process_that_follows_another_begins_with_the_rows_that_were_left() -> None:
    pool = SimulatedPool(1, rows=8, fate=Fate(rows_that_fit={0: 4}), duration=lambda _: 10.0)
    pool.scheduler.submit(0, [1.0] * 16, 0.0)

    pool.at(20.0, lambda: pool.scheduler.process_ended(0, 1, "killed by signal 9", 20.0))
    pool.run()

    assert pool.rows == [(0, 8), (0, 4), (0, 4)]


def test_a_worker_without_room_for_one_chunk_rests_and_the_others_go_on() -> None:
    pool = SimulatedPool(3, fate=Fate(rows_that_fit={1: 0}))
    pool.scheduler.submit(0, [1.0] * 60, 0.0)

    pool.run()

    assert pool.kills == [(1, "out of memory")]
    assert spoken(pool) == keys(60)
    assert not pool.given_up


def test_what_a_worker_had_when_its_engine_raised_runs_one_by_one() -> None:
    pool = SimulatedPool(1, rows=3, fate=Fate(deranging=frozenset({ChunkKey(0, 0)})))
    pool.scheduler.submit(0, [1.0] * 4, 0.0)

    pool.run()

    assert [held for _, held in pool.held] == [1, 2, 3, 1, 1, 1, 1, 1]
    assert spoken(pool) == keys(4)[1:]
    assert list(pool.given_up) == [ChunkKey(0, 0)]


def test_one_worker_runs_the_suspects_one_by_one_while_the_others_go_on_refilling() -> None:
    pool = SimulatedPool(2, rows=4, limits=PoolLimits(warm_workers=2), duration=lambda _: 4.0)
    pool.scheduler.submit(0, [1.0] * 60, 0.0)

    pool.at(2.0, lambda: pool.scheduler.process_ended(0, 1, "killed by signal 9", 2.0))
    pool.run()

    suspects = {key for when, slot, key in pool.sent if slot == 0 and when < 2.0}
    again = [(slot, held) for (_, slot, key), (_, held) in zip(pool.sent, pool.held, strict=True) if key in suspects]
    assert again[4:] == [(0, 1)] * 4
    assert sum(slot == 1 and 2.0 < when < 18.0 for when, slot, _ in pool.spoken) >= 12  # four rows, three times
    assert spoken(pool) == keys(60)


def test_a_chunk_that_is_refused_costs_its_mates_nothing() -> None:
    pool = SimulatedPool(1, rows=4, fate=Fate(poison=frozenset({ChunkKey(0, 0)})))
    pool.scheduler.submit(0, [1.0] * 5, 0.0, listening=True)

    pool.run()

    assert sorted(key for _, _, key in pool.sent) == sorted([*keys(5), ChunkKey(0, 0)])
    assert spoken(pool) == keys(5)[1:]
    assert "cannot speak chunk 0" in pool.given_up[ChunkKey(0, 0)]


def test_a_chunk_that_fails_is_tried_on_another_worker_and_then_given_up() -> None:
    pool = SimulatedPool(2, fate=Fate(poison=frozenset({ChunkKey(0, 2)})))
    pool.scheduler.submit(0, [1.0] * 5, 0.0)

    pool.run()

    tries = [slot for _, slot, key in pool.sent if key == ChunkKey(0, 2)]
    assert sorted(tries) == [0, 1]
    assert "cannot speak chunk 2" in pool.given_up[ChunkKey(0, 2)]
    assert spoken(pool) == [key for key in keys(5) if key.index != 2]


def test_the_second_worker_is_started_for_the_second_try() -> None:
    pool = SimulatedPool(2, fate=Fate(poison=frozenset({ChunkKey(0, 0)})))
    pool.scheduler.submit(0, [1.0], 0.0)

    pool.run()

    assert [slot for _, slot, _ in pool.sent] == [0, 1]


def test_a_chunk_that_kills_its_workers_is_given_up_and_the_others_are_spoken() -> None:
    pool = SimulatedPool(2, rows=4, fate=Fate(deadly=frozenset({ChunkKey(0, 3)})))
    pool.scheduler.submit(0, [1.0] * 24, 0.0)

    pool.run()

    assert list(pool.given_up) == [ChunkKey(0, 3)]
    assert spoken(pool) == [key for key in keys(24) if key.index != 3]


def test_a_worker_that_cannot_start_is_given_up_after_three_tries() -> None:
    pool = SimulatedPool(2, limits=PoolLimits(start_timeout=10, heartbeat_timeout=1000), start=lambda _: 1e9)
    pool.scheduler.submit(0, [1.0] * 12, 0.0)

    pool.run()

    assert sorted(pool.given_up) == keys(12)
    assert all("did not load its engine within 10 s" in reason for reason in pool.given_up.values())
    assert [slot.generation for slot in pool.scheduler.slots] == [3, 3]


def test_a_cancelled_job_is_spoken_no_further() -> None:
    pool = SimulatedPool(1, duration=lambda _: 10.0)
    pool.scheduler.submit(0, [1.0] * 5, 0.0)
    pool.scheduler.submit(1, [1.0] * 2, 0.0)

    pool.at(15.0, lambda: pool.scheduler.cancel(0))
    pool.run()

    assert [key for _, _, key in pool.spoken] == [
        ChunkKey(0, 0),
        ChunkKey(1, 0),
        ChunkKey(1, 1),
    ]  # one is dropped that it had


def test_a_pause_of_the_owner_is_nobodys_silence() -> None:
    pool = SimulatedPool(1, duration=lambda _: 500.0)
    pool.scheduler.submit(0, [1.0], 0.0)
    pool.run(until=10.0)

    pool.scheduler.resumed(200.0)

    assert pool.scheduler.actions(200.0) == ()
    assert [type(action) for action in pool.scheduler.actions(230.0)] == [KillWorker]  # nothing came afterwards either


@pytest.mark.parametrize("seed", [*range(25), *(pytest.param(n, marks=pytest.mark.long) for n in range(25, 100))])
def test_nothing_is_lost_or_doubled_in_a_random_schedule(seed: int) -> None:
    dice = random.Random(seed)
    slots = dice.randint(1, 8)
    counts = [dice.randint(1, 60) for _ in range(dice.randint(1, 3))]
    everything = [ChunkKey(job, index) for job, count in enumerate(counts) for index in range(count)]
    poison = frozenset(dice.sample(everything, k=min(len(everything), dice.choice([0, 0, 1, 3]))))
    deranging = frozenset(dice.sample(everything, k=min(len(everything), dice.choice([0, 0, 1]))))
    fate = Fate(
        poison=poison,
        deranging=deranging,
        rows_that_fit={slot: dice.randint(1, 4) for slot in range(slots) if dice.random() < 0.3},
        death_share=dice.choice([0, 0.05, 0.15]),
        hang_share=dice.choice([0, 0.05]),
    )
    pool = SimulatedPool(
        slots,
        limits=PoolLimits(max_deaths=50),  # kills from outside must not look like a chunk's own doing, however many
        rows=dice.randint(1, 8),
        start=lambda _: dice.uniform(0, 30),
        duration=lambda _: dice.uniform(0.5, 2.0),
        fate=fate,
        seed=seed,
    )
    for job, count in enumerate(counts):
        estimates = [dice.uniform(0.5, 13) for _ in range(count)]
        pool.scheduler.submit(job, estimates, 0.0, priority=dice.randint(0, 1), listening=dice.random() < 0.3)

    pool.run()

    assert spoken(pool) == sorted(set(everything) - poison - deranging)
    assert set(pool.given_up) == poison | deranging


def test_a_gpu_that_has_no_room_for_an_hour_fails_no_chunk() -> None:
    pool = SimulatedPool(1, rows=4, refuse=lambda _, now: now < 3600.0)
    pool.scheduler.submit(0, [1.0] * 6, 0.0)

    pool.run()

    assert spoken(pool) == keys(6)
    assert pool.given_up == {}
    assert [when for when, _ in pool.refusals[:4]] == pytest.approx([0.0, 1.0, 3.0, 7.0], abs=0.01)
    assert len(pool.refusals) < 3600 / pool.scheduler.limits.max_backoff + 10
    assert pool.makespan < 3600 + pool.scheduler.limits.max_backoff + 10


def test_while_one_gpu_has_no_room_the_others_speak_also_what_failed_there_once() -> None:
    unlucky = ChunkKey(0, 1)
    pool = SimulatedPool(2, fate=Fate(poison=frozenset({unlucky})), refuse=lambda slot, _: slot == 0)
    pool.scheduler.submit(0, [1.0] * 6, 0.0)

    pool.run()

    assert spoken(pool) == [key for key in keys(6) if key != unlucky]
    assert set(pool.given_up) == {unlucky}
    assert pool.scheduler.stats().expected == 1


def test_a_device_that_says_how_long_to_wait_is_not_tried_before() -> None:
    scheduler = Scheduler(1)
    scheduler.submit(0, [1.0], 0.0)
    (start,) = scheduler.actions(0.0)
    assert isinstance(start, StartWorker)
    scheduler.start_refused(0, start.generation, 0.0, 30.0)
    assert scheduler.actions(29.0) == ()
    assert len(scheduler.actions(30.0)) == 1


def test_a_refusal_between_failed_starts_does_not_count_as_one() -> None:
    scheduler = Scheduler(1)
    scheduler.submit(0, [1.0], 0.0)
    for number in range(9):
        (start,) = scheduler.actions(100.0 * number)
        assert isinstance(start, StartWorker)
        if number % 4 == 3:
            scheduler.process_ended(0, start.generation, "there is no model here", 100.0 * number)
        else:
            scheduler.start_refused(0, start.generation, 100.0 * number)

    assert scheduler.slots[0].failed_starts == 2
    (start,) = scheduler.actions(1000.0)
    scheduler.process_ended(0, start.generation, "there is no model here", 1000.0)  # type: ignore[union-attr]
    (given_up,) = scheduler.actions(1000.0)
    assert given_up == FailChunk(
        ChunkKey(0, 0), "no worker", "no worker could be started: worker 0: there is no model here"
    )
