"""The decode loop of the causal stages: a batch of rows, each at a position of its own, some steps at a time."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from voxyard.bark.model.gpt import Cache, CausalGPT, whole
from voxyard.bark.model.noise import gumbel

Tensor = Any


@dataclass(frozen=True)
class TokenSampling:
    """Sampling of a token among the tokens from `first` to before `last`."""

    first: int
    last: int
    temperature: float  # 0: the most likely one
    end: int | None = None  # the token that is taken as soon as it has the probability `end_share`
    end_share: float | None = None


# token (batch,), position (batch,), cached positions to read, sampling, noise (batch, width) → token, score
Step = Callable[[Tensor, Tensor, int, TokenSampling, Tensor], tuple[Tensor, Tensor]]
Launch = Callable[[CausalGPT, Cache], Step]


@dataclass
class Rows:
    """State of a batch's rows: the next token to feed, its position, the number of tokens chosen so far."""

    tokens: list[int]
    positions: list[int]
    counts: list[int]
    keys: list[tuple[int, int]]

    @classmethod
    def idle(cls, batch: int) -> Rows:
        """Rows that nobody uses; they run along, so that the shape of a batch never changes."""
        return cls([0] * batch, [0] * batch, [0] * batch, [(0, 0)] * batch)

    def rest(self, used: Container[int]) -> None:
        """Send the rows that nobody uses back to the start: how much of the cache is read follows the furthest row."""
        for row in range(len(self.positions)):
            if row not in used:
                self.positions[row] = 0


def sample(logits: Tensor, sampling: TokenSampling, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens (batch,) for logits and noise (batch, width), and their scores: NaN where a logit is NaN."""
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
    """Runs one causal stage for a fixed number of rows."""

    def __init__(self, gpt: CausalGPT, cache: Cache, launch: Launch | None = None) -> None:
        self.gpt, self.cache = gpt, cache
        self._step = (launch or eager)(gpt, cache)

    def prefill(self, row: int, embedded: Tensor) -> None:
        """Fill a row's cache from position 0, (time, hidden). One row at a time: its mates cannot reach it."""
        self.gpt.prefill(embedded, self.cache, row)

    def run(self, rows: Rows, samplings: Sequence[TokenSampling]) -> tuple[list[list[int]], list[bool]]:
        """Sample a token for every row and each of the samplings; the host waits once, at the end.

        `rows` moves on. Rows at the end of the block stay there: their owner takes no more tokens from them.

        Returns:
            The tokens of each row, and whether all its scores were finite.
        """
        device, last = self.cache.starts.device, self.gpt.block - 1
        steps = torch.arange(len(samplings), dtype=torch.int32, device=device)
        keys, start = self._on_device(rows)
        noise = gumbel(keys, start[2].int()[:, None] + steps, max(each.last - each.first for each in samplings))
        token, chosen, scores = start[0], [], []
        for number, sampling in enumerate(samplings):
            at = (start[1] + number).clamp_max_(last)
            length = whole(min(max(rows.positions) + number, last) + 1, self.gpt.block)
            token, score = self._step(token, at, length, sampling, noise[number, :, : sampling.last - sampling.first])
            chosen.append(token)
            scores.append(score)
        taken = torch.stack(chosen, 1).tolist()  # (batch, steps); the one wait for the device
        finite = torch.stack(scores, 1).isfinite().all(1).tolist()
        if not all(finite):
            self._forget([row for row, fine in enumerate(finite) if not fine])
        for row, tokens in enumerate(taken):
            rows.tokens[row] = tokens[-1]
            rows.positions[row] = min(rows.positions[row] + len(samplings), last)
            rows.counts[row] += len(samplings)
        return taken, finite

    def _forget(self, rows: list[int]) -> None:
        """Clears the rows' cache: a non-finite value, though masked, would still reach the row's next chunk."""
        for kv in self.cache.layers:
            kv[rows] = 0

    def _on_device(self, rows: Rows) -> tuple[Tensor, Tensor]:
        device = self.cache.starts.device
        keys = torch.tensor(rows.keys, dtype=torch.int32, device=device)
        return keys, torch.tensor([rows.tokens, rows.positions, rows.counts], device=device)


def eager(gpt: CausalGPT, cache: Cache) -> Step:
    """A step as it stands in the code: on a CPU there is nothing to capture."""

    def step(token: Tensor, at: Tensor, length: int, sampling: TokenSampling, noise: Tensor) -> tuple[Tensor, Tensor]:
        hidden = gpt.step(token, at, cache, length)
        return sample(gpt.logits(hidden, sampling.first, sampling.last), sampling, noise)

    return step
