"""Fine stage, codec and check beside the causal stages: the same bytes, and no chunk is held up or lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from eventually import PATIENCE
from pydantic import ValidationError
from spoken import ListSource, speak

from voxyard.bark import quality
from voxyard.bark.attempts import ChunkInFlight
from voxyard.bark.config import BarkConfig
from voxyard.bark.engine import BarkEngine
from voxyard.bark.finishing import Beside, Decoded
from voxyard.bark.model import codec
from voxyard.speech.requests import Request

Make = Callable[..., BarkEngine]


@pytest.fixture
def engine(tiny_model: Path) -> Make:
    """Makes engines on the tiny model, ready to speak."""

    def make(finish: Literal["after", "beside"] = "beside", **settings: Any) -> BarkEngine:
        made = BarkEngine(BarkConfig(model=tiny_model, device="cpu", finish=finish, **settings))
        made.prepare()
        return made

    return make


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert "finishing" not in {each.name for each in threading.enumerate()}


def requests(count: int = 6) -> list[Request]:
    return [Request(n, f"Is it number {n}? " * (1 + n % 3), seed=7) for n in range(count)]


def test_the_bytes_are_those_of_one_thread(engine: Make) -> None:
    asked = requests()
    expected = {each.chunk: each.audio.tobytes() for each in speak(engine("after", batch_size=3), asked)}

    assert {each.chunk: each.audio.tobytes() for each in speak(engine(batch_size=3), asked)} == expected


class Gate:
    """A codec that waits until a chunk is let through; who decoded what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.threads = threading.Event(), set[str]()
        plain = codec.decode

        def decode(*given: Any) -> Any:
            self.threads.add(threading.current_thread().name)
            assert self.open.wait(PATIENCE)
            return plain(*given)

        monkeypatch.setattr(codec, "decode", decode)


class OpensAt(ListSource[Request]):
    """A source that lets the codec go on when so many chunks were taken."""

    def __init__(self, chunks: list[Request], gate: Gate, taken: int) -> None:
        super().__init__(chunks)
        self._gate, self._most, self.taken = gate, taken, 0

    def take(self, room: int, *, wait: bool) -> Any:
        found = super().take(room, wait=wait)
        self.taken += len(found)
        if self.taken >= self._most:
            self._gate.open.set()
        return found


def test_other_chunks_are_decoded_while_one_is_finished(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    source = OpensAt(requests(), gate, taken=5)  # in one thread the fourth would never be taken

    answered = [request.chunk for request, _ in engine(batch_size=2).speak(source)]

    assert sorted(answered) == list(range(6))
    assert gate.threads == {"finishing"}


def decoded(number: int, *, urgent: bool = False) -> Decoded:
    request = replace(requests(number + 1)[-1], urgent=urgent)
    return Decoded(ChunkInFlight(request, None, ()), None)  # type: ignore[arg-type] # nobody looks at the codes


def test_an_urgent_chunk_is_finished_before_those_that_wait() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def finish(given: Any, _: Any) -> Any:
        begun.set()
        assert go_on.wait(PATIENCE)
        return ["heard"]

    beside = Beside(finish, lambda _: True, ListSource[Request]([]).progress)
    beside.give([decoded(number) for number in range(3)])
    assert begun.wait(PATIENCE)
    beside.give([decoded(3), decoded(4, urgent=True)])
    go_on.set()
    order = list[int]()
    while beside.pending:
        order += [each.chunk.request.chunk for each, _ in beside.take(wait=True)]
    beside.close()

    assert order == [0, 4, 1, 2, 3]


def test_a_chunk_that_sounds_wrong_is_spoken_again_also_where_it_is_the_last(
    engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, heard = quality.measure, []

    def wrong_at_first(*given: Any, **named: Any) -> Any:
        heard.append(1)
        return replace(plain(*given, **named), faults=("silent",) if len(heard) < 3 else ())

    monkeypatch.setattr(quality, "measure", wrong_at_first)

    (result,) = speak(engine(quality="retry", retries=5), requests(1))

    assert result.facts["attempts"] == 3


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (torch.cuda.OutOfMemoryError("full"), MemoryError),
        pytest.param(RuntimeError("CUDA error: launch"), RuntimeError, marks=pytest.mark.slow),
    ],
)
def test_what_the_thread_raises_ends_the_speaking(
    engine: Make, monkeypatch: pytest.MonkeyPatch, raised: Exception, seen: type[Exception]
) -> None:
    def fail(*_: Any) -> Any:
        raise raised

    speaker = engine(batch_size=2)
    with monkeypatch.context() as broken:
        broken.setattr(codec, "decode", fail)
        with pytest.raises(seen):
            speak(speaker, requests(3))
    assert len(speak(speaker, requests(3))) == 3  # as a worker goes on


def test_a_pause_that_the_thread_asked_for_holds_while_the_other_waits() -> None:
    reports: list[float] = []
    begun, waited = threading.Event(), threading.Event()

    def report(pause: float = 0.0) -> None:
        reports.append(pause)
        if len(reports) == 3:
            waited.set()

    def finish(decoded: Any, told: Any) -> Any:
        told(300.0)
        begun.set()
        assert waited.wait(PATIENCE)
        return ["heard"]

    beside = Beside(finish, lambda _: True, report)
    beside.give([decoded(0)])
    assert begun.wait(PATIENCE)
    report()  # of the thread that decodes, before its last step

    heard: list[Any] = [attempt for _, attempt in beside.take(wait=True)]
    assert heard == ["heard"]

    beside.close()
    assert reports == [300.0, 0.0, 300.0]


def test_one_stage_at_a_time_has_nothing_beside_it() -> None:
    with pytest.raises(ValidationError, match="set finish to after"):
        BarkConfig(finish="beside", offload=True)
