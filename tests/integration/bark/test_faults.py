"""The real engine in real workers that are killed, stopped, out of memory, or given what they cannot speak."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from bark_faults import RESTLESS, STAGES, What, open_orders, order
from eventually import PATIENCE, eventually
from safetensors.torch import load_file, save_file
from spoken import refusal, speak

from voxyard.bark.config import BarkConfig
from voxyard.bark.engine import BarkEngine
from voxyard.bark.weights import tiny
from voxyard.bark.weights.tokenizer import read
from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.job import ChunkFailedError, Outcome
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request

COUNT, SEED, BROKEN_WORD = 12, 7, "with"
CHUNKS = [Request(number, f"Is it number {number}? " * (1 + number % 3), seed=SEED) for number in range(COUNT)]
RESTLESS_CHUNKS = [dataclasses.replace(each, seed=RESTLESS) for each in CHUNKS]
QUICK = PoolLimits(backoff=0.01, max_backoff=0.05, heartbeat_timeout=6.0)


def damage(model: Path, name: str, row: int | None = None) -> None:
    """Write NaN over a tensor, or one row of it."""
    file = model / "model.safetensors"
    weights = load_file(file)
    weights[name][... if row is None else row] = float("nan")
    save_file(weights, file, metadata={"format": "pt"})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with one damaged row: whoever says that one word gets no numbers any more."""
    directory = tmp_path_factory.mktemp("faults") / "model"
    tiny.write(directory, tiny.TinyShape(end_after=20))
    (word,) = read(directory).encode(BROKEN_WORD, add_special_tokens=False).ids
    offset = json.loads((directory / "generation_config.json").read_text())["semantic_config"]["text_encoding_offset"]
    damage(directory, "semantic.input_embeds_layer.weight", offset + word)
    return directory


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder in which faults are ordered."""
    return tmp_path_factory.mktemp("orders")


def pool_of(model: Path, orders: Path, workers: int) -> Pool:
    named = {"model": str(model), "device": "cpu", "batch_size": 2, "quality": "retry", "orders": str(orders)}
    devices = [Device(f"cpu{number}") for number in range(workers)]
    return Pool(EngineSpec("bark_faults:create", named), devices, limits=QUICK, heartbeat_seconds=0.2)


@pytest.fixture(scope="module")
def pool(model: Path, orders: Path) -> Iterator[Pool]:
    """Four workers for all tests of this file: one that was killed is started again for the next."""
    with pool_of(model, orders, 4) as speaking:
        yield speaking


@pytest.fixture(scope="module")
def expected(model: Path) -> list[bytes]:
    """Audio of one undisturbed engine, without a pool."""
    engine = EngineSpec("voxyard.bark.engine:create", {"model": str(model), "device": "cpu", "batch_size": 2})
    undisturbed = engine.create()
    undisturbed.prepare()
    return [result.audio.tobytes() for result in speak(undisturbed, CHUNKS)]


def outcomes(pool: Pool, asked: Sequence[Request]) -> list[Outcome]:
    """Every chunk once, in order."""
    job = pool.submit(asked)
    assert job.wait(2 * PATIENCE), f"not finished: {job.progress}"
    got = list(job.outcomes())
    assert [each.index for each in got] == list(range(len(asked)))
    assert [each.request for each in got] == list(asked)
    return got


def sounds(got: Sequence[Outcome]) -> list[bytes | None]:
    return [each.result.audio.tobytes() if each.result else None for each in got]


@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_killed_in_a_stage_changes_no_byte(
    pool: Pool, orders: Path, expected: list[bytes], stage: str
) -> None:
    started = sum(state.processes for state in pool.workers())
    order(orders, "kill", stage)

    got = outcomes(pool, CHUNKS)

    assert open_orders(orders) == []
    assert sounds(got) == expected
    assert eventually(lambda: sum(state.processes for state in pool.workers()) > started)


def test_a_worker_that_stops_in_the_middle_of_its_work_changes_no_byte(
    pool: Pool, orders: Path, expected: list[bytes]
) -> None:
    order(orders, "stop", "coarse")

    got = outcomes(pool, CHUNKS)

    assert open_orders(orders) == []
    assert sounds(got) == expected


def broken(got: Sequence[Outcome]) -> dict[int, ChunkFailedError]:
    return {each.index: each.failure for each in got if each.failure}


def test_numbers_that_are_none_fail_their_chunk_alone_and_leave_nothing_behind(
    pool: Pool, expected: list[bytes]
) -> None:
    text = f"Is it {BROKEN_WORD} you?"
    asked = [*CHUNKS[:5], Request(5, text, seed=SEED), *CHUNKS[6:]]

    got = outcomes(pool, asked)
    afterwards = outcomes(pool, CHUNKS)  # on the same workers, in the same rows

    (failure,) = broken(got).values()
    assert (failure.index, failure.text) == (5, text)
    assert "chunk 5 has samples that are NaN or infinite" in failure.reason
    assert sounds(got) == [*expected[:5], None, *expected[6:]]
    assert sounds(afterwards) == expected


def test_a_voice_that_the_engine_cannot_take_fails_its_chunks_alone(pool: Pool, expected: list[bytes]) -> None:
    asked = [
        Request(each.chunk, each.text, "no-such-voice" if each.chunk in (3, 11) else None, SEED) for each in CHUNKS
    ]

    got = outcomes(pool, asked)

    failures = broken(got)
    assert set(failures) == {3, 11}
    for index, failure in failures.items():
        assert failure.text == CHUNKS[index].text
        assert "there is no voice 'no-such-voice'" in failure.reason
    assert sounds(got) == [None if index in failures else sound for index, sound in enumerate(expected)]


@pytest.mark.parametrize(("what", "stage"), [("full", "semantic"), ("memory", "codec")])
def test_a_full_device_loses_nothing_and_says_whose_batch_shrank(
    model: Path, orders: Path, what: What, stage: str
) -> None:
    order(orders, what, stage)
    with pool_of(model, orders, 1) as speaking:
        got = outcomes(speaking, CHUNKS)

    assert open_orders(orders) == []
    assert all(each.result is not None and each.reduced for each in got)
    assert {each.result.facts["batch_size"] for each in got if each.result} == {1}
    assert len(set(sounds(got))) == COUNT


def test_tries_for_quality_are_the_same_for_any_number_of_workers(pool: Pool, model: Path, orders: Path) -> None:
    spoken = {}
    for workers in (1, 2):
        with pool_of(model, orders, workers) as speaking:
            spoken[workers] = outcomes(speaking, RESTLESS_CHUNKS)
    order(orders, "kill", "fine")  # in one of the tries
    spoken[4] = outcomes(pool, RESTLESS_CHUNKS)

    assert open_orders(orders) == []
    for got in spoken.values():
        assert [each.result.facts["attempt"] for each in got if each.result] == [each % 3 for each in range(COUNT)]
    assert sounds(spoken[1]) == sounds(spoken[2]) == sounds(spoken[4])
    assert len(set(sounds(spoken[1]))) == COUNT


@pytest.mark.parametrize(
    "name",
    [
        "semantic.lm_head.weight",
        "coarse_acoustics.lm_head.weight",
        "fine_acoustics.input_embeds_layers.2.weight",
        "codec_model.decoder.layers.15.conv.bias",
    ],
)
def test_a_weight_that_is_no_number_is_noticed_in_every_stage(tiny_model: Path, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    damage(copy, name)
    engine = BarkEngine(BarkConfig(model=copy, device="cpu", quality="retry", retries=1, batch_size=1))
    engine.prepare()

    assert "chunk 4 has samples that are NaN or infinite in each of 2 attempts" in refusal(engine, Request(4, "Hello"))
