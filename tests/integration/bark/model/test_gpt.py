"""The transformer on its static cache."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from voxyard.bark.model.attention import Cache, padded_length
from voxyard.bark.model.decode import Decoder, Launched, eager
from voxyard.bark.model.gpt import CausalGPT, causal_gpt
from voxyard.bark.model.int8 import dense, int8
from voxyard.bark.model.progress import OnProgress
from voxyard.bark.stages import footprint
from voxyard.bark.weights.checkpoint import BarkCheckpoint


@pytest.fixture(params=["float32", "bfloat16", "int8", "int8 beside bfloat16"])
def gpt(checkpoint: BarkCheckpoint, request: pytest.FixtureRequest) -> CausalGPT:
    """The tiny coarse stage."""
    module = checkpoint.model.coarse_acoustics
    if "bfloat16" in request.param:
        module = copy.deepcopy(module).bfloat16()
    return causal_gpt(module, int8 if "int8" in request.param else dense)


def filled(gpt: CausalGPT, rows: int, *, seed: int = 0) -> Decoder:
    draw = torch.Generator().manual_seed(seed)
    decoder = Decoder(gpt, gpt.cache(rows))
    for layer in decoder.cache.layers:
        for kv in (layer.keys, layer.values):
            kv.copy_(torch.randn(kv.shape, generator=draw))
    return decoder


def test_reading_more_of_the_cache_changes_no_bit(gpt: CausalGPT) -> None:
    decoder, token, at = filled(gpt, 3), torch.tensor([5, 6, 7]), torch.tensor([257, 300, 64])

    short, *longer = (gpt.step(token, at, decoder.cache, length) for length in range(320, 1025, 64))

    assert all(torch.equal(short, each) for each in longer)


def test_a_step_equals_a_prefill_of_the_same_tokens(checkpoint: BarkCheckpoint) -> None:
    gpt = causal_gpt(checkpoint.model.coarse_acoustics)
    tokens = torch.arange(100)
    decoder = Decoder(gpt, gpt.cache(2))
    decoder.prefill([(1, gpt.tokens[tokens[:40]])])
    hidden = torch.empty(0)
    for place in range(40, 100):
        hidden = gpt.step(torch.tensor([0, place]), torch.tensor([0, place]), decoder.cache, 128)
    expected = checkpoint.model.coarse_acoustics(input_ids=tokens[None]).logits[0, -1]

    found = gpt.logits(hidden, 0, gpt.head.shape[0])[1]

    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gpt.logits(hidden, 10_000, 11_024)[1], expected[10_000:11_024], rtol=1e-4, atol=1e-5)


def test_a_place_in_the_batch_changes_no_bit(gpt: CausalGPT) -> None:
    decoder, order = filled(gpt, 4), torch.tensor([2, 0, 3, 1])
    token, at = torch.tensor([5, 6, 7, 8]), torch.tensor([257, 300, 64, 511])
    expected = gpt.step(token, at, decoder.cache, 512)
    moved = filled(gpt, 4)
    for kv, kept in zip(moved.cache.layers, filled(gpt, 4).cache.layers, strict=True):
        kv.keys.copy_(kept.keys[order])
        kv.values.copy_(kept.values[order])

    found = gpt.step(token[order], at[order], moved.cache, 512)

    assert torch.equal(found, expected[order])


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("linear", "dtype"), [(dense, torch.float32), (dense, torch.bfloat16), (int8, torch.bfloat16)])
def test_in_the_published_width_neither_reading_length_nor_place_change_a_bit(
    rows: int, linear: Any, dtype: Any
) -> None:
    gpt = causal_gpt(copy.deepcopy(wide()).to(dtype), linear)
    decoder, moved, order = filled(gpt, rows), filled(gpt, rows), torch.arange(rows).flip(0)
    token, at = torch.arange(rows) + 5, torch.tensor([257, 300, 64, 290])[:rows]
    for layer, kept in zip(moved.cache.layers, filled(gpt, rows).cache.layers, strict=True):
        layer.keys.copy_(kept.keys[order])
        layer.values.copy_(kept.values[order])

    short, *longer = (gpt.step(token, at, decoder.cache, length) for length in (320, 384, 512, 640, 896, 1024))
    turned = gpt.step(token[order], at[order], moved.cache, 320)

    assert all(torch.equal(short, each) for each in longer)
    assert torch.equal(turned, short[order])


@functools.cache
def wide() -> Any:
    """One layer of bark-small's width."""
    from transformers.models.bark.configuration_bark import BarkCoarseConfig
    from transformers.models.bark.modeling_bark import BarkCoarseModel

    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "num_layers": 1,
        "num_heads": 12,
        "hidden_size": 768,
        "input_vocab_size": 100,
        "output_vocab_size": 100,
    }
    return BarkCoarseModel(BarkCoarseConfig(**sizes)).eval()


