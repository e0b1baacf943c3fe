"""The pool with real processes that are killed, stopped, out of memory or given what they cannot speak."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines import sound
from eventually import PATIENCE, eventually
from prometheus_client import CollectorRegistry

from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.placement import Refusal
from voxyard.speech.pool.ipc import SpeakChunk
from voxyard.speech.pool.job import ChunkFailedError, Job, JobEndedError, Outcome
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.pool import Command, Pool, SubmitJob
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request

QUICK = PoolLimits(backoff=0.01, max_backoff=0.05)
IMPATIENT = PoolLimits(backoff=0.01, max_backoff=0.05, heartbeat_timeout=10.0)  # far beyond a busy machine's beat
MakePool = Callable[..., Pool]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[MakePool]:
    """Makes pools of fake engines; closes them."""
    made: list[Pool] = []

    def make(
        workers: int = 2,
        *,
        limits: PoolLimits = QUICK,
        factory: str = "tones",
        observer: PoolMetrics | None = None,
        admit: Callable[[Device], Refusal | None] = lambda _: None,
        **settings: Any,
    ) -> Pool:
        devices = [Device(f"gpu {number}", str(number)) for number in range(workers)]
        engine = EngineSpec(f"engines:{factory}", {"marks": str(tmp_path), **settings})
        made.append(Pool(engine, devices, limits=limits, heartbeat_seconds=0.2, observer=observer, admit=admit))
        return made[-1]

    yield make
    for each in made:
        each.close(3.0)


def requests(count: int) -> list[Request]:
    return [Request(number, "text " * (1 + number * 7 % 5), voice="en_1", seed=7) for number in range(count)]


def outcomes(pool: Pool, asked: Sequence[Request], **options: Any) -> list[Outcome]:
    job = pool.submit(asked, **options)
    assert job.wait(PATIENCE), f"not finished: {job.progress}"
    return list(job.outcomes())


def assert_spoken(got: Sequence[Outcome], asked: Sequence[Request], *, samples: int = 240) -> None:
    """Every chunk once, in order, with the sound that its request means."""
    assert [outcome.request for outcome in got] == list(asked)
    for outcome in got:
        assert outcome.result is not None, outcome.failure
        np.testing.assert_array_equal(outcome.result.audio, sound(outcome.request, samples))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_sound_is_the_same_for_any_number_of_workers(pool: MakePool, workers: int) -> None:
    asked = requests(25)
    assert_spoken(outcomes(pool(workers), asked), asked)


@pytest.mark.parametrize("stage", ["create", "prepare", "speak", "between", "close"])
def test_a_worker_killed_in_any_stage_loses_no_chunk(pool: MakePool, stage: str, tmp_path: Path) -> None:
    asked = requests(25)
    speaking = pool(2, faults={stage: ["kill", 1]})

    got = outcomes(speaking, asked)
    speaking.close()

    assert_spoken(got, asked)
    assert (tmp_path / f"{stage}-0").exists()


@pytest.mark.slow
def test_a_worker_killed_while_it_hands_in_a_result_loses_no_chunk(pool: MakePool, tmp_path: Path) -> None:
    asked, samples = requests(6), 200_000  # some MB a chunk: the pipe is busy most of the time
    for number in range(3):  # one death each: a chunk that two processes died of is given up
        marks = tmp_path / str(number)
        marks.mkdir()
        got = outcomes(pool(2, samples=samples, marks=str(marks), faults={"speak": ["kill soon", 1]}), asked)
        assert_spoken(got, asked, samples=samples)


def test_a_worker_killed_from_outside_while_it_is_idle_loses_no_chunk(pool: MakePool) -> None:
    speaking, asked = pool(1), requests(8)
    outcomes(speaking, asked)
    pid = speaking.workers()[0].pid
    assert pid is not None

    os.kill(pid, signal.SIGKILL)

    assert_spoken(outcomes(speaking, asked), asked)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [pytest.param("prepare", marks=pytest.mark.long), "speak", "between"])
def test_a_stopped_worker_is_replaced_and_loses_no_chunk(pool: MakePool, stage: str) -> None:
    asked = requests(25)
    limits = replace(IMPATIENT, start_timeout=60.0) if stage == "prepare" else IMPATIENT
    speaking = pool(1, limits=limits, faults={stage: ["stop", 1]})

    got = outcomes(speaking, asked)

    assert_spoken(got, asked)
    assert [state.processes for state in speaking.workers()] == [2]


@pytest.mark.slow
def test_a_worker_stopped_in_the_middle_of_a_result_does_not_stop_the_others(pool: MakePool) -> None:
    speaking, asked, samples = pool(2, limits=IMPATIENT, rows=1, samples=100_000), requests(12), 100_000
    job = speaking.submit(asked)
    first = next(job.outcomes())
    assert first.result is not None

    pid = first.result.facts["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGSTOP)

    assert job.wait(PATIENCE)
    assert_spoken([first, *job.outcomes(1)], asked, samples=samples)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason"), [("hang", "made no progress on its chunks for 10 s"), ("stop", "sent no heartbeat for 10 s")]
)
def test_an_engine_that_hangs_in_mid_batch_is_ended_and_the_log_and_a_metric_say_so(
    pool: MakePool, fault: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    limits = PoolLimits(backoff=0.01, progress_timeout=10.0)
    asked, registry = requests(12), CollectorRegistry()
    speaking = pool(2, limits=limits, rows=2, faults={"between": [fault, 1]}, observer=PoolMetrics(registry))

    assert_spoken(outcomes(speaking, asked), asked)

    assert f"is killed (hung): {reason}" in caplog.text
    failures = [registry.get_sample_value("voxyard_bark_chunk_failures_total", {"reason": "hung", "gpu": f"gpu {n}"})
                for n in range(2)]  # fmt: skip
    assert sorted(found or 0 for found in failures) == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"seconds": 30.0}, {"seconds": 30.0, "pause": 60.0}])
def test_a_slow_engine_that_reports_or_has_asked_for_a_pause_is_not_ended(
    pool: MakePool, settings: dict[str, Any]
) -> None:
    speaking = pool(1, limits=PoolLimits(progress_timeout=10.0), rows=2, **settings)
    asked = requests(1)
    assert_spoken(outcomes(speaking, asked), asked)
    assert [state.processes for state in speaking.workers()] == [1]


@pytest.mark.slow
def test_a_driver_that_answers_late_at_one_gpu_costs_the_others_no_process(pool: MakePool) -> None:
    late: list[str] = []

    def admit(device: Device) -> Refusal | None:
        if device.name == "gpu 0":
            return None
        if not late and speaking.workers()[0].state == "busy":
            late.append(device.name)
            time.sleep(15.0)  # the pool hears nothing of its workers meanwhile
        return Refusal("driver", "the driver does not answer")

    asked = requests(12)
    limits = PoolLimits(progress_timeout=10.0, backoff=0.1, max_backoff=0.1)
    speaking = pool(2, limits=limits, rows=4, seconds=2.0, admit=admit)

    assert_spoken(outcomes(speaking, asked), asked)
    assert late
    assert speaking.workers()[0].processes == 1


def test_out_of_memory_makes_the_batch_smaller_and_says_so_in_the_outcome(pool: MakePool) -> None:
    asked = requests(16)

    got = outcomes(pool(1, rows=8, fits=2), asked)

    assert_spoken(got, asked)
    assert all(outcome.reduced for outcome in got)
    assert {outcome.result.facts["batch_size"] for outcome in got if outcome.result} == {2}


@pytest.mark.parametrize(("meant", "reduced"), [(0, False), (4, False), (8, True)])
def test_an_engine_that_begins_with_fewer_rows_says_so_in_the_outcome(
    pool: MakePool, meant: int, reduced: bool
) -> None:
    got = outcomes(pool(1, rows=4, meant_rows=meant), requests(5))

    assert [outcome.reduced for outcome in got] == [reduced] * 5


def test_out_of_memory_with_one_chunk_tries_another_worker(pool: MakePool) -> None:
    asked = requests(12)
    assert_spoken(outcomes(pool(2, rows=1, faults={"speak": ["memory", 1]}), asked), asked)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["cuda", "lost"])
def test_an_error_that_sticks_to_the_process_ends_it(pool: MakePool, fault: str) -> None:
    speaking, asked = pool(1, faults={"speak": [fault, 1]}), requests(3)

    got = outcomes(speaking, asked)

    assert_spoken(got, asked)
    assert [state.processes for state in speaking.workers()] == [2]


def test_a_crash_with_several_chunks_halves_the_rows_of_the_next_process(pool: MakePool) -> None:
    asked = requests(9)

    got = outcomes(pool(1, rows=8, faults={"between": ["cuda", 1]}), asked)

    assert_spoken(got, asked)
    assert {outcome.result.facts["batch_size"] for outcome in got if outcome.result} == {8, 4}
    assert all(outcome.reduced == (outcome.result.facts["batch_size"] == 4) for outcome in got if outcome.result)


def test_a_kill_for_want_of_memory_halves_the_rows_and_suspects_no_chunk(
    pool: MakePool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def memory_kills() -> int:
        return int((tmp_path / "between-0").exists())  # the kernel counts the kill that the engine plays

    monkeypatch.setattr("voxyard.speech.pool.worker_process.memory_kills", memory_kills)
    asked = requests(9)

    got = outcomes(pool(1, rows=8, faults={"between": ["kill", 1]}), asked)

    assert_spoken(got, asked)
    assert {outcome.result.facts["batch_size"] for outcome in got if outcome.result} == {8, 4}


def test_a_kill_from_outside_leaves_the_rows_as_they_are(pool: MakePool) -> None:
    asked = requests(9)

    got = outcomes(pool(1, rows=8, faults={"between": ["kill", 1]}), asked)

    assert_spoken(got, asked)
    assert {outcome.result.facts["batch_size"] for outcome in got if outcome.result} == {8}


def test_an_engine_that_raises_keeps_its_process(pool: MakePool) -> None:
    speaking, asked = pool(1, faults={"speak": ["a stumble", 1]}), requests(3)

    got = outcomes(speaking, asked)

    assert_spoken(got, asked)
    assert [state.processes for state in speaking.workers()] == [1]


@pytest.mark.parametrize("kind", ["poison", "deranging", "deadly"])
def test_a_poison_chunk_fails_alone_with_its_index_text_and_reason(pool: MakePool, kind: str) -> None:
    asked = requests(20)

    got = outcomes(pool(2, **{kind: [13]}), asked)

    failed = got.pop(13)
    assert_spoken(got, [request for request in asked if request.chunk != 13])
    assert failed.result is None
    assert failed.failure is not None
    assert (failed.failure.index, failed.failure.text) == (13, asked[13].text)
    said = {"poison": "'en_1' cannot say chunk 13", "deranging": "chunk 13 upsets", "deadly": "SIGKILL"}
    assert said[kind] in failed.failure.reason
    assert sorted(part.split(":")[0] for part in failed.failure.reason.split("; ")) == ["worker 0", "worker 1"]


def test_the_stream_ends_with_an_error_at_the_chunk_that_failed(pool: MakePool) -> None:
    job = pool(2, poison=[2]).submit(requests(6))
    heard: list[int] = []

    with pytest.raises(ChunkFailedError, match="chunk 2"):
        heard.extend(result.chunk for result in job.results())

    assert heard == [0, 1]
    assert job.wait(PATIENCE)
    assert (job.progress.done, job.progress.failed) == (6, 1)


def test_a_failed_chunk_becomes_as_much_silence_where_the_caller_asks_for_it(pool: MakePool) -> None:
    asked = [Request(number, "text", seconds=2.5) for number in range(5)]

    got = outcomes(pool(1, poison=[3]), asked, on_failure="silence")

    silent = got[3]
    assert silent.failure is not None
    assert silent.result is not None
    assert len(silent.result.audio) == 60_000
    assert not silent.result.audio.any()


@pytest.mark.slow
def test_an_engine_that_does_not_open_fails_the_job_with_the_reason(pool: MakePool) -> None:
    got = outcomes(pool(2, factory="broken"), requests(12))
    assert all(outcome.failure and "there are no weights here" in outcome.failure.reason for outcome in got)


def test_an_unknown_engine_fails_the_job_with_its_name(pool: MakePool) -> None:
    (got,) = outcomes(pool(1, factory="no_such_engine"), requests(1))
    assert got.failure is not None
    assert "no_such_engine" in got.failure.reason


def test_a_cancelled_job_ends_its_readers_and_leaves_the_others_alone(pool: MakePool) -> None:
    speaking, asked = pool(1, seconds=0.2, rows=1), requests(8)
    first, second = speaking.submit(requests(50)), speaking.submit(asked)

    first.cancel()

    with pytest.raises(JobEndedError, match="cancelled"):
        list(first.outcomes())
    assert second.wait(PATIENCE)
    assert_spoken(list(second.outcomes()), asked)


def until_worker_is(pool: Pool, state: str) -> None:
    eventually(lambda: pool.workers()[0].state == state, f"the worker is {state}")


def test_what_a_worker_has_of_a_cancelled_job_is_given_up_for_the_next(pool: MakePool) -> None:
    speaking = pool(1, seconds=3600.0, rows=2)
    first = speaking.submit(requests(5), listening=True)
    until_worker_is(speaking, "busy")

    first.cancel()

    until_worker_is(speaking, "ready")
    second = speaking.submit(requests(1))
    until_worker_is(speaking, "busy")
    second.cancel()
    until_worker_is(speaking, "ready")
    assert speaking.workers()[0].processes == 1


def test_a_reader_that_waits_for_a_chunk_is_told_that_its_job_was_cancelled() -> None:
    job = Job(0, requests(1), "fail", cancel=lambda: None, listen=lambda _: None)
    told: list[str] = []

    def read() -> None:
        with pytest.raises(JobEndedError) as ended:
            next(job.outcomes())
        told.append(str(ended.value))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    time.sleep(0.1)  # it waits now
    job.cancel()
    reader.join(PATIENCE)

    assert told == ["job 0 was cancelled"]


def test_closing_ends_every_process_and_tells_those_who_wait(pool: MakePool) -> None:
    speaking = pool(2, seconds=0.5, rows=1)
    job = speaking.submit(requests(40))
    next(job.outcomes())
    pids = [state.pid for state in speaking.workers() if state.pid]

    speaking.close(2.0)

    with pytest.raises(JobEndedError, match="closed"):
        list(job.outcomes(1))
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


class DelayedQueue:
    """The pool's queue of commands, with something that happens just before a job comes in."""

    def __init__(self, commands: Any, before_job: Callable[[], None]) -> None:
        self._commands, self._before_job = commands, before_job

    def put(self, command: Command) -> None:
        if isinstance(command, SubmitJob):
            self._before_job()
        self._commands.put(command)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._commands, name)


