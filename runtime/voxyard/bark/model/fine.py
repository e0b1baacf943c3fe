"""Fine stage, the first codebooks to all of them: non-causal windows over one chunk at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (the field's name for it)

from voxyard.bark.model.decode import TokenSampling, sample
from voxyard.bark.model.dimensions import FineLayout
from voxyard.bark.model.gpt import Layer, Norm, block_of, norm_of
from voxyard.bark.model.int8 import Linear, dense
from voxyard.bark.model.noise import gumbel
from voxyard.bark.model.progress import Report, unwatched
from voxyard.bark.voices import Codes, VoicePrompt

Tensor = Any


@dataclass(frozen=True)
class FineGPT:
    """Transformer of the fine stage: no mask, an embedding for each codebook, a head for each predicted one."""

    codes: Tensor  # embeddings, (codebooks, vocabulary, hidden)
    positions: Tensor  # embedding, (block, hidden)
    layers: tuple[Layer, ...]
    norm: Norm
    heads_of: tuple[Tensor, ...]  # (vocabulary, hidden) for the codebooks from `given` on
    given: int
    heads: int

    def logits(self, window: Tensor, codebook: int, first: int, width: int, report: Report = unwatched) -> Tensor:
        """Logits for one codebook of the frames from `first` on, for codes (codebooks, time): (frames, width).

        Reports before each layer.
        """
        T = window.shape[1]
        x = self.positions[:T] + sum(self.codes[each, window[each]] for each in range(codebook + 1))  # (time, hidden)
        for layer in self.layers:
            report()
            qkv = layer.qkv(layer.norm_attention(x)).view(T, 3, self.heads, -1)
            q, k, v = qkv.permute(1, 2, 0, 3)[:, None]  # each (1, heads, time, width)
            y = F.scaled_dot_product_attention(q, k, v)
            x = x + layer.out(y[0].transpose(0, 1).reshape(T, -1))
            x = x + layer.down(F.gelu(layer.up(layer.norm_mlp(x))))
        return F.linear(self.norm(x[first:]), self.heads_of[codebook - self.given][:width]).float()


def fine_gpt(module: Any, linear: Callable[[Any], Linear] = dense) -> FineGPT:
    """The weights of a `BarkFineModel`."""
    return FineGPT(
        codes=torch.stack([each.weight.detach() for each in module.input_embeds_layers]),
        positions=module.position_embeds_layer.weight.detach(),
        layers=tuple(block_of(each, linear) for each in module.layers),
        norm=norm_of(module.layernorm_final),
        heads_of=tuple(each.weight.detach() for each in module.lm_heads),
        given=module.config.n_codes_given,
        heads=module.config.num_heads,
    )


def speak(
    gpt: FineGPT,
    layout: FineLayout,
    coarse: Codes,
    voice: VoicePrompt | None,
    key: tuple[int, int],
    temperature: float,
    report: Report = unwatched,
) -> tuple[Codes, bool]:
    """All codebooks of one chunk, (given, frames) → (codebooks, frames); and True if all scores were finite.

    A chunk shorter than the window is padded with the code for "none".
    """
    device, frames = gpt.positions.device, coarse.shape[1]
    past = _history(voice, layout)
    before = past.shape[1]
    known = np.full((layout.codebooks, frames), layout.codebook)
    known[: layout.given] = coarse
    tail = np.full((layout.codebooks, max(0, layout.window - before - frames)), layout.codebook)
    codes = torch.as_tensor(np.concatenate([past, known, tail], 1), device=device)
    keys = torch.tensor([key], dtype=torch.int32, device=device)
    finite = torch.ones((), dtype=torch.bool, device=device)
    for number, (start, fill) in enumerate(windows(layout, before, frames, codes.shape[1])):
        window = codes[:, start : start + layout.window]  # a view: the next codebook reads the codes written here
        first = fill - start
        for codebook in range(layout.given, layout.codebooks):
            logits = gpt.logits(window, codebook, first, layout.codebook, report)  # (filled, codebook)
            noise = _noise(keys, (number * layout.codebooks + codebook) * layout.window, len(logits), layout.codebook)
            found, scores = sample(logits, TokenSampling(0, layout.codebook, temperature), noise)
            window[codebook, first:] = found
            finite &= scores.isfinite().all()
    return codes[:, before : before + frames].cpu().numpy(), bool(finite)


def windows(layout: FineLayout, before: int, frames: int, total: int) -> list[tuple[int, int]]:
    """Start of each window and the first frame that is filled in it, in the order of work."""
    count = max(0, math.ceil((frames - (layout.window - before)) / layout.hop)) + 1
    return [
        (min(each * layout.hop, total - layout.window), min(before + each * layout.hop, total - layout.hop))
        for each in range(count)
    ]


def _history(voice: VoicePrompt | None, layout: FineLayout) -> Codes:
    if voice is None:
        return np.zeros((layout.codebooks, 0), dtype=np.int64)
    return voice.fine_prompt[:, -layout.hop :].astype(np.int64)


def _noise(keys: Tensor, base: int, frames: int, width: int) -> Tensor:
    steps = torch.arange(base, base + frames, dtype=torch.int32, device=keys.device)
    return gumbel(keys, steps[None], width)[:, 0]