def keys_and_values(decoder: Decoder, row: int, length: int) -> list[Any]:
    """Copies of what a row's cache holds."""
    return [each[row].clone() for layer in decoder.cache.layers for each in layer.first(length)]


def equal(one: list[Any], other: list[Any]) -> bool:
    return all(torch.equal(mine, yours) for mine, yours in zip(one, other, strict=True))


def test_a_prefill_does_not_depend_on_its_padding(gpt: CausalGPT) -> None:
    tokens = torch.arange(900)
    found = []
    for padded in (128, 192, 896):
        decoder = filled(gpt, 2)
        decoder.prefill([(1, gpt.tokens[tokens[:padded]])])
        found.append(keys_and_values(decoder, 1, 128))

    assert equal(found[0], found[1])
    assert equal(found[0], found[2])


def test_rows_that_are_prefilled_together_hold_what_each_holds_alone(gpt: CausalGPT) -> None:
    lengths = [128, 64, 128, 320]
    windows = [(row, gpt.tokens[torch.arange(length) + 7 * row]) for row, length in enumerate(lengths)]
    together, alone = filled(gpt, 5), filled(gpt, 5)
    untouched = keys_and_values(together, 4, gpt.block)

    together.prefill(windows)
    for window in windows[::-1]:
        alone.prefill([window])

    for row in range(4):
        assert equal(*(keys_and_values(decoder, row, gpt.block) for decoder in (together, alone)))
    assert equal(keys_and_values(together, 4, gpt.block), untouched)


def batched(gpt: CausalGPT, cache: Cache) -> Launched:
    """The form of a GPU, on a CPU: three rows in every product."""

    def prefill(x: Any, rows: Sequence[int], report: OnProgress) -> None:
        assert len(x) == len(rows) == 3
        gpt.prefill_rows(x, cache, torch.tensor(rows))

    return Launched(eager(gpt, cache).step, prefill, 3)


def test_a_product_of_several_rows_fills_them_as_tiles_do(checkpoint: BarkCheckpoint) -> None:
    gpt = causal_gpt(checkpoint.model.coarse_acoustics)
    lengths = [128, 64, 128, 320, 128, 128]
    windows = [(row, gpt.tokens[torch.arange(length) + 7 * row]) for row, length in enumerate(lengths)]
    several, turned, tiled = Decoder(gpt, gpt.cache(6), batched), Decoder(gpt, gpt.cache(6), batched), filled(gpt, 6)

    several.prefill(windows)
    turned.prefill(windows[:1])
    turned.prefill(windows[:0:-1])
    tiled.prefill(windows)

    for row, length in enumerate(lengths):
        found, other, expected = (keys_and_values(each, row, length) for each in (several, turned, tiled))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert equal(found, other)  # neither mates nor the place among them change a bit


@pytest.mark.parametrize(("length", "reads"), [(1, 64), (64, 64), (65, 128), (257, 320), (1000, 1024), (1024, 1024)])
def test_the_cache_is_read_in_whole_multiples(length: int, reads: int) -> None:
    assert padded_length(length, 1024) == reads


def test_the_memory_of_a_model_is_that_of_its_tensors(checkpoint: BarkCheckpoint) -> None:
    from voxyard.bark.config import BarkConfig

    found, less = (footprint(checkpoint, BarkConfig(offload=offload)) for offload in (False, True))

    causal = [causal_gpt(each) for each in (checkpoint.model.semantic, checkpoint.model.coarse_acoustics)]
    caches = [gpt.cache(1).row_bytes(gpt.block) for gpt in causal]
    parameters = checkpoint.model.named_parameters(remove_duplicate=False)  # the stacked embeddings are a copy
    assert found.weights == sum(each.numel() * 4 for _, each in parameters)
    assert found.row == sum(caches)  # chunks of both stages are in their rows at the same time
    assert less.row == max(caches)
    assert less.weights < found.weights