def test_a_job_submitted_while_the_pool_ends_is_ended_too(pool: MakePool) -> None:
    ending: Any = pool(1)
    closer = threading.Thread(target=ending.close)

    def close() -> None:
        closer.start()
        ending._thread.join(0.5)  # it may not end between the check that it runs and the job

    ending._commands = DelayedQueue(ending._commands, close)
    job = ending.submit(requests(1))
    closer.join()

    assert job.finished
    with pytest.raises(SpeechError, match="the pool was closed"):
        next(job.outcomes())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 4))])
def test_workers_killed_and_stopped_at_random_lose_and_double_nothing(pool: MakePool, seed: int) -> None:
    dice = random.Random(seed)
    limits = replace(IMPATIENT, heartbeat_timeout=5.0, start_timeout=60.0, max_deaths=50, max_failed_starts=50)
    speaking = pool(3, limits=limits, seconds=0.1, samples=10_000, rows=dice.randint(1, 6))
    first, second = requests(60), requests(30)
    jobs = [speaking.submit(first), speaking.submit(second, priority=1, listening=True)]

    for _ in range(8):
        jobs[0].wait(dice.uniform(0.05, 0.3))
        pids = [state.pid for state in speaking.workers() if state.pid is not None]
        if pids:
            _strike(dice.choice(pids), dice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP]))

    for job, asked in zip(jobs, (first, second), strict=True):
        assert job.wait(2 * PATIENCE), f"not finished: {job.progress}"
        assert_spoken(list(job.outcomes()), asked, samples=10_000)


