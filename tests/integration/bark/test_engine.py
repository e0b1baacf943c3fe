"""The engine as its callers see it: chunks in, the same sound out, whatever stood beside them."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from spoken import ListSource, refusal, speak

from voxyard.bark.config import BarkConfig
from voxyard.bark.device import choose_device
from voxyard.bark.engine import BarkEngine
from voxyard.bark.errors import BarkError
from voxyard.bark.model.coarse import CoarseRows
from voxyard.bark.model.decode import Decoder
from voxyard.bark.model.semantic import SemanticRows
from voxyard.bark.weights import tiny
from voxyard.speech.requests import Cancelled, Request, Result

Make = Callable[..., BarkEngine]


@pytest.fixture
def engine(tiny_model: Path, history: Any) -> Make:
    """Makes engines on the tiny model, ready to speak; every name is that of the given voice."""

    def make(voice: Any = None, **settings: Any) -> BarkEngine:
        voice = voice or history.random(300, 450)
        made = BarkEngine(BarkConfig(model=tiny_model, device="cpu", **settings), lambda _: voice)
        made.prepare()
        return made

    return make


def requests(count: int = 7) -> list[Request]:
    return [Request(n, f"Is it number {n}? " * (1 + n % 3), "voice" if n % 2 else None, 7) for n in range(count)]


def sounds(results: Sequence[Result]) -> dict[int, bytes]:
    return {each.chunk: each.audio.tobytes() for each in results}


@pytest.mark.parametrize(
    ("native", "settings", "precision"),
    [
        (True, {}, "bfloat16"),
        (False, {}, "float32"),
        (True, {"int8": True}, "float32"),
        (False, {"precision": "bfloat16"}, "bfloat16"),
        (True, {"precision": "float32"}, "float32"),
    ],
)
def test_a_cpu_multiplies_in_the_precision_that_it_is_fast_in(
    monkeypatch: pytest.MonkeyPatch, native: bool, settings: dict[str, Any], precision: str
) -> None:
    monkeypatch.setattr("voxyard.bark.device.multiplies_bfloat16", lambda: native)
    assert choose_device(BarkConfig(device="cpu", **settings)) == ("cpu", precision)


def test_a_chunk_becomes_mono_sound_of_320_samples_a_frame(engine: Make) -> None:
    (result,) = speak(engine(batch_size=2), [Request(3, "Hello world.", seed=1)])

    assert result.chunk == 3
    assert result.sample_rate == 24_000
    assert result.audio.dtype == np.float32
    frames, tokens = int(str(result.facts["frames"])), int(str(result.facts["semantic_tokens"]))
    assert result.audio.shape == (320 * frames,)
    assert result.facts["seconds"] == len(result.audio) / 24_000
    assert frames == tokens * 150 // 99.8 // 1
    assert result.facts["text_tokens"] == len("Hello") + len("world") + 1
    assert not result.facts["cap_reached"]


def test_the_sound_does_not_depend_on_order_or_batch_mates(engine: Make, history: Any) -> None:
    asked, speaker = requests(), engine(batch_size=3)
    expected = sounds(speak(speaker, asked))

    assert len(set(expected.values())) == len(asked)
    assert sounds(speak(speaker, asked[::-1])) == expected
    for split in (1, 5):
        parts = [speak(speaker, asked[at : at + split]) for at in range(0, len(asked), split)]
        assert sounds([each for part in parts for each in part]) == expected
    assert sounds(speak(engine(batch_size=3), asked[4:])) == {n: expected[n] for n in (4, 5, 6)}


class Trickle:
    """A source whose chunks come by and by: none at some looks, one at others."""

    def __init__(self, chunks: Sequence[Request], seed: int) -> None:
        self.left, self._dice = list(chunks), random.Random(seed)

    def take(self, room: int, *, wait: bool) -> Sequence[Request]:
        if not self.left or not (wait or self._dice.random() < 0.4):
            return []
        return [self.left.pop(0)]

    def cancelled(self) -> Sequence[Request]:
        return ()

    def progress(self, pause: float = 0.0) -> None:
        """Nobody watches."""


class Cancelling(ListSource[Request]):
    """A source that cancels chunks when it has been looked at so often."""

    def __init__(self, chunks: Sequence[Request], cancelled: Sequence[Request], after: int) -> None:
        super().__init__(chunks)
        self._coming, self._after, self.looks = list(cancelled), after, 0
        self._taken: list[Request] = []
        self.answered: list[Request] = []  # by the engine; filled by the test

    def take(self, room: int, *, wait: bool) -> Sequence[Request]:
        assert not wait or len(self.answered) == len(self._taken), "it waits for chunks before it has answered"
        taken = super().take(room, wait=wait)
        self._taken += taken
        return taken

    def cancelled(self) -> Sequence[Request]:
        self.looks += 1
        return tuple(self._coming) if self.looks == self._after else ()


SETTINGS: dict[str, dict[str, Any]] = {"resident": {}, "offload": {"offload": True}, "beside": {"finish": "beside"}}
QUICK = [(3, "resident"), (3, "offload")]
SLOW = [(1, "resident"), (3, "beside"), (13, "beside")]  # before, amid and at the end


@pytest.mark.parametrize(
    ("after", "way"),
    [
        pytest.param(*each, marks=() if each in QUICK else pytest.mark.slow if each in SLOW else pytest.mark.long)
        for each in product((1, 2, 3, 5, 8, 13, 34), SETTINGS)
    ],
)
def test_a_cancelled_chunk_is_given_up_and_the_others_sound_the_same(engine: Make, after: int, way: str) -> None:
    asked, speaker = requests(), engine(batch_size=3, **SETTINGS[way])
    expected = sounds(speak(speaker, asked))
    source = Cancelling(asked, [asked[1], asked[2]], after)

    answers = []
    for request, answer in speaker.speak(source):
        source.answered.append(request)
        answers.append((request, answer))

    spoken = [answer for _, answer in answers if isinstance(answer, Result)]
    given_up = [request.chunk for request, answer in answers if isinstance(answer, Cancelled)]
    assert sorted([*given_up, *(each.chunk for each in spoken)]) == sorted(each.chunk for each in asked)
    assert set(given_up) <= {asked[1].chunk, asked[2].chunk}
    assert sounds(spoken) == {each.chunk: expected[each.chunk] for each in spoken}
    assert given_up or not 1 < after < 5  # later, or before they were taken, there is nothing to give up


@pytest.mark.parametrize("finish", ["after", "beside"])
@pytest.mark.parametrize("after", [2, 5, 13])
def test_when_all_chunks_are_cancelled_they_are_answered_before_others_are_waited_for(
    engine: Make, after: int, finish: str
) -> None:
    asked = requests(2)
    source = Cancelling(asked, asked, after)

    for request, _ in engine(batch_size=3, finish=finish).speak(source):
        source.answered.append(request)

    assert sorted(each.chunk for each in source.answered) == [0, 1]


@pytest.fixture
def refills(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages in which a chunk entered while a mate was under way, once for each."""
    found: list[str] = []

    def watch(rows: Any) -> None:
        under_way: set[int] = set()  # rows of which some have stepped and are not through
        enter, step = rows.enter, rows.step

        def entering(stage: Any, work: Any) -> None:
            if id(stage) in under_way:
                found.append(rows.__name__)
            enter(stage, work)

        def stepping(stage: Any) -> Any:
            done = step(stage)
            (under_way.add if len(stage) else under_way.discard)(id(stage))
            return done

        monkeypatch.setattr(rows, "enter", entering)
        monkeypatch.setattr(rows, "step", stepping)

    watch(SemanticRows)
    watch(CoarseRows)
    return found


