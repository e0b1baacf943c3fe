"""Fine stage, the first codebooks to all of them: non-causal windows over one chunk at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from voxyard.bark.model.attention import TILE, attend, transposed
from voxyard.bark.model.decode import TokenSampling, sample
from voxyard.bark.model.dimensions import FineLayout
from voxyard.bark.model.gpt import Layer, Norm, block_of, norm_of
from voxyard.bark.model.int8 import Linear, dense
from voxyard.bark.model.noise import gumbel
from voxyard.bark.model.progress import OnProgress, unwatched
from voxyard.bark.voices import Codes, VoicePrompt

Tensor = Any


@dataclass(frozen=True)
class FineGPT:
    """Transformer of the fine stage: no mask, an embedding for each codebook, a head for each predicted one."""

    codes: Tensor  # embeddings, (codebooks, vocabulary, hidden)
    positions: Tensor  # embedding, (block, hidden)
    layers: tuple[Layer, ...]
    norm: Norm
    heads_of: tuple[Linear, ...]  # outputs of the codebooks from `given` on, hidden to vocabulary
    given: int
    heads: int

    def logits(self, window: Tensor, codebook: int, first: int, width: int, report: OnProgress = unwatched) -> Tensor:
        """Logits for one codebook of the frames from `first` on, for codes (codebooks, time): (frames, width).

        Reports before each layer.
        """
        time = window.shape[1]
        embedded = sum(self.codes[each, window[each]] for each in range(codebook + 1))
        x = self.positions[:time] + embedded  # (time, hidden)
        normed = self._on_gpu(x, report) if x.device.type != "cpu" else self._on_cpu(x, first, report)
        head = self.heads_of[codebook - self.given]
        return head(normed[first - time :])[:, :width].float()

    def _on_gpu(self, x: Tensor, report: OnProgress) -> Tensor:
        """The layers and the last norm, all frames in one product."""
        normed = self.layers[0].norm_attention(x)
        norms = [*(layer.norm_attention for layer in self.layers[1:]), self.norm]
        for layer, following in zip(self.layers, norms, strict=True):
            report()
            q, k, v = layer.qkv(normed).unflatten(-1, (3, self.heads, -1)).permute(1, 2, 0, 3)[:, None]
            y = attend(q, k, v, None)[0].transpose(0, 1).flatten(1)
            x, normed = layer.after_with_norm(x, y, following)
        return normed

    def _on_cpu(self, x: Tensor, first: int, report: OnProgress) -> Tensor:
        """The layers and the last norm, in tiles of frames whose activations stay in the core's cache.

        Of the last layer's output no more is computed than the tiles from `first` on.
        """
        for layer in self.layers:
            report()
            x = _in_tiles(layer, x, self.heads, first // TILE * TILE if layer is self.layers[-1] else 0)
        return self.norm(x)


def _in_tiles(layer: Layer, x: Tensor, heads: int, begin: int) -> Tensor:
    """Output of a block from the frame `begin` on, in tiles of frames: (time, hidden) → (time − begin, hidden)."""
    qkv = torch.cat([layer.projections(each, heads) for each in x.split(TILE)])  # (time, 3, heads, width)
    q, k, v = qkv.permute(1, 2, 0, 3)[:, None]  # each (1, heads, time, width)
    k, v = transposed(k), v.contiguous()
    found = []
    for at in range(begin, len(x), TILE):
        y = attend(q[:, :, at : at + TILE], k, v, None)
        found.append(layer.after(x[at : at + TILE], y[0].transpose(0, 1).flatten(1)))
    return torch.cat(found)


def fine_gpt(module: Any, linear: Callable[[Any], Linear] = dense, heads: Callable[[Any], Linear] = dense) -> FineGPT:
    """The weights of a `BarkFineModel`; `linear` converts the layers, `heads` the outputs."""
    return FineGPT(
        codes=torch.stack([each.weight.detach() for each in module.input_embeds_layers]),
        positions=module.position_embeds_layer.weight.detach(),
        layers=tuple(block_of(each, linear) for each in module.layers),
        norm=norm_of(module.layernorm_final),
        heads_of=tuple(heads(each) for each in module.lm_heads),
        given=module.config.n_codes_given,
        heads=module.config.num_heads,
    )


@dataclass(frozen=True)
class FineSampling:
    """Sampling of a window's codes."""

    given: int  # codebooks of the coarse stage
    codes: int  # of a codebook: the others of the vocabulary are never sampled
    temperature: float


# window (codebooks, time), first frame to fill, noise key (1, 2), noise counter of the window, sampling, called as it
# goes on → the filled window, and True where all its scores were finite
Fill = Callable[[Tensor, int, Tensor, int, FineSampling, OnProgress], tuple[Tensor, Tensor]]


def fill_eagerly(gpt: FineGPT) -> Fill:
    """The fill of a window without capture."""

    def fill(
        window: Tensor, first: int, key: Tensor, counter: int, sampling: FineSampling, report: OnProgress
    ) -> tuple[Tensor, Tensor]:
        bounds = torch.tensor([first, counter], dtype=torch.int32, device=window.device)
        begin = first if window.device.type == "cpu" else 0
        return filled(gpt, window.clone(), begin, bounds, key, sampling, report)

    return fill


def filled(
    gpt: FineGPT, window: Tensor, begin: int, bounds: Tensor, key: Tensor, sampling: FineSampling, report: OnProgress
) -> tuple[Tensor, Tensor]:
    """Fill a window of codes (codebooks, time) in place from the frame `bounds[0]` on; and if all scores were finite.

    The noise counts from `bounds[1]`. The output is computed from the frame `begin` on: a CPU begins with the first one
    that is wanted, a GPU with the first of all, so that one shape, and one captured graph, serves every window.
    """
    time, start = window.shape[1], bounds[0]
    frames = torch.arange(begin, time, dtype=torch.int32, device=window.device)
    wanted = frames >= start
    finite = torch.ones((), dtype=torch.bool, device=window.device)
    for codebook in range(sampling.given, len(window)):
        logits = gpt.logits(window, codebook, begin, sampling.codes, report)
        noise = gumbel(key, (frames - start + bounds[1] + codebook * time)[None], sampling.codes)[:, 0]
        sampled, scores = sample(logits, TokenSampling(0, sampling.codes, sampling.temperature), noise)
        window[codebook, begin:] = torch.where(wanted, sampled, window[codebook, begin:])
        finite = finite & (scores.isfinite() | ~wanted).all()
    return window, finite


def speak(
    gpt: FineGPT,
    layout: FineLayout,
    coarse: Codes,
    voice: VoicePrompt | None,
    key: tuple[int, int],
    temperature: float,
    report: OnProgress = unwatched,
    fill: Fill | None = None,
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
    run, sampling = fill or fill_eagerly(gpt), FineSampling(layout.given, layout.codebook, temperature)
    finite = torch.ones((), dtype=torch.bool, device=device)
    for number, (start, first) in enumerate(windows(layout, before, frames, codes.shape[1])):
        window = codes[:, start : start + layout.window]  # a view: the next window reads the codes written here
        counter = number * layout.codebooks * layout.window
        complete, sound = run(window, first - start, keys, counter, sampling, report)
        window[:] = complete
        finite = finite & sound
    found = torch.cat([finite.long().view(1), codes[:, before : before + frames].flatten()])
    host = found.cpu().numpy()  # the only synchronization
    return host[1:].reshape(layout.codebooks, frames), bool(host[0])


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