def _strike(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself a moment ago
        os.kill(pid, number)


def test_a_receiver_gets_each_outcome_as_it_comes_and_the_job_keeps_none(pool: MakePool) -> None:
    heard: queue.Queue[Outcome] = queue.Queue()
    job = pool(workers=2).submit(requests(5), deliver=heard.put)

    assert job.wait(PATIENCE)
    outcomes = [heard.get(timeout=PATIENCE) for _ in range(5)]

    assert sorted(each.index for each in outcomes) == list(range(len(requests(5))))
    with pytest.raises(JobEndedError, match="another reader"):
        next(job.outcomes())


def test_an_outcome_that_was_read_is_not_waited_for_again(pool: MakePool) -> None:
    job = pool(workers=1).submit(requests(5))
    first = next(job.outcomes())

    assert first.index == 0
    with pytest.raises(JobEndedError, match="another reader"):
        next(job.outcomes())


def test_a_job_that_is_cancelled_as_its_chunk_fails_does_not_break_the_pool(pool: MakePool) -> None:
    speaking = pool(workers=1, poison=[1], rows=1)
    jobs: list[Job] = []

    def cancel_on_failure(outcome: Outcome) -> None:
        if outcome.failure is not None:
            jobs[0].cancel()

    jobs.append(speaking.submit(requests(5), listening=True, deliver=cancel_on_failure))
    assert jobs[0].wait(PATIENCE)

    assert_spoken(outcomes(speaking, requests(1)), requests(1))
    assert speaking.ended is None


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["hang", "stop"])
def test_a_pool_whose_workers_all_stall_as_they_start_says_so(pool: MakePool, fault: str, tmp_path: Path) -> None:
    """Services that share documents give them to others then; a worker that gets there after all ends it."""
    running = pool(2, limits=replace(QUICK, stall_timeout=0.2), faults={"prepare": [fault, 2]})
    job = running.submit([Request(number, "text") for number in range(12)])
    eventually((tmp_path / "prepare-1").exists, "both stall")
    waiting = eventually(lambda: running.waiting, "it says that its workers stall")
    assert waiting == "gpu 0: its model takes long to load; gpu 1: its model takes long to load"
    assert [each.state for each in running.workers()] == ["starting"] * 2
    _strike(running.workers()[1].pid or 0, signal.SIGKILL)  # its next process does not stall
    assert job.wait(PATIENCE)
    assert running.waiting is None


