"""The engine behind the pool's protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spoken import ListSource, speak

from voxyard.bark.config import BarkConfig
from voxyard.bark.engine import BarkEngine
from voxyard.speech.engine import Engine, EngineSpec
from voxyard.speech.requests import Request, Result, Unspeakable


@pytest.fixture
def named(tiny_model: Path) -> EngineSpec:
    """The engine as a pool hands it to its workers."""
    settings = {"model": str(tiny_model), "device": "cpu", "batch_size": 4}
    return EngineSpec("voxyard.bark.engine:create", settings)


def test_a_pool_creates_prepares_and_hears_it_by_name(named: EngineSpec) -> None:
    engine = named.create()

    ready = engine.prepare()
    ((_, result),) = engine.speak(ListSource([Request(5, "Hello world.", seed=7)]))

    assert (ready.batch_limit, ready.sample_rate) == (4, 24_000)
    assert isinstance(result, Result)
    assert ready.facts["random_weights"] is True
    assert result.chunk == 5
    assert result.facts["batch_size"] == 4
    json.dumps([ready.facts, result.facts])  # they go through a pipe and into reports


def test_after_shrinking_the_results_say_how_many_rows_there_were(named: EngineSpec) -> None:
    engine = named.create()
    engine.prepare()

    engine.shrink(2)
    results = speak(engine, [Request(n, f"Is it number {n}?", seed=7) for n in range(5)])

    assert [each.chunk for each in results] == [0, 1, 2, 3, 4]
    assert {each.facts["batch_size"] for each in results} == {2}


def test_a_voice_is_looked_up_once(tiny_model: Path, history: Any) -> None:
    asked: list[str] = []

    def find(name: str) -> Any:
        asked.append(name)
        return history.random(100, 150)

    engine: Engine = BarkEngine(BarkConfig(model=tiny_model, device="cpu"), find)
    engine.prepare()
    with_voice, plain = speak(engine, [Request(0, "Hello", "mine"), Request(1, "Hello")])
    speak(engine, [Request(1, "Hello", "mine")])

    assert asked == ["mine"]
    assert with_voice.audio.tobytes() != plain.audio.tobytes()


def test_a_closed_engine_can_be_prepared_again(named: EngineSpec) -> None:
    engine = named.create()
    sounds = []
    for _ in range(2):
        engine.prepare()
        sounds.append(speak(engine, [Request(0, "Hello", seed=7)])[0].audio.tobytes())
        engine.close()

    assert sounds[0] == sounds[1]


def test_a_voice_of_ones_own_is_found_by_name(tiny_model: Path, tmp_path: Path, history: Any) -> None:
    mine = history.random(100, 150)
    np.savez(
        tmp_path / "narrator.npz",
        semantic_prompt=mine.semantic_prompt, coarse_prompt=mine.coarse_prompt, fine_prompt=mine.fine_prompt,
    )  # fmt: skip
    settings = {"model": str(tiny_model), "device": "cpu", "voices": str(tmp_path)}
    engine = EngineSpec("voxyard.bark.engine:create", settings).create()
    engine.prepare()

    own, plain = speak(engine, [Request(0, "Hello", "narrator"), Request(1, "Hello")])

    assert own.audio.shape != plain.audio.shape or bool((own.audio != plain.audio).any())


def test_a_chunk_that_cannot_be_spoken_is_refused_and_its_mates_are_spoken(named: EngineSpec) -> None:
    engine = named.create()
    engine.prepare()
    asked = [Request(0, "Hello"), Request(1, "Hello", "no-such-voice"), Request(2, " "), Request(3, "Hello")]

    answers = {request.chunk: answer for request, answer in engine.speak(ListSource(asked))}

    refused = {chunk: each.reason for chunk, each in answers.items() if isinstance(each, Unspeakable)}
    assert set(refused) == {1, 2}
    assert "no-such-voice" in refused[1]
    assert "0 text tokens" in refused[2]
    assert {chunk for chunk, each in answers.items() if isinstance(each, Result)} == {0, 3}
