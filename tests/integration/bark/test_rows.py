"""Rows of a batch, by the card's memory; no GPU is needed: its memory is what a fake torch.cuda reports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from spoken import speak

from voxyard.bark import engine as engines
from voxyard.bark import rows
from voxyard.bark.config import BarkConfig
from voxyard.bark.device import choose_device
from voxyard.bark.engine import BarkEngine
from voxyard.bark.errors import BarkError
from voxyard.bark.model.memory import Footprint, activation_bytes, row_bytes
from voxyard.bark.rows import choose_rows
from voxyard.bark.stages import Stages
from voxyard.bark.weights.checkpoint import BarkCheckpoint
from voxyard.speech.requests import Request

GIB = 2**30
ONE, OTHER = "GPU-1111", "GPU-2222"

Card = Callable[[float, float], None]


def large(_: BarkCheckpoint, config: BarkConfig) -> Footprint:
    """Footprint of the large model in bfloat16, with the caches of both causal stages."""
    activations = activation_bytes(1024, 1024, 10_048, 2, rows=config.rows, check_every=config.check_every)
    return Footprint(2_200_000_000, activations, 2 * row_bytes(24, 16, 1024, 1024, 2))


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    """Sets the total and the free GiB of the GPU, on which the large model is not loaded yet."""
    monkeypatch.setattr(rows, "footprint", large)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ONE)

    def with_memory(total: float, free: float) -> None:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(free * GIB), int(total * GIB)))

    return with_memory


def chosen(checkpoint: BarkCheckpoint, **settings: Any) -> tuple[int, int]:
    return choose_rows(checkpoint, BarkConfig(**settings), "cuda")


@pytest.mark.parametrize(("total", "fits"), [(140, 16), (80, 16), (24, 16), (10, 16), (6, 8), (4, 2)])
def test_auto_takes_the_rows_of_the_knee_or_what_the_card_holds(
    checkpoint: BarkCheckpoint, card: Card, total: float, fits: int
) -> None:
    card(total, total - 0.5)
    assert chosen(checkpoint) == (fits, fits)


@pytest.mark.parametrize(
    ("total", "budget", "fits"),
    [(80, 70, 128), (80, 30, 64), (80, 17, 64), (80, 16, 32), (80, 6, 8), (24, 5, 4), (16, 70, 32)],
)
def test_a_budget_takes_the_rows_that_fit_into_it_and_onto_the_card(
    checkpoint: BarkCheckpoint, card: Card, total: float, budget: float, fits: int
) -> None:
    """Its context counts."""
    card(total, total - 0.5)
    assert chosen(checkpoint, memory_budget=budget) == (fits, fits)


def test_the_limit_of_a_shared_card_holds_whatever_the_budget(checkpoint: BarkCheckpoint, card: Card) -> None:
    card(80, 79)
    assert chosen(checkpoint, memory_budget=40, gpu_memory="6200") == (16, 16)
    assert chosen(checkpoint, memory_budget=40, gpu_memory="3200") == (2, 2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"memory_budget": 6}, r"--memory-budget is of GPU memory.*--batch-size"),
        ({"kv_cache": "int8"}, r"--kv-cache int8 is of a GPU's kernels.*leave it out"),
    ],
)
def test_a_setting_of_gpus_is_refused_on_a_cpu(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BarkError, match=said):
        choose_device(BarkConfig(device="cpu", **settings))


def test_a_budget_is_refused_beside_a_number_of_rows() -> None:
    with pytest.raises(ValueError, match="both say how many rows"):
        BarkConfig(memory_budget=6, batch_size=8)


def test_auto_does_not_follow_the_memory_that_happens_to_be_free(checkpoint: BarkCheckpoint, card: Card) -> None:
    for free in (79.0, 60.0, 33.3):
        card(80, free)
        assert chosen(checkpoint, memory_budget=40) == (128, 128)


@pytest.mark.parametrize(("asked", "meant"), [("auto", 16), (64, 64), (128, 128), (20, 20)])
def test_too_many_rows_for_the_free_memory_are_made_fewer_with_one_sentence(
    checkpoint: BarkCheckpoint, card: Card, asked: Any, meant: int, caplog: pytest.LogCaptureFixture
) -> None:
    card(80, 5)

    assert chosen(checkpoint, batch_size=asked) == (8, meant)
    (said,) = caplog.messages
    assert said.startswith(f"batch size 8 instead of {meant}, as 5.0 GiB are available on the GPU")
    assert "--batch-size 8 makes it the same on every start" in said


def test_a_number_that_fits_is_taken_as_it_is(checkpoint: BarkCheckpoint, card: Card) -> None:
    card(24, 23)
    assert [chosen(checkpoint, batch_size=number) for number in (1, 7, 64)] == [(1, 1), (7, 7), (64, 64)]


def test_the_smallest_limit_of_all_gpus_decides_for_each_worker(checkpoint: BarkCheckpoint, card: Card) -> None:
    card(80, 79)
    assert chosen(checkpoint, gpu_memory="5200") == (8, 8)
    assert chosen(checkpoint, gpu_memory=f"{ONE}=20000,{OTHER}=20000") == (16, 16)
    assert chosen(checkpoint, gpu_memory=f"{ONE}=20000,{OTHER}=5200") == (8, 8)


def test_not_one_row_is_an_error_with_what_is_needed(checkpoint: BarkCheckpoint, card: Card) -> None:
    card(80, 2)
    with pytest.raises(BarkError, match=r"20\d\d MiB are free on the device, Bark needs .* MiB for one row"):
        chosen(checkpoint)


def test_on_a_cpu_auto_is_four(checkpoint: BarkCheckpoint) -> None:
    assert choose_rows(checkpoint, BarkConfig(), "cpu") == (4, 4)
    assert choose_rows(checkpoint, BarkConfig(batch_size=9), "cpu") == (9, 9)


def test_the_rows_stand_in_the_facts_of_worker_and_chunk(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "choose_rows", lambda *_: (2, 8))
    speaking = BarkEngine(BarkConfig(model=tiny_model, device="cpu"))

    ready = speaking.prepare()
    (result,) = speak(speaking, [Request(0, "Hello")])

    assert (ready.batch_limit, ready.meant_rows) == (2, 8)
    assert (ready.facts["batch_size"], ready.facts["batch_size_reduced_from"]) == (2, 8)
    assert result.facts["batch_size"] == 2


def test_an_engine_with_all_its_rows_names_no_others(tiny_model: Path) -> None:
    ready = BarkEngine(BarkConfig(model=tiny_model, device="cpu")).prepare()

    assert (ready.batch_limit, ready.meant_rows, ready.facts["batch_size"]) == (4, 4, 4)
    assert "batch_size_reduced_from" not in ready.facts


def test_a_cache_that_does_not_fit_after_all_is_halved_and_not_refused(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(Stages):
        def __init__(self, checkpoint: BarkCheckpoint, config: BarkConfig, device: str) -> None:
            if config.rows > 2:
                raise torch.cuda.OutOfMemoryError(f"no room for {config.rows} rows")
            super().__init__(checkpoint, config, device)

    monkeypatch.setattr(engines, "Stages", Full)
    speaking = BarkEngine(BarkConfig(model=tiny_model, device="cpu", batch_size=8))
    with caplog.at_level(logging.WARNING, logger="voxyard.bark.engine"):
        ready = speaking.prepare()

    assert (ready.batch_limit, ready.meant_rows) == (2, 8)
    assert "no memory for 8 rows, loading again with 4: no room for 8 rows" in caplog.messages
    assert [each.facts["batch_size"] for each in speak(speaking, [Request(0, "Hello")])] == [2]
    speaking.close()
    assert speaking.prepare().meant_rows == 8


def test_no_memory_for_one_row_is_an_error(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("no room")

    monkeypatch.setattr(engines, "Stages", full)
    with pytest.raises(MemoryError, match="no room"):
        BarkEngine(BarkConfig(model=tiny_model, device="cpu")).prepare()
