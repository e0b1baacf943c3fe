"""The transformer on its static cache."""

from __future__ import annotations

import pytest
import torch

from voxyard.bark.model.decode import Decoder
from voxyard.bark.model.gpt import CausalGPT, causal_gpt, padded_length
from voxyard.bark.model.int8 import int8
from voxyard.bark.stages import footprint
from voxyard.bark.weights.checkpoint import BarkCheckpoint


@pytest.fixture(params=["float32", "int8"])
def gpt(checkpoint: BarkCheckpoint, request: pytest.FixtureRequest) -> CausalGPT:
    """The tiny coarse stage."""
    module = checkpoint.model.coarse_acoustics
    return causal_gpt(module, int8) if request.param == "int8" else causal_gpt(module)


def filled(gpt: CausalGPT, rows: int, *, seed: int = 0) -> Decoder:
    draw = torch.Generator().manual_seed(seed)
    decoder = Decoder(gpt, gpt.cache(rows))
    for kv in decoder.cache.layers:
        kv.normal_(generator=draw)
    return decoder


def test_reading_more_of_the_cache_changes_no_bit(gpt: CausalGPT) -> None:
    decoder, token, at = filled(gpt, 3), torch.tensor([5, 6, 7]), torch.tensor([257, 300, 64])

    short, long, longest = (gpt.step(token, at, decoder.cache, length) for length in (320, 704, 1024))

    assert torch.equal(short, long)
    assert torch.equal(short, longest)


def test_a_step_equals_a_prefill_of_the_same_tokens(checkpoint: BarkCheckpoint) -> None:
    gpt = causal_gpt(checkpoint.model.coarse_acoustics)
    tokens = torch.arange(100)
    decoder = Decoder(gpt, gpt.cache(2))
    decoder.prefill(1, gpt.tokens[tokens[:40]])
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
        kv.copy_(kept[order])

    found = gpt.step(token[order], at[order], moved.cache, 512)

    assert torch.equal(found, expected[order])


@pytest.mark.parametrize(("length", "reads"), [(1, 64), (64, 64), (65, 128), (257, 320), (1000, 1024), (1024, 1024)])
def test_the_cache_is_read_in_whole_multiples(length: int, reads: int) -> None:
    assert padded_length(length, 1024) == reads


def test_the_memory_of_a_model_is_that_of_its_tensors(checkpoint: BarkCheckpoint) -> None:
    from voxyard.bark.config import BarkConfig

    found, less = (footprint(checkpoint, BarkConfig(offload=offload)) for offload in (False, True))

    causal = [causal_gpt(each) for each in (checkpoint.model.semantic, checkpoint.model.coarse_acoustics)]
    caches = [sum(kv.numel() * 4 for kv in gpt.cache(1).layers) for gpt in causal]
    assert found.weights == sum(each.numel() * 4 for each in checkpoint.model.parameters())
    assert found.row == sum(caches)  # chunks of both stages are in their rows at the same time
    assert less.row == max(caches)
    assert less.weights < found.weights