def test_a_free_row_takes_the_next_chunk_and_no_byte_depends_on_when(engine: Make, refills: list[str]) -> None:
    asked = [Request(n, "Is it number? " * (1 + n % 3), seed=7) for n in range(8)]  # 62 to 129 semantic tokens
    speaker = engine(batch_size=2)

    pairs: dict[int, bytes] = {}
    for first in range(0, len(asked), 2):
        pairs |= sounds(speak(speaker, asked[first : first + 2]))
    in_pairs = len(refills)
    together = sounds(speak(speaker, asked))
    entered = {stage: refills.count(stage) for stage in ("SemanticRows", "CoarseRows")}
    trickled: dict[int, bytes] = {}
    left: list[int] = []  # in the source, as each chunk is done
    source = Trickle(asked, seed=5)
    for _, made in speaker.speak(source):
        assert isinstance(made, Result)
        trickled |= sounds([made])
        left.append(len(source.left))

    assert in_pairs == 0
    assert min(entered.values()) >= 4
    assert pairs == together == trickled
    assert left[0] > 0  # a chunk leaves before the last one has come


def test_results_come_in_the_order_of_the_requests(engine: Make, history: Any) -> None:
    asked = [requests()[n] for n in (5, 0, 3)]

    assert [each.chunk for each in speak(engine(), asked)] == [5, 0, 3]


