"""A worker's process by itself: what it says over its pipe, and when it ends."""

from __future__ import annotations

import os
import queue
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eventually import PATIENCE

from voxyard.speech.engine import Answer, ChunkSource, EngineLostError, EngineSpec, is_lost
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.ipc import (
    BeginDecoding,
    CancelChunk,
    ChunkDone,
    ChunkWanted,
    EngineFailed,
    EngineRaised,
    EngineReady,
    FromWorker,
    Heartbeat,
    OpenEngine,
    SpeakChunk,
    StopWorker,
)
from voxyard.speech.pool.worker import PoolChunkSource, PoolConnection
from voxyard.speech.pool.worker_process import Device, PipedProcess, ProcessEnded, WorkerProcess
from voxyard.speech.requests import Cancelled, Request, Result, Unspeakable


class Line:
    """The pool's end of a worker's pipe."""

    def __init__(self, connection: Connection, process: subprocess.Popen[bytes]) -> None:
        self.connection, self.process = connection, process

    def say(self, message: object) -> None:
        self.connection.send(message)

    def hear(self, *passed_over: type[FromWorker]) -> FromWorker:
        """The next message that is no heartbeat."""
        while True:
            assert self.connection.poll(60), "the worker says nothing"
            message: FromWorker = self.connection.recv()
            if not isinstance(message, (Heartbeat, *passed_over)):
                return message

    def says_more(self) -> bool:
        """True where anything but signs of life comes in half a second."""
        end = time.monotonic() + 0.5
        while self.connection.poll(max(0.0, end - time.monotonic())):
            if not isinstance(self.connection.recv(), Heartbeat):
                return True
        return False

    def hear_answer(self) -> FromWorker:
        """The next message but what it wants."""
        return self.hear(ChunkWanted)

    def ask(self, *numbers: int) -> None:
        """Chunks under leases of ten times their number."""
        for number in numbers:
            self.say(SpeakChunk(10 * number, Request(number, "text")))


@pytest.fixture
def line() -> Iterator[Line]:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "voxyard.speech.pool.worker", str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    theirs.close()
    made = Line(Connection(ours.detach()), process)
    yield made
    made.connection.close()
    process.kill()
    process.wait()


def opened(line: Line, factory: str = "engines:tones", **settings: Any) -> Line:
    line.say(OpenEngine(EngineSpec(factory, settings), 0.1))
    assert isinstance(line.hear(), EngineReady)
    line.say(BeginDecoding(4))
    return line


def test_it_asks_for_a_chunk_for_each_row_and_again_for_each_row_that_is_free(line: Line) -> None:
    opened(line, rows=2)
    assert [line.hear(), line.hear()] == [ChunkWanted(), ChunkWanted()]

    line.ask(1, 2)
    said = [line.hear() for _ in range(4)]

    answers = [each for each in said if isinstance(each, ChunkDone)]
    assert [each.lease for each in answers] == [10, 20]
    assert said.count(ChunkWanted()) == 2
    assert not line.says_more()


def test_a_chunk_that_has_come_is_taken_without_waiting_while_mates_are_under_way() -> None:
    ours, theirs = (Connection(each.detach()) for each in socket.socketpair())
    with ours, theirs:
        source = PoolChunkSource(PoolConnection(theirs))
        assert source.take(2, wait=False) == []
        ours.send(SpeakChunk(1, Request(7, "text")))

        assert [each.chunk for each in source.take(2, wait=False)] == [7]
        assert source.take(1, wait=False) == []


def test_a_chunk_that_is_cancelled_leaves_its_row_to_the_next(line: Line) -> None:
    opened(line, seconds=3600.0, rows=1).ask(1)
    line.say(CancelChunk(10))

    answer = line.hear_answer()

    assert isinstance(answer, ChunkDone)
    assert (answer.lease, answer.answer) == (10, Cancelled())
    assert line.hear() == ChunkWanted()


def test_a_chunk_is_cancelled_too_late_when_it_was_answered(line: Line) -> None:
    opened(line).ask(1)
    first = line.hear_answer()
    line.say(CancelChunk(10))
    line.ask(2)

    answers = [first, line.hear_answer()]

    assert [each.lease for each in answers if isinstance(each, ChunkDone)] == [10, 20]
    assert not any(isinstance(each, ChunkDone) and isinstance(each.answer, Cancelled) for each in answers)


def test_a_chunk_that_is_cancelled_before_it_is_taken_is_asked_for_anew() -> None:
    ours, theirs = (Connection(each.detach()) for each in socket.socketpair())
    with ours, theirs:
        source = PoolChunkSource(PoolConnection(theirs))
        source.take(1, wait=False)
        ours.send(SpeakChunk(1, Request(7, "text")))
        ours.send(CancelChunk(1))

        assert source.take(1, wait=False) == []
        said = [ours.recv() for _ in range(3)]

    assert [type(each) for each in said] == [ChunkWanted, ChunkDone, ChunkWanted]
    assert said[1].answer == Cancelled()


