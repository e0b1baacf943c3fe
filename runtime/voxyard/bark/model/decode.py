"""Decode loop of the causal stages: a batch of rows, each at its own position, several steps at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import torch

from voxyard.bark.model.attention import Cache
from voxyard.bark.model.gpt import CausalGPT
from voxyard.bark.model.memory import PREFILL_ROWS
from voxyard.bark.model.noise import gumbel
from voxyard.bark.model.progress import OnProgress, unwatched

Tensor = Any
_WHOLE = 2.0**40  # probabilities are summed as whole multiples of its inverse


@dataclass(frozen=True)
class Restriction:
    """The likely tokens that alone may be sampled: the `top_k` likeliest, or those that share `top_p`; None: all."""

    top_k: int | None = None
    top_p: float | None = None


ALL = Restriction()


@dataclass(frozen=True)
class TokenSampling:
    """Sampling of a token from the vocabulary slice [first, last)."""

    first: int
    last: int
    temperature: float  # 0: greedy
    end: int | None = None  # end token, taken as soon as its probability reaches `end_share`
    end_share: float | None = None
    likely: Restriction = ALL


@dataclass(frozen=True, eq=False)
class Loop:
    """Tensors of a block of steps: each step reads them and leaves them as the next one needs them.

    So a step is the same operations on the same tensors every time, and the host copies nothing between two.
    """

    token: Tensor  # (batch,) int64, fed next
    at: Tensor  # (batch,) int64, its position
    made: Tensor  # (1,) int64, steps so far
    noise: Tensor  # (steps, batch, width)
    tokens: Tensor  # (steps, batch) int64, sampled
    scores: Tensor  # (steps, batch)

    @classmethod
    def empty(cls, steps: int, batch: int, width: int, device: Any) -> Loop:
        """Memory for a block of so many steps at most, each of so many values of noise."""
        whole = partial(torch.zeros, dtype=torch.int64, device=device)
        numbers = partial(torch.zeros, device=device)
        return cls(
            whole(batch), whole(batch), whole(1), numbers(steps, batch, width), whole(steps, batch),
            numbers(steps, batch),
        )  # fmt: skip

    @property
    def state(self) -> tuple[Tensor, Tensor, Tensor]:
        """What a step changes and reads."""
        return self.token, self.at, self.made

    def begin(self, start: Tensor, keys: Tensor, steps: int) -> None:
        """Begin `steps` steps with tokens, positions and counts of the rows, (3, batch), and their noise keys."""
        self.token.copy_(start[0])
        self.at.copy_(start[1])
        self.made.zero_()
        numbers = start[2].int()[:, None] + torch.arange(steps, dtype=torch.int32, device=keys.device)
        made = 0
        for half in numbers.split(-(-steps // 2), dim=1):  # to make noise takes thrice its memory
            self.noise[made : made + half.shape[1]].copy_(gumbel(keys, half, self.noise.shape[2]))
            made += half.shape[1]


# loop, cached positions to read, sampling: makes the next step
Step = Callable[[Loop, int, TokenSampling], None]
# embeddings (rows, time, hidden), rows of the cache to fill, called as it goes on
Prefill = Callable[[Tensor, Sequence[int], OnProgress], None]


@dataclass(frozen=True)
class Launched:
    """The step and the prefill of a stage on its cache, as the device runs them."""

    step: Step
    prefill: Prefill
    prefill_rows: int  # rows of every prefill


Launch = Callable[[CausalGPT, Cache], Launched]


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
    scaled = restricted(logits, sampling.likely) / sampling.temperature
    score, place = (scaled + noise).max(-1)
    token = place + sampling.first
    if sampling.end is not None and sampling.end_share is not None:
        share = scaled.softmax(-1)[:, sampling.end - sampling.first]
        token = torch.where(share >= sampling.end_share, sampling.end, token)
    return token, score


def restricted(logits: Tensor, likely: Restriction) -> Tensor:
    """Logits (batch, width) with −inf for tokens that may not be sampled; a logit that is NaN stays.

    As in suno's code: `top_p` first, on the probabilities at temperature 1, then `top_k` among the rest. The likeliest
    token always stays. Probabilities are summed as whole numbers: on a GPU the order of a sum is not fixed.
    """
    if likely.top_p is not None:
        ranked, order = logits.sort(dim=-1, descending=True, stable=True)
        shares = (ranked.softmax(-1).double() * _WHOLE).long()
        before = shares.cumsum(-1) - shares  # share of the likelier ones
        out = (before > likely.top_p * _WHOLE) & ~ranked.isnan()
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), float("-inf"))
    if likely.top_k is not None:
        smallest = logits.topk(min(likely.top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, float("-inf"))
    return logits


class Decoder:
    """Runs one causal stage for a fixed number of rows; calls `report` before each step and each layer of a prefill."""

    def __init__(self, gpt: CausalGPT, cache: Cache, launch: Launch | None = None) -> None:
        self.gpt, self.cache = gpt, cache
        self.report: OnProgress = unwatched
        self._launched = (launch or eager)(gpt, cache)
        self._loop: Loop | None = None

    def prefill(self, windows: Sequence[tuple[int, Tensor]]) -> None:
        """Fill rows of the cache from position 0: (row, embeddings (time, hidden)) of each; others are not touched.

        Windows of one length go together, always as many: where there are fewer, one is repeated, which writes the same
        values again. So the shape of a product depends on a row's own length alone, and its values with it.
        """
        by_length: dict[int, list[tuple[int, Tensor]]] = {}
        for window in windows:
            by_length.setdefault(len(window[1]), []).append(window)
        together = self._launched.prefill_rows
        for same in by_length.values():
            for begin in range(0, len(same), together):
                group = same[begin : begin + together]
                group += group[-1:] * (together - len(group))
                embedded = torch.stack([each for _, each in group])
                self._launched.prefill(embedded, [row for row, _ in group], self.report)

    def run(
        self, rows: Rows, samplings: Sequence[TokenSampling], steps: int | None = None
    ) -> tuple[list[list[int]], list[bool]]:
        """Sample a token for every row and each of the samplings, or the first `steps` of them.

        The host synchronizes once, at the end. `rows` is advanced. Rows at the end of the block stay there; no more
        tokens are taken from them.

        Returns:
            The tokens of each row, and whether all its scores were finite.
        """
        count, last = len(samplings) if steps is None else min(steps, len(samplings)), self.gpt.block - 1
        loop = self._loop_of(samplings)
        loop.begin(*self._on_device(rows), count)
        for number, sampling in enumerate(samplings[:count]):
            self.report()
            length = self.cache.read_length(min(max(rows.positions) + number, last) + 1)
            self._launched.step(loop, length, sampling)
        sound = loop.scores[:count].isfinite().all(0)
        found = torch.column_stack([sound, loop.tokens[:count].T]).tolist()  # (batch, 1 + steps); the only wait
        finite, taken = [bool(row[0]) for row in found], [row[1:] for row in found]
        if not all(finite):  # a non-finite value, though masked, would still reach the row's next chunk
            self.cache.clear([row for row, fine in enumerate(finite) if not fine])
        for row, tokens in enumerate(taken):
            rows.tokens[row] = tokens[-1]
            rows.positions[row] = min(rows.positions[row] + count, last)
            rows.counts[row] += count
        return taken, finite

    def _loop_of(self, samplings: Sequence[TokenSampling]) -> Loop:
        """The memory of a block of all these samplings; that of the last one where it is as large."""
        sizes = len(samplings), self.cache.batch, max(each.last - each.first for each in samplings)
        if self._loop is None or self._loop.noise.shape != sizes:
            self._loop = Loop.empty(*sizes, self.cache.rows.device)
        return self._loop

    def _on_device(self, rows: Rows) -> tuple[Tensor, Tensor]:
        device = self.cache.rows.device
        keys = torch.tensor(rows.keys, dtype=torch.int32, device=device)
        return torch.tensor([rows.tokens, rows.positions, rows.counts], device=device), keys


def advance(gpt: CausalGPT, cache: Cache, loop: Loop, length: int, sampling: TokenSampling) -> None:
    """Make the next step of a block, by operations on tensors alone."""
    noise = loop.noise[..., : sampling.last - sampling.first].index_select(0, loop.made)[0]
    hidden = gpt.step(loop.token, loop.at, cache, length)
    token, score = sample(gpt.logits(hidden, sampling.first, sampling.last), sampling, noise)
    loop.tokens.index_copy_(0, loop.made, token[None])
    loop.scores.index_copy_(0, loop.made, score[None].to(loop.scores.dtype))
    loop.token.copy_(token)
    loop.at.add_(1).clamp_max_(gpt.block - 1)
    loop.made.add_(1)


def eager(gpt: CausalGPT, cache: Cache) -> Launched:
    """Step and prefill without capture, as on a CPU: there one row's prefill keeps a core busy."""

    step = partial(advance, gpt, cache)

    def prefill_row(x: Tensor, rows: Sequence[int], report: OnProgress) -> None:
        gpt.prefill(x[0], cache, rows[0], report)

    def prefill_rows(x: Tensor, rows: Sequence[int], report: OnProgress) -> None:
        report()
        gpt.prefill_rows(x, cache, torch.tensor(rows, device=x.device))

    if cache.rows.device.type == "cpu":
        return Launched(step, prefill_row, 1)
    return Launched(step, prefill_rows, min(cache.batch, PREFILL_ROWS))


In = TypeVar("In")
Out = TypeVar("Out")


class Batch(Protocol[In, Out]):
    """Rows of a stage."""

    def __len__(self) -> int:
        """Chunks that are not done."""

    @property
    def free(self) -> int:
        """Rows without a chunk."""

    def enter(self, work: In, /) -> None:
        """Give a chunk a free row."""

    def remove(self, unwanted: Callable[[In], bool], /) -> Sequence[In]:
        """Free the rows of unwanted chunks; these chunks."""

    def step(self) -> list[Out]:
        """Decode some tokens in every row; returns the chunks that are done."""


def decode_all(batch: Batch[In, Out], work: Iterable[In], done: Callable[[Out], None]) -> None:
    """Decode all chunks, each once a row is free for it; `done` is called with each outcome."""
    waiting = deque(work)
    while waiting or batch:
        while waiting and batch.free:
            batch.enter(waiting.popleft())
        for outcome in batch.step():
            done(outcome)