@pytest.mark.parametrize("changes", [{"seed": 8}, {"attempt": 1}, {"chunk": 9}])
def test_another_number_makes_another_sound(engine: Make, changes: dict[str, Any]) -> None:
    speaker, asked = engine(batch_size=1), Request(0, "Hello world.", seed=7)

    one, other = (speak(speaker, [each])[0].audio for each in (asked, replace(asked, **changes)))

    assert one.tobytes() != other.tobytes()


def test_stages_that_wait_in_main_memory_make_the_same_sound(engine: Make, history: Any) -> None:
    asked = requests(3)

    assert sounds(speak(engine(offload=True), asked)) == sounds(speak(engine(), asked))


def test_a_batch_with_stages_in_main_memory_asks_again_for_its_free_rows_alone(engine: Make) -> None:
    rooms: list[int] = []

    class OneByOne(ListSource[Request]):
        def take(self, room: int, *, wait: bool) -> Sequence[Request]:
            rooms.append(room)
            return super().take(1, wait=wait)

    spoken = list(engine(offload=True, batch_size=3).speak(OneByOne(requests(2))))

    assert len(spoken) == 2
    assert rooms == [3, 2, 3]  # the second chunk enters a row beside the first


def test_prefilling_every_window_makes_the_same_sound(engine: Make, history: Any) -> None:
    asked = requests(3)

    assert sounds(speak(engine(skip_prefill=False), asked)) == sounds(speak(engine(), asked))


@pytest.mark.parametrize("settings", [{"int8": True}, pytest.param({"precision": "bfloat16"}, marks=pytest.mark.slow)])
def test_smaller_weights_speak_and_do_not_depend_on_batch_mates(
    engine: Make, history: Any, settings: dict[str, Any]
) -> None:
    asked, speaker = requests(4), engine(batch_size=3, **settings)

    expected = sounds(speak(speaker, asked))

    assert sounds([each for one in asked for each in speak(speaker, [one])]) == expected


def test_a_chunk_that_sounds_wrong_is_tried_again_with_the_next_attempt(engine: Make) -> None:
    asked = [Request(n, "x " * 120, seed=7) for n in range(3)]  # the tiny model is too short for so much text
    as_told = speak(engine(quality="retry", retries=2), asked)

    assert all(each.facts["faults"] == ("too short",) for each in as_told)
    assert all(each.facts["attempts"] == 3 for each in as_told)