def test_of_equal_chunks_the_one_that_was_cancelled_gets_no_sound() -> None:
    ours, theirs = (Connection(each.detach()) for each in socket.socketpair())
    with ours, theirs:
        source = PoolChunkSource(PoolConnection(theirs))
        for message in (SpeakChunk(1, Request(7, "text")), SpeakChunk(2, Request(7, "text"))):
            ours.send(message)
        (chunk, _) = source.take(2, wait=False)
        ours.send(CancelChunk(1))

        assert source.cancelled() == (chunk,)
        assert source.cancelled() == ()
        with pytest.raises(ValueError, match="which it does not have"):
            source.complete(Request(8, "text"))
        assert source.complete(chunk) == 2
        assert source.complete(chunk, cancelled=True) == 1


def test_an_engine_that_ceases_to_speak_what_is_wanted_is_refused() -> None:
    ours, theirs = (Connection(each.detach()) for each in socket.socketpair())
    with ours, theirs:
        source = PoolChunkSource(PoolConnection(theirs))
        ours.send(SpeakChunk(1, Request(7, "text")))
        (chunk,) = source.take(1, wait=False)

        with pytest.raises(ValueError, match="not cancelled"):
            source.complete(chunk, cancelled=True)


def test_equal_chunks_are_answered_each_under_its_lease(line: Line) -> None:
    opened(line)
    for lease in (5, 6):
        line.say(SpeakChunk(lease, Request(0, "text")))

    leases = {message.lease for _ in range(2) if isinstance(message := line.hear_answer(), ChunkDone)}

    assert leases == {5, 6}


def test_what_was_under_way_when_it_raised_is_passed_over(line: Line) -> None:
    opened(line, deranging=[0]).ask(0)
    assert isinstance(line.hear_answer(), EngineRaised)

    line.ask(1)  # before the pool knew
    line.say(BeginDecoding(4))
    line.ask(2)

    answer = line.hear_answer()
    assert isinstance(answer, ChunkDone)
    assert answer.lease == 20


def test_it_gives_signs_of_life_while_it_speaks(line: Line) -> None:
    opened(line, seconds=1.0).ask(0)
    while isinstance(message := line.connection.recv(), ChunkWanted):
        pass
    assert isinstance(message, Heartbeat)


def test_it_closes_its_engine_and_ends_when_told_to_stop(line: Line, tmp_path: Path) -> None:
    opened(line, marks=str(tmp_path), faults={"close": ["memory", 0]}).say(StopWorker())
    assert line.process.wait(PATIENCE) == 0


def test_it_ends_when_its_pool_is_gone(line: Line) -> None:
    opened(line).connection.close()
    assert line.process.wait(PATIENCE) == 4


def test_it_ends_in_mid_batch_when_its_pool_is_gone(line: Line, tmp_path: Path) -> None:
    opened(line, marks=str(tmp_path), faults={"speak": ["hang", 1]}).ask(0)
    line.connection.close()
    assert line.process.wait(PATIENCE) == 4


def test_what_an_engine_raises_is_told_and_the_next_chunk_is_spoken(line: Line) -> None:
    opened(line, deranging=[0]).ask(0)
    failed = line.hear_answer()
    line.say(BeginDecoding(4))
    line.ask(1)

    assert isinstance(failed, EngineRaised)
    assert not failed.out_of_memory
    assert "chunk 0 upsets the engine" in failed.reason
    assert isinstance(line.hear_answer(), ChunkDone)


def test_a_chunk_that_its_engine_refuses_is_told_with_the_reason_and_the_next_is_spoken(line: Line) -> None:
    opened(line, poison=[0]).ask(0, 1)

    refused, spoken = line.hear_answer(), line.hear_answer()

    assert isinstance(refused, ChunkDone)
    assert isinstance(spoken, ChunkDone)
    assert refused.answer == Unspeakable("voice None cannot say chunk 0")
    assert isinstance(spoken.answer, Result)


def test_a_full_device_is_told_apart_and_fewer_rows_are_used_from_then_on(line: Line, tmp_path: Path) -> None:
    opened(line, marks=str(tmp_path), faults={"speak": ["memory", 1]}).ask(0)
    failed = line.hear_answer()
    line.say(BeginDecoding(2))

    assert isinstance(failed, EngineRaised)
    assert failed.out_of_memory
    line.ask(0)
    answer = line.hear_answer()
    assert isinstance(answer, ChunkDone)
    assert isinstance(answer.answer, Result)
    assert answer.answer.facts["batch_size"] == 2


def test_a_process_may_begin_with_fewer_rows_than_its_engine_has(line: Line) -> None:
    line.say(OpenEngine(EngineSpec("engines:tones", {"rows": 4}), 0.1))
    assert isinstance(line.hear(), EngineReady)

    line.say(BeginDecoding(1))

    assert line.hear() == ChunkWanted()
    assert not line.says_more()


