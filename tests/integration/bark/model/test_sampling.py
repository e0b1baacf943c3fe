"""Sampling from the likeliest tokens: top_k and top_p as suno's code and transformers define them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from voxyard.bark.model import coarse, semantic
from voxyard.bark.model.decode import Decoder, Restriction, TokenSampling, restricted, sample
from voxyard.bark.model.gpt import causal_gpt
from voxyard.bark.model.noise import gumbel, key
from voxyard.bark.weights.checkpoint import BarkCheckpoint

WIDTH = 1000
CASES = [(None, 0.5), (None, 0.95), (None, 1e-6), (1, None), (50, None), (5000, None), (20, 0.9), (200, 0.3)]


def logits_of(rows: int = 6) -> Any:
    spread = torch.tensor([0.1, 1.0, 2.0, 3.0, 6.0, 20.0])[:rows, None]
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(1)) * spread


def kept_by_suno(logits: Any, top_k: int | None, top_p: float | None) -> Any:
    """Mask of one row, as bark/generation.py computes it: top_p on the plain logits, then top_k on the rest."""
    logits = logits.double().numpy().copy()
    if top_p is not None:
        order = np.argsort(logits)[::-1]
        ranked = np.exp(logits[order] - logits.max())
        out = np.cumsum(ranked / ranked.sum()) > top_p
        out[1:] = out[:-1].copy()
        out[0] = False
        logits[order[out]] = -np.inf
    if top_k is not None:
        logits[logits < np.sort(logits)[-min(top_k, len(logits))]] = -np.inf
    return np.isfinite(logits)


@pytest.mark.parametrize(("top_k", "top_p"), CASES)
def test_the_tokens_that_may_be_sampled_are_sunos(top_k: int | None, top_p: float | None) -> None:
    logits = logits_of()

    found = restricted(logits, Restriction(top_k, top_p))

    for row in range(len(logits)):
        kept = kept_by_suno(logits[row], top_k, top_p)
        np.testing.assert_array_equal(found[row].isfinite().numpy(), kept)
        assert torch.equal(found[row, kept], logits[row, kept])


@pytest.mark.parametrize(("top_k", "top_p"), [case for case in CASES if None in case])
def test_one_of_the_two_is_that_of_transformers_too(top_k: int | None, top_p: float | None) -> None:
    from transformers import TopKLogitsWarper, TopPLogitsWarper

    logits, ids = logits_of(), torch.zeros(6, 1, dtype=torch.long)
    warp: Any = TopKLogitsWarper(top_k) if top_k is not None else TopPLogitsWarper(top_p or 1.0)

    assert torch.equal(restricted(logits, Restriction(top_k, top_p)), warp(ids, logits))


def test_a_sample_is_the_largest_of_the_kept_logits_with_its_own_noise() -> None:
    logits, likely = logits_of(), Restriction(20, 0.9)
    steps = torch.arange(200, dtype=torch.int32)
    for row in range(len(logits)):
        noise = gumbel(torch.tensor([[7, row]], dtype=torch.int32), steps[None], WIDTH)[:, 0]
        each = logits[row].expand(200, -1)

        tokens, scores = sample(each, TokenSampling(0, WIDTH, 0.7, likely=likely), noise)

        kept = torch.as_tensor(kept_by_suno(logits[row], 20, 0.9))
        expected = torch.where(kept, each / 0.7 + noise, float("-inf")).argmax(-1)
        assert torch.equal(tokens, expected)
        assert bool(scores.isfinite().all())
        assert row > 3 or len(tokens.unique()) > 5


def test_the_end_has_its_probability_among_the_kept_tokens() -> None:
    logits = torch.tensor([[0.0, 1.0, 0.9, -1.0]])  # the end is token 2, of probability 0.35; among the first two 0.47
    noise = torch.tensor([[0.0, 9.0, 0.0, 0.0]])

    def taken(likely: Restriction) -> int:
        return int(sample(logits, TokenSampling(0, 4, 1.0, 2, 0.4, likely), noise)[0])

    assert taken(Restriction()) == 1
    assert taken(Restriction(top_k=2)) == 2


def test_a_logit_that_is_no_number_is_not_hidden() -> None:
    logits = logits_of(2)
    logits[1, 3] = float("nan")
    noise = torch.zeros(2, WIDTH)

    _, scores = sample(logits, TokenSampling(0, WIDTH, 0.7, likely=Restriction(5, 0.5)), noise)

    assert scores.isfinite().tolist() == [True, False]


@pytest.mark.parametrize("likely", [Restriction(top_k=1), Restriction(top_p=1e-9)])
def test_the_likeliest_token_alone_is_greedy(endless: BarkCheckpoint, likely: Restriction) -> None:
    layout = endless.layout
    first, second = (causal_gpt(each) for each in (endless.model.semantic, endless.model.coarse_acoustics))
    text, tokens = list(range(5, 30)), list(range(30))

    def codes(temperature: float, likely: Restriction) -> tuple[Any, Any]:
        spoken: list[Any] = []
        work = semantic.SemanticWork(0, text, None, key(7, 0, 0, "semantic"))
        options = semantic.SemanticOptions(temperature, None, limit=20, likely=likely)
        semantic.speak(Decoder(first, first.cache(2)), layout.semantic, [work], options, spoken.append)
        onward = coarse.CoarseWork(0, tokens, None, key(7, 0, 0, "coarse"))
        decoder = Decoder(second, second.cache(2))
        coarse.speak(decoder, layout.coarse, [onward], temperature, spoken.append, likely=likely)
        return spoken[0].tokens, spoken[1].codes.tolist()

    assert codes(0.7, likely) == codes(0, Restriction())
    assert codes(0.7, likely) != codes(0.7, Restriction())
