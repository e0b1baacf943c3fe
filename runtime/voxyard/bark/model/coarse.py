"""Coarse stage, semantic to coarse tokens: a sliding window, prefilled again only where it has moved.

Without a voice the semantic window starts at 0 as long as the history has room: the cache stays exact from window to
window. With a voice both windows slide every time, and no part of the cache can be kept. The model adds a learned
embedding of its absolute position to each token, before the first layer norm: a token that slides has other keys and
values in every layer, and there is no rotation that maps the old ones to the new ones. To keep them would be an
approximation that the model was not trained for, so every window is prefilled: all rows in one call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from voxyard.bark.model.attention import padded_length
from voxyard.bark.model.decode import ALL, Decoder, Restriction, Rows, TokenSampling, decode_all
from voxyard.bark.model.dimensions import CoarseLayout
from voxyard.bark.voices import Codes, VoicePrompt

Tensor = Any


@dataclass(frozen=True)
class CoarseWork:
    """A chunk before the coarse stage."""

    number: int
    semantic: Sequence[int]
    voice: VoicePrompt | None
    key: tuple[int, int]


@dataclass(frozen=True)
class CoarseOutcome:
    """A chunk after the coarse stage."""

    number: int
    codes: Codes  # (codebooks, frames)
    finite: bool


class _Row:
    """A chunk in its row of the batch: its window and the content of the cache."""

    def __init__(self, work: CoarseWork, layout: CoarseLayout) -> None:
        self.work, self.layout = work, layout
        past, coarse = history(work.voice, layout)
        self.semantic = [*past, *work.semantic]
        self.past = len(past)
        self.coarse = list(coarse)
        self.prompted = len(coarse)
        self.target = length(len(work.semantic), layout)
        self.cached_from: int | None = None  # start of the semantic window in the cache
        self.finite = True

    @property
    def sampled(self) -> int:
        """Tokens sampled so far."""
        return len(self.coarse) - self.prompted

    @property
    def start(self) -> int:
        """Start of the current semantic window."""
        return max(0, self.past + round(self.sampled / self.layout.ratio) - self.layout.semantic_history)

    def cache_holds(self) -> bool:
        """True where the cache equals what a prefill would write: same window, and no history has slid out."""
        return self.cached_from == self.start and len(self.coarse) <= self.layout.history

    def window(self) -> list[int]:
        """Prompt of the next token."""
        layout = self.layout
        semantic = self.semantic[self.start : self.start + layout.window]
        padding = [layout.pad] * (layout.window - len(semantic))
        return [*semantic, *padding, layout.infer, *self.coarse[-layout.history :]]

    def outcome(self) -> CoarseOutcome:
        """Codes by codebook, (codebooks, frames)."""
        layout = self.layout
        flat = np.array(self.coarse[self.prompted : self.prompted + self.target], dtype=np.int64) - layout.first
        codes = flat.reshape(-1, layout.codebooks).T % layout.codebook
        return CoarseOutcome(self.work.number, codes, self.finite)


class CoarseRows:
    """Rows of the coarse decoder: a chunk enters a free row and leaves it when it is done."""

    def __init__(
        self,
        decoder: Decoder,
        layout: CoarseLayout,
        temperature: float,
        *,
        skip: bool = True,
        likely: Restriction = ALL,
    ) -> None:
        self._decoder, self._layout, self._skip = decoder, layout, skip
        self._samplings = codebook_samplings(layout, temperature, layout.slide, likely)
        self._rows, self._running = Rows.idle(decoder.cache.batch), dict[int, _Row]()
        self._empty: list[_Row] = []  # chunks without a frame need no row

    def __len__(self) -> int:
        """Chunks that are not done."""
        return len(self._running) + len(self._empty)

    @property
    def free(self) -> int:
        """Rows without a chunk."""
        return len(self._rows.tokens) - len(self._running)

    def enter(self, work: CoarseWork) -> None:
        """Give the chunk a free row; its first window is prefilled by the next step."""
        chunk = _Row(work, self._layout)
        if not chunk.target:
            self._empty.append(chunk)
            return
        row = next(each for each in range(len(self._rows.tokens)) if each not in self._running)
        self._running[row] = chunk
        self._rows.keys[row] = work.key

    def remove(self, unwanted: Callable[[CoarseWork], bool]) -> list[CoarseWork]:
        """Free the rows of unwanted chunks; these chunks."""
        removed = [each.work for each in (*self._running.values(), *self._empty) if unwanted(each.work)]
        self._running = {row: each for row, each in self._running.items() if not unwanted(each.work)}
        self._empty = [each for each in self._empty if not unwanted(each.work)]
        return removed

    def step(self) -> list[CoarseOutcome]:
        """Decode one window in every row; returns the chunks that are done."""
        done, self._empty = [chunk.outcome() for chunk in self._empty], []
        if not self._running:
            return done
        self._prefill()
        self._rows.rewind_unused(self._running)
        longest = max(chunk.target - chunk.sampled for chunk in self._running.values())
        taken, finite = self._decoder.run(self._rows, self._samplings, longest)
        for row in sorted(self._running):
            chunk = self._running[row]
            chunk.coarse += taken[row]
            chunk.finite = finite[row]
            if chunk.sampled >= chunk.target or not chunk.finite:
                del self._running[row]
                done.append(chunk.outcome())
        return done

    def _prefill(self) -> None:
        """Prepare the rows for their next windows: all tokens but the last in the cache."""
        windows = []
        for row, chunk in self._running.items():
            self._rows.counts[row] = chunk.sampled
            if self._skip and chunk.cache_holds():
                continue  # the row is in position: the last token of the previous window is fed next
            window = chunk.window()
            windows.append((row, self._padded(window[:-1])))
            self._rows.tokens[row], self._rows.positions[row] = window[-1], len(window) - 1
            chunk.cached_from = chunk.start
        if not windows:
            return
        gpt = self._decoder.gpt
        tokens = [token for _, window in windows for token in window]
        embedded = gpt.tokens[torch.tensor(tokens, device=gpt.tokens.device)]  # one copy for all
        parts = embedded.split([len(window) for _, window in windows])
        self._decoder.prefill([(row, part) for (row, _), part in zip(windows, parts, strict=True)])

    def _padded(self, tokens: list[int]) -> list[int]:
        """Tokens up to a length of which there are few."""
        padding = padded_length(len(tokens), self._decoder.gpt.block) - len(tokens)
        return tokens + [self._layout.pad] * padding


def speak(
    decoder: Decoder,
    layout: CoarseLayout,
    work: Sequence[CoarseWork],
    temperature: float,
    done: Callable[[CoarseOutcome], None],
    *,
    skip: bool = True,
    likely: Restriction = ALL,
) -> None:
    """Decode all chunks, the longest first; `skip=False` prefills every window."""
    rows = CoarseRows(decoder, layout, temperature, skip=skip, likely=likely)
    decode_all(rows, sorted(work, key=lambda each: -len(each.semantic)), done)


def codebook_samplings(
    layout: CoarseLayout, temperature: float, steps: int, likely: Restriction = ALL
) -> list[TokenSampling]:
    """Sampling of each step: the codebooks alternate, every window begins with the first."""
    spans = [layout.first + layout.codebook * each for each in range(layout.codebooks)]
    turns = [TokenSampling(first, first + layout.codebook, temperature, likely=likely) for first in spans]
    return [turns[step % layout.codebooks] for step in range(steps)]


def length(semantic: int, layout: CoarseLayout) -> int:
    """Coarse tokens for so many semantic ones: whole frames."""
    return math.floor(semantic * layout.ratio / layout.codebooks) * layout.codebooks


def history(voice: VoicePrompt | None, layout: CoarseLayout) -> tuple[list[int], list[int]]:
    """Semantic and coarse tokens of a voice, cut to the same duration as in Bark."""
    if voice is None:
        return [], []
    offsets = layout.first + layout.codebook * np.arange(layout.codebooks)[:, None]
    coarse = (voice.coarse_prompt + offsets).T.reshape(-1)
    semantic = voice.semantic_prompt
    kept = min(layout.semantic_history, len(semantic) // 2 * 2, int(len(coarse) / layout.ratio))
    if not kept:
        return [], []
    tail = coarse[-round(kept * layout.ratio) :][:-2]  # two tokens less: Bark's authors found that it aligns better
    return semantic[-kept:].tolist(), tail.tolist()