def test_an_error_that_sticks_ends_the_process_with_its_reason(line: Line, tmp_path: Path) -> None:
    opened(line, marks=str(tmp_path), faults={"speak": ["cuda", 1]}).ask(0)
    assert line.hear_answer() == EngineFailed("RuntimeError: CUDA error: device-side assert triggered")
    assert line.process.wait(PATIENCE) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("too_few", "ended with 1 chunks unanswered"),
        ("too_many", "answered chunk 0, which it does not have"),
        ("swapped", r"answered chunk \d with chunk \d"),
        ("no_numbers", "NaN or infinite"),
        ("doubles", "float64"),
        ("stereo", r"\(2, 5\)"),
    ],
)
def test_answers_that_nobody_could_join_are_refused(line: Line, answer: str, complaint: str) -> None:
    opened(line, "test_worker:odd", answer=answer).ask(0, 1)

    message = line.hear(ChunkWanted, ChunkDone)

    assert isinstance(message, EngineRaised)
    assert re.search(complaint, message.reason)


def odd(settings: dict[str, str]) -> OddEngine:
    """A factory of engines that answer wrongly."""
    return OddEngine(settings["answer"])


class OddEngine:
    def __init__(self, answer: str) -> None:
        self._answer = answer

    def prepare(self) -> Any:
        from voxyard.speech.engine import Ready

        return Ready(4)

    def speak(self, source: ChunkSource) -> Iterator[Answer]:
        requests: list[Request] = []
        while len(requests) < 2:
            requests += source.take(2 - len(requests), wait=True)
        good = [Result(request.chunk, np.zeros(5, np.float32)) for request in requests]
        bad: dict[str, Any] = {"no_numbers": np.full(5, np.nan, np.float32), "doubles": np.zeros(5)}
        bad["stereo"] = np.zeros((2, 5), np.float32)
        match self._answer:
            case "too_few":
                yield requests[0], good[0]
            case "too_many":
                yield from zip([*requests, requests[0]], [*good, good[0]], strict=True)
            case "swapped":
                yield from zip(requests, good[::-1], strict=True)
            case _:
                yield from ((request, Result(request.chunk, bad[self._answer])) for request in requests)

    def shrink(self, rows: int) -> None:
        raise AssertionError(f"not asked to: {rows}")


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (EngineLostError("gone"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), True),
        (RuntimeError("the sizes do not match"), False),
        (ValueError("CUDA error is not what this is"), False),
    ],
)
def test_errors_that_only_a_new_process_gets_over_are_known(error: Exception, lost: bool) -> None:
    assert is_lost(error) is lost


@pytest.mark.parametrize("name", ["engines", "engines:", ":tones"])
def test_an_engines_name_must_have_module_and_factory(name: str) -> None:
    with pytest.raises(SpeechError, match=r"expected package\.module:factory"):
        EngineSpec(name)


def test_an_engines_settings_must_be_json() -> None:
    with pytest.raises(SpeechError, match="JSON"):
        EngineSpec("engines:tones", {"model": Path("bark")})


@pytest.fixture
def worker_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcess]:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    process = WorkerProcess(Device("gpu", "GPU-77"), EngineSpec("engines:tones"), 0.1, lambda _: None)
    yield process
    process.kill()
    assert process.join(60)


def test_a_process_numbers_its_gpus_as_the_driver_does(worker_process: WorkerProcess) -> None:
    environment = Path(f"/proc/{worker_process.pid}/environ").read_bytes().split(b"\0")
    assert {b"CUDA_DEVICE_ORDER=PCI_BUS_ID", b"CUDA_VISIBLE_DEVICES=GPU-77"} <= set(environment)


def test_a_process_has_a_group_of_its_own_which_ctrl_c_does_not_reach(worker_process: WorkerProcess) -> None:
    """A terminal sends it to the pool's group."""
    assert os.getpgid(worker_process.pid) == worker_process.pid != os.getpgrp()


def test_the_device_is_in_the_environment_before_anything_is_imported() -> None:
    said: list[object] = []
    process = WorkerProcess(Device("gpu", "GPU-77"), EngineSpec("engines:tones"), 0.1, said.append)

    process.send(StopWorker())

    assert process.join(60)
    readies = [message.ready for message in said if isinstance(message, EngineReady)]
    assert readies[0].facts["gpus"] == "GPU-77"
    assert said[-1] == ProcessEnded("its process ended with status 0")


def test_a_process_starts_in_its_parents_folder_and_not_in_one_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell stays in a folder that was removed; torch loads no library there."""
    (tmp_path / "telling.py").write_text(f"import os\nopen({str(tmp_path / 'told')!r}, 'a').write(os.getcwd() + ' ')\n")
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for _ in range(2):
        messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        PipedProcess("telling", None, messages.put, environment={})
        assert isinstance(messages.get(timeout=PATIENCE), ProcessEnded)
        shutil.rmtree(folder, ignore_errors=True)
    assert (tmp_path / "told").read_text().split() == [str(folder), "/"]
