"""Semantic stage, text to semantic tokens: a row whose chunk ends takes the next chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from voxyard.bark.model.decode import ALL, Decoder, Restriction, Rows, TokenSampling, decode_all
from voxyard.bark.model.dimensions import SemanticLayout
from voxyard.bark.model.gpt import CausalGPT
from voxyard.bark.voices import Codes

Tensor = Any


@dataclass(frozen=True)
class SemanticWork:
    """A chunk before the semantic stage."""

    number: int  # the caller's, for the answer
    text: Sequence[int]  # tokens of the tokenizer
    history: Codes | None
    key: tuple[int, int]


@dataclass(frozen=True)
class SemanticOutcome:
    """A chunk after the semantic stage."""

    number: int
    tokens: tuple[int, ...]
    cap_reached: bool
    finite: bool


@dataclass(frozen=True)
class SemanticOptions:
    """Sampling of the semantic stage, and the number of steps between two checks for ended chunks."""

    temperature: float = 0.7
    end_share: float | None = 0.2
    limit: int | None = None  # tokens of a chunk; None: the model's
    check_every: int = 16  # steps between two checks
    likely: Restriction = ALL


class _Row:
    """A chunk in its row of the batch."""

    def __init__(self, work: SemanticWork) -> None:
        self.work = work
        self.tokens: list[int] = []
        self.finite = True

    def take(self, tokens: Sequence[int], finite: bool, end: int, limit: int) -> SemanticOutcome | None:
        """Append sampled tokens; the outcome once the chunk is done."""
        self.finite = finite
        if not finite:
            return self._outcome(cap_reached=False)  # further tokens would be meaningless
        for token in tokens:
            if token == end or len(self.tokens) == limit:
                return self._outcome(cap_reached=token != end)
            self.tokens.append(token)
        return self._outcome(cap_reached=True) if len(self.tokens) == limit else None

    def _outcome(self, *, cap_reached: bool) -> SemanticOutcome:
        return SemanticOutcome(self.work.number, tuple(self.tokens), cap_reached, self.finite)


class SemanticRows:
    """Rows of the semantic decoder: a chunk enters a free row and leaves it when it is done."""

    def __init__(self, decoder: Decoder, layout: SemanticLayout, options: SemanticOptions) -> None:
        self._decoder, self._layout = decoder, layout
        self._rows, self._running = Rows.idle(decoder.cache.batch), dict[int, _Row]()
        self._entered: list[int] = []  # rows to be prefilled
        self._limit = min(options.limit or layout.max_new, layout.max_new)
        sampling = TokenSampling(0, layout.end + 1, options.temperature, layout.end, options.end_share, options.likely)
        self._samplings = [sampling] * options.check_every

    def __len__(self) -> int:
        """Chunks in rows."""
        return len(self._running)

    @property
    def free(self) -> int:
        """Rows without a chunk."""
        return len(self._rows.tokens) - len(self._running)

    def enter(self, work: SemanticWork) -> None:
        """Give the chunk a free row; its prompt is prefilled by the next step."""
        rows, layout = self._rows, self._layout
        row = next(each for each in range(len(self._rows.tokens)) if each not in self._running)
        rows.tokens[row], rows.positions[row] = layout.infer, layout.window  # the first token that the loop feeds
        rows.counts[row], rows.keys[row] = 0, work.key
        self._running[row] = _Row(work)
        self._entered.append(row)

    def remove(self, unwanted: Callable[[SemanticWork], bool]) -> list[SemanticWork]:
        """Free the rows of unwanted chunks; these chunks."""
        removed = [each.work for each in self._running.values() if unwanted(each.work)]
        self._running = {row: each for row, each in self._running.items() if not unwanted(each.work)}
        self._entered = [row for row in self._entered if row in self._running]
        return removed

    def step(self) -> list[SemanticOutcome]:
        """Decode `check_every` tokens in every row; returns the chunks that are done."""
        self._rows.rewind_unused(self._running)
        self._decoder.prefill([(row, self._prompt(row)) for row in self._entered])
        self._entered = []
        taken, finite = self._decoder.run(self._rows, self._samplings)
        done = []
        for row in sorted(self._running):
            outcome = self._running[row].take(taken[row], finite[row], self._layout.end, self._limit)
            if outcome is not None:
                del self._running[row]
                done.append(outcome)
        return done

    def _prompt(self, row: int) -> Tensor:
        work = self._running[row].work
        return merged_prompt(self._decoder.gpt, self._layout, work.text, work.history)


def speak(
    decoder: Decoder,
    layout: SemanticLayout,
    work: Sequence[SemanticWork],
    options: SemanticOptions,
    done: Callable[[SemanticOutcome], None],
) -> None:
    """Decode all chunks; `done` is called with each outcome."""
    decode_all(SemanticRows(decoder, layout, options), work, done)


def merged_prompt(gpt: CausalGPT, layout: SemanticLayout, text: Sequence[int], history: Codes | None) -> Tensor:
    """Text and history share their positions: the sum of their embeddings, (window, hidden)."""
    past = np.full(layout.window, layout.end)
    if history is not None:
        kept = history[-layout.window :]
        past[: len(kept)] = kept
    words = np.full(layout.window, layout.text_pad)
    words[: len(text)] = np.asarray(text, dtype=np.int64) + layout.text_offset
    both = torch.as_tensor(np.stack([words, past]), device=gpt.tokens.device)
    return gpt.tokens[both].sum(0)