def test_the_try_with_the_fewest_faults_is_heard(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from voxyard.bark import quality

    plain = quality.measure
    heard: list[int] = []

    def wrong_until_the_third(*arguments: Any, **named: Any) -> Any:
        heard.append(1)
        return replace(plain(*arguments, **named), faults=("silent",) if len(heard) < 3 else ())

    monkeypatch.setattr(quality, "measure", wrong_until_the_third)
    speaker = engine(quality="retry", retries=5)
    (retried,) = speak(speaker, [Request(0, "Hello world.", seed=7)])
    (straight,) = speak(speaker, [Request(0, "Hello world.", seed=7, attempt=2)])

    assert (retried.facts["attempt"], retried.facts["attempts"]) == (2, 3)
    assert retried.audio.tobytes() == straight.audio.tobytes()


def test_only_chunks_that_sound_wrong_are_tried_again(engine: Make) -> None:
    right, wrong = Request(0, "Hello world.", seed=7), Request(1, "x " * 120, seed=7)

    results = speak(engine(quality="retry", retries=1), [right, wrong])

    assert [each.facts["attempts"] for each in results] == [1, 2]


def test_random_weights_are_said_and_never_tried_again(
    engine: Make, tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    speaker = BarkEngine(BarkConfig(model=tiny_model, device="cpu"))
    with caplog.at_level(logging.WARNING):
        ready = speaker.prepare()

    assert ready.facts["random_weights"]
    assert "the audio will be noise" in caplog.text
    assert speak(speaker, [Request(0, "x " * 120)])[0].facts["attempts"] == 1


def test_a_text_that_is_too_long_is_refused_and_never_cut(engine: Make) -> None:
    assert "chunk 4 has 300 text tokens, expected 1 to 256" in refusal(engine(), Request(4, "a " * 300))


def test_a_chunk_without_text_is_refused(engine: Make) -> None:
    assert "chunk 0 has 0 text tokens" in refusal(engine(), Request(0, " \n"))


@pytest.mark.parametrize(
    ("part", "codes", "says"),
    [
        ("semantic_prompt", np.array([10_000]), "semantic_prompt ranges from 10000"),
        ("coarse_prompt", np.array([[0], [1024]]), "coarse_prompt ranges from 0 to 1024"),
        ("fine_prompt", np.zeros((4, 9), dtype=int), "2 coarse and 4 fine codebooks"),
    ],
)
def test_a_voice_of_another_model_is_refused(engine: Make, history: Any, part: str, codes: Any, says: str) -> None:
    voice = replace(history.random(10, 20), **{part: codes})

    assert says in refusal(engine(voice=voice), Request(0, "Hello", "voice"))


def test_numbers_that_are_none_become_an_error_not_a_sound(engine: Make) -> None:
    speaker = engine(quality="retry", retries=1)
    loaded = speaker._loaded
    assert loaded is not None
    with loaded[1].semantic() as decoder:
        decoder.gpt.tokens[:] = float("nan")

    assert "chunk 2 has samples that are NaN or infinite in each of 2 attempts" in refusal(speaker, Request(2, "Hello"))


def test_a_full_device_is_a_memory_error(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise torch.cuda.OutOfMemoryError("no room for 96 MiB")

    speaker = engine()
    monkeypatch.setattr(Decoder, "run", full)

    with pytest.raises(MemoryError, match="no room for 96 MiB"):
        speak(speaker, [Request(0, "Hello")])


def test_an_engine_without_a_model_says_so() -> None:
    with pytest.raises(BarkError, match="call prepare"):
        next(BarkEngine(BarkConfig()).speak(ListSource([])))


def test_a_gpu_that_is_not_there_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(BarkError, match="torch sees no GPU"):
        choose_device(BarkConfig(device="cuda"))
    assert choose_device(BarkConfig())[0] == "cpu"


@pytest.mark.gpu
@pytest.mark.parametrize("int8", [False, True])
def test_a_captured_step_speaks_as_a_plain_one_does(tmp_path: Path, history: Any, int8: bool) -> None:
    tiny.write(tmp_path, tiny.TinyShape())
    settings: dict[str, Any] = {
        "model": tmp_path,
        "device": "cuda",
        "precision": "float32",
        "int8": int8,
        "batch_size": 3,
    }
    spoken = []
    for capture in ("none", "graph"):
        speaker = BarkEngine(BarkConfig(**settings, capture=capture), lambda _: history.random(300, 450))
        speaker.prepare()
        spoken.append(speak(speaker, requests(5)))

    plain, captured = spoken

    assert sounds(plain) == sounds(captured)


@pytest.mark.gpu
def test_on_a_gpu_a_chunk_does_not_depend_on_its_batch_mates(tmp_path: Path, history: Any) -> None:
    tiny.write(tmp_path, tiny.TinyShape())
    speaker = BarkEngine(BarkConfig(model=tmp_path, device="cuda", batch_size=4), lambda _: history.random(300, 450))
    speaker.prepare()
    asked = requests()

    assert sounds(speak(speaker, asked[::-1])) == sounds(speak(speaker, asked))


def test_a_torch_without_cuda_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)

    with pytest.raises(BarkError, match=f"torch {re.escape(torch.__version__)} is a build without CUDA; install one"):
        choose_device(BarkConfig(device="cuda"))


def test_the_drivers_own_complaint_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old\n(found version 11040).")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", refuse)
    monkeypatch.setattr(torch.version, "cuda", "13.0")

    with pytest.raises(BarkError, match=r"built for CUDA 13.0, .*: The NVIDIA .* too old \(found version 11040\)"):
        choose_device(BarkConfig(device="cuda"))