def test_one_worker_that_stalls_does_not_hold_up_what_the_others_do(pool: MakePool) -> None:
    running = pool(2, limits=replace(QUICK, stall_timeout=0.2), faults={"prepare": ["hang", 1]})
    assert running.submit([Request(number, "text") for number in range(12)]).wait(PATIENCE)
    assert running.waiting is None


class Unreadable(Exception):  # noqa: N818
    """What no reader expects."""


@pytest.mark.slow
@pytest.mark.parametrize("error", [Unreadable("?"), TypeError("no such message"), MemoryError(), KeyError("x")])
def test_a_reader_that_fails_ends_its_worker_and_no_chunk_is_lost(
    pool: MakePool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    left = [error]

    def fail_once() -> int:
        if left and threading.current_thread().name.startswith("reader of"):
            raise left.pop()
        return 0

    monkeypatch.setattr("voxyard.speech.pool.worker_process.memory_kills", fail_once)
    running = pool(1, heard=None, seconds=0.3)
    job = running.submit([Request(number, "text") for number in range(4)])
    eventually(lambda: not left, "the reader has failed")
    assert job.wait(PATIENCE)
    assert [outcome.failure for outcome in job.outcomes()] == [None] * 4
    assert f"its messages cannot be read: {type(error).__name__}" in caplog.text


def test_a_message_that_cannot_be_sent_ends_its_worker_and_no_chunk_is_lost(
    pool: MakePool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left, send = [1], Connection.send

    def fail_once(connection: Connection, message: object) -> None:
        if left and isinstance(message, SpeakChunk):
            left.pop()
            raise TypeError("cannot be pickled")
        send(connection, message)

    monkeypatch.setattr(Connection, "send", fail_once)
    running = pool(1)
    job = running.submit([Request(number, "text") for number in range(4)])
    assert job.wait(PATIENCE)
    assert [outcome.failure for outcome in job.outcomes()] == [None] * 4
    assert "SpeakChunk cannot be sent to it" in caplog.text
