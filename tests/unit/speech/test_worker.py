"""A worker's process by itself: what it says over its pipe, and when it ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voxyard.speech.engine import EngineLostError, EngineName, is_lost
from voxyard.speech.errors import SpeechError
from voxyard.speech.messages import Beat, Ended, FromWorker, Lost, Open, Opened, Raised, Speak, Spoken, Stop
from voxyard.speech.process import Device, Gone, WorkerProcess
from voxyard.speech.queue import Key
from voxyard.speech.requests import Request, Result


class Line:
    """The pool's end of a worker's pipe."""

    def __init__(self, connection: Connection, process: subprocess.Popen[bytes]) -> None:
        self.connection, self.process = connection, process

    def say(self, message: object) -> None:
        self.connection.send(message)

    def hear(self) -> FromWorker:
        """The next message that is no sign of life."""
        while True:
            assert self.connection.poll(60), "the worker says nothing"
            message: FromWorker = self.connection.recv()
            if not isinstance(message, Beat):
                return message

    def ask(self, *numbers: int, lease: int = 0, rows: int = 4) -> None:
        self.say(Speak(lease, rows, tuple((Key(0, number), Request(number, "text")) for number in numbers)))


@pytest.fixture
def line() -> Iterator[Line]:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "voxyard.speech.worker", str(theirs.fileno())],
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
    line.say(Open(EngineName(factory, settings), 0.1))
    assert isinstance(line.hear(), Opened)
    return line


def test_a_batch_is_handed_in_chunk_by_chunk_and_then_ended(line: Line) -> None:
    opened(line).ask(0, 1, lease=9)

    first, second, end = line.hear(), line.hear(), line.hear()

    assert isinstance(first, Spoken)
    assert isinstance(second, Spoken)
    assert (first.lease, first.chunk, second.chunk) == (9, Key(0, 0), Key(0, 1))
    assert end == Ended(9)


def test_it_gives_signs_of_life_while_it_speaks(line: Line) -> None:
    opened(line, seconds=1.0).ask(0)
    assert line.connection.poll(60)
    assert isinstance(line.connection.recv(), Beat)


def test_it_closes_its_engine_and_ends_when_told_to_stop(line: Line, tmp_path: Path) -> None:
    opened(line, marks=str(tmp_path), faults={"close": ["memory", 0]}).say(Stop())
    assert line.process.wait(60) == 0


def test_it_ends_when_its_pool_is_gone(line: Line) -> None:
    opened(line).connection.close()
    assert line.process.wait(60) == 4


def test_it_ends_in_mid_batch_when_its_pool_is_gone(line: Line, tmp_path: Path) -> None:
    opened(line, marks=str(tmp_path), faults={"speak": ["hang", 1]}).ask(0)
    line.connection.close()
    assert line.process.wait(60) == 4


def test_what_an_engine_raises_is_told_and_the_next_batch_is_spoken(line: Line) -> None:
    opened(line, poison=[0]).ask(0)
    failed = line.hear()
    line.ask(1, lease=1)

    assert isinstance(failed, Raised)
    assert (failed.lease, failed.memory) == (0, False)
    assert "cannot say chunk 0" in failed.reason
    assert isinstance(line.hear(), Spoken)


def test_a_full_device_is_told_apart(line: Line) -> None:
    opened(line, fits=1).ask(0, 1)
    failed = line.hear()
    assert isinstance(failed, Raised)
    assert failed.memory


def test_an_error_that_sticks_ends_the_process_with_its_reason(line: Line, tmp_path: Path) -> None:
    opened(line, marks=str(tmp_path), faults={"speak": ["cuda", 1]}).ask(0)
    assert line.hear() == Lost("RuntimeError: CUDA error: device-side assert triggered")
    assert line.process.wait(60) == 3


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("too_few", "gave 1 results for 2 chunks"),
        ("too_many", "more than 2 results"),
        ("swapped", "answers chunk 0 with chunk 1"),
        ("no_numbers", "no numbers"),
        ("doubles", "float64"),
        ("stereo", r"(2, 5)"),
    ],
)
def test_answers_that_nobody_could_join_are_refused(line: Line, answer: str, complaint: str) -> None:
    opened(line, "test_worker:odd", answer=answer).ask(0, 1)

    message = line.hear()
    while isinstance(message, Spoken):
        message = line.hear()

    assert isinstance(message, Raised)
    assert complaint in message.reason


def odd(settings: dict[str, str]) -> OddEngine:
    """A factory of engines that answer wrongly."""
    return OddEngine(settings["answer"])


class OddEngine:
    def __init__(self, answer: str) -> None:
        self._answer = answer

    def prepare(self) -> Any:
        from voxyard.speech.engine import Ready

        return Ready(4)

    def speak(self, batch: list[Request]) -> list[Result]:
        good = [Result(request.chunk, np.zeros(5, np.float32)) for request in batch]
        bad: dict[str, Any] = {"no_numbers": np.full(5, np.nan, np.float32), "doubles": np.zeros(5)}
        bad["stereo"] = np.zeros((2, 5), np.float32)
        match self._answer:
            case "too_few":
                return good[:-1]
            case "too_many":
                return good + good[:1]
            case "swapped":
                return good[::-1]
        return [Result(request.chunk, bad[self._answer]) for request in batch]

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
        EngineName(name)


def test_an_engines_settings_must_be_json() -> None:
    with pytest.raises(SpeechError, match="JSON"):
        EngineName("engines:tones", {"model": Path("bark")})


def test_the_device_is_in_the_environment_before_anything_is_imported() -> None:
    said: list[object] = []
    process = WorkerProcess(Device("gpu", "GPU-77"), EngineName("engines:tones"), 0.1, said.append)

    process.send(Stop())

    assert process.join(60)
    readies = [message.ready for message in said if isinstance(message, Opened)]
    assert readies[0].facts["gpus"] == "GPU-77"
    assert said[-1] == Gone("its process ended with status 0")
