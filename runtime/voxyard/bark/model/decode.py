"""Decode loop of the causal stages: a batch of rows, each at its own position, several steps at a time."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from voxyard.bark.model.gpt import Cache, CausalGPT, padded_length
from voxyard.bark.model.noise import gumbel
from voxyard.bark.model.progress import Report, unwatched

Tensor = Any


@dataclass(frozen=True)
class TokenSampling:
    """Sampling of a token from the vocabulary slice [first, last)."""

    first: int
    last: int
    temperature: float  # 0: greedy
    end: int | None = None  # end token, taken as soon as its probability reaches `end_share`
    end_share: float | None = None


# token (batch,), position (batch,), cached positions to read, sampling, noise (batch, width) → token, score
Step = Callable[[Tensor, Tensor, int, TokenSampling, Tensor], tuple[Tensor, Tensor]]
Launch = Callable[[CausalGPT, Cache], Step]


@dataclass
class Rows:
    """State of a batch's rows: next token to feed, its position, number of tokens sampled so far, noise key."""

    tokens: list[int]
    positions: list[int]
    counts: list[int]
    keys: list[tuple[int, int]]

    @classmethod
    def idle(cls, batch: int) -> Rows:
        """Unused rows; they are decoded too, so that the shape of a batch never changes."""
        return cls([0] * batch, [0] * batch, [0] * batch, [(0, 0)] * batch)

    def rewind_unused(self, used: Container[int]) -> None:
        """Set unused rows to position 0: the length of cache that a step reads follows the furthest row."""
        for row in range(len(self.positions)):
            if row not in used:
                self.positions[row] = 0


def sample(logits: Tensor, sampling: TokenSampling, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Sample tokens (batch,) from logits and noise (batch, width); and their scores, NaN where a logit is NaN."""
    if sampling.temperature == 0:
        score, place = logits.max(-1)
        return place + sampling.first, score
    scaled = logits / sampling.temperature
    score, place = (scaled + noise).max(-1)
    token = place + sampling.first
    if sampling.end is not None and sampling.end_share is not None:
        share = scaled.softmax(-1)[:, sampling.end - sampling.first]
        token = torch.where(share >= sampling.end_share, sampling.end, token)
    return token, score


class Decoder:
    """Runs one causal stage for a fixed number of rows; calls `report` before each step and each layer of a prefill."""

    def __init__(self, gpt: CausalGPT, cache: Cache, launch: Launch | None = None) -> None:
        self.gpt, self.cache = gpt, cache
        self.report: Report = unwatched
        self._step = (launch or eager)(gpt, cache)

    def prefill(self, row: int, embedded: Tensor) -> None:
        """Fill a row's cache from position 0 with embeddings, (time, hidden); other rows are not touched."""
        self.gpt.prefill(embedded, self.cache, row, self.report)

    def run(self, rows: Rows, samplings: Sequence[TokenSampling]) -> tuple[list[list[int]], list[bool]]:
        """Sample a token for every row and each of the samplings; the host synchronizes once, at the end.

        `rows` is advanced. Rows at the end of the block stay there; no more tokens are taken from them.

        Returns:
            The tokens of each row, and whether all its scores were finite.
        """
        device, last = self.cache.starts.device, self.gpt.block - 1
        steps = torch.arange(len(samplings), dtype=torch.int32, device=device)
        keys, start = self._on_device(rows)
        noise = gumbel(keys, start[2].int()[:, None] + steps, max(each.last - each.first for each in samplings))
        token, chosen, scores = start[0], [], []
        for number, sampling in enumerate(samplings):
            self.report()
            at = (start[1] + number).clamp_max_(last)
            length = padded_length(min(max(rows.positions) + number, last) + 1, self.gpt.block)
            token, score = self._step(token, at, length, sampling, noise[number, :, : sampling.last - sampling.first])
            chosen.append(token)
            scores.append(score)
        taken = torch.stack(chosen, 1).tolist()  # (batch, steps); the only synchronization
        finite = torch.stack(scores, 1).isfinite().all(1).tolist()
        if not all(finite):
            self._clear([row for row, fine in enumerate(finite) if not fine])
        for row, tokens in enumerate(taken):
            rows.tokens[row] = tokens[-1]
            rows.positions[row] = min(rows.positions[row] + len(samplings), last)
            rows.counts[row] += len(samplings)
        return taken, finite

    def _clear(self, rows: list[int]) -> None:
        """Clear the rows' cache: a non-finite value, though masked, would still reach the row's next chunk."""
        for kv in self.cache.layers:
            kv[rows] = 0

    def _on_device(self, rows: Rows) -> tuple[Tensor, Tensor]:
        device = self.cache.starts.device
        keys = torch.tensor(rows.keys, dtype=torch.int32, device=device)
        return keys, torch.tensor([rows.tokens, rows.positions, rows.counts], device=device)


def eager(gpt: CausalGPT, cache: Cache) -> Step:
    """The step without capture, as on a CPU."""

    def step(token: Tensor, at: Tensor, length: int, sampling: TokenSampling, noise: Tensor) -> tuple[Tensor, Tensor]:
        hidden = gpt.step(token, at, cache, length)
        return sample(gpt.logits(hidden, sampling.first, sampling.last), sampling, noise)

    return step
