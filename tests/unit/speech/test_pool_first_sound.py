"""First sound: what a listener hears first is decoded at once, alone on its worker, before all other chunks."""

from __future__ import annotations

import numpy as np
import pytest
from eventually import PATIENCE
from simulated_pool import SimulatedPool

from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.job import FirstSound
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.queue import ChunkKey
from voxyard.speech.pool.scheduler import Scheduler, SendChunk
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request, Result

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


def chunk(number: int, *parts: tuple[float, float]) -> Result:
    """A chunk of parts, each (seconds, level)."""
    audio = np.concatenate([np.full(round(seconds * 24_000), level, np.float32) for seconds, level in parts])
    return Result(number, audio)


def test_silence_before_the_first_audible_sample_counts_as_waiting() -> None:
    first = FirstSound(100.0)
    assert first.add(0, chunk(0, (0.5, 1e-4), (2.0, 0.3)), 104.0) == pytest.approx(4.5)


def test_a_chunk_that_is_there_too_early_is_not_heard_and_a_silent_one_is_played_to_its_end() -> None:
    first = FirstSound(0.0)
    assert first.add(1, chunk(1, (0.1, 0.0), (1.0, 0.3)), 2.0) is None
    assert first.add(0, chunk(0, (3.0, 0.0)), 4.0) == pytest.approx(4.0 + 3.0 + 0.1)


def test_a_silent_beginning_is_over_when_the_next_chunk_is_there() -> None:
    first = FirstSound(0.0)
    assert first.add(0, chunk(0, (1.0, 0.0)), 1.0) is None
    assert first.add(1, chunk(1, (1.0, 0.3)), 9.0) == pytest.approx(9.0)


class Heard(PoolMetrics):
    """The times to first sound of a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def first_audio(self, seconds: float) -> None:
        self.seconds.append(seconds)


def test_the_time_to_first_sound_is_told_for_those_who_listen_and_once_each() -> None:
    heard = Heard()
    asked = [Request(number, "text") for number in range(5)]
    with Pool(EngineSpec("engines:tones", {"rows": 2}), [Device("cpu0")], observer=heard) as pool:
        assert pool.submit(asked).wait(60)
        assert heard.seconds == []

        assert pool.submit(asked, listening=True).wait(60)
        assert len(heard.seconds) == 1

        late = pool.submit(asked)
        late.listen()  # before anything is spoken of it, or afterwards: then there is nothing to wait for
        assert late.wait(PATIENCE)
        left = pool.submit([Request(0, "text " * 2000)], listening=True)
        left.listen(False)
        assert left.wait(PATIENCE)

    assert 1 <= len(heard.seconds) <= 2
    assert all(0 < seconds < 60 for seconds in heard.seconds)


def test_silence_in_place_of_a_chunk_that_failed_is_not_heard() -> None:
    heard = Heard()
    asked = [Request(number, "text", seconds=0.5) for number in range(3)]
    with Pool(EngineSpec("engines:tones", {"poison": [0]}), [Device("cpu0")], observer=heard) as pool:
        assert pool.submit(asked, listening=True, on_failure="silence").wait(60)

    assert len(heard.seconds) == 1
    assert heard.seconds[0] > 0.5
