"""Floors: the least time for Bark's stages on a machine, by the measured speed of its memory and its arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from bench_stages import STAGES, Timer

from voxyard.bark.model import coarse, fine
from voxyard.bark.model.dimensions import Layout
from voxyard.bark.voices import VoicePrompt

_MATRICES = 12  # of hidden × hidden in a layer: 3 for queries, keys and values, 1 behind attention, 8 of the MLP


@dataclass(frozen=True)
class Machine:
    """Speed of one device, measured."""

    bytes_per_second: float  # of its memory
    flops: float  # floating-point operations a second of a product of matrices, in the model's precision
    full_flops: float  # the same in float32: the codec's

    @classmethod
    def measured(cls, timer: Timer, dtype: Any, *, size: int = 1) -> Machine:
        """Best of some runs; `size` 1 suits a CPU core, 16 a GPU."""
        return cls(
            bandwidth(timer),
            _flops(timer, dtype, 512 * size),
            _flops(timer, torch.float32, 512 * size),
        )


def bandwidth(timer: Timer, runs: int = 3) -> float:
    """Bytes a second, the best of some runs: read by a matrix-vector product or a sum on a CPU, copied on a GPU."""
    if timer.device == "cuda":
        source = torch.ones(2**29, dtype=torch.float32, device="cuda")  # 2 GiB
        target = torch.empty_like(source)
        timer.of(lambda: target.copy_(source))
        return float(2 * source.nbytes / min(timer.of(lambda: target.copy_(source)) for _ in range(runs)))
    matrix, vector = torch.rand(100_000, 1000), torch.rand(1, 1000)  # 400 MB
    readers = (lambda: torch.nn.functional.linear(vector, matrix), matrix.sum)  # MKL's product reads half as fast
    return float(matrix.nbytes / min(timer.of(reader) for reader in readers for _ in range(runs)))


def _flops(timer: Timer, dtype: Any, side: int) -> float:
    matrix = torch.rand(side, side, device=timer.device).to(dtype)
    timer.of(lambda: matrix @ matrix)
    seconds = min(timer.of(lambda: [matrix @ matrix for _ in range(4)]) for _ in range(3)) / 4
    return float(2 * side**3 / seconds)


@dataclass(frozen=True)
class Network:
    """Sizes of the transformers; the three stages of a Bark model have the same."""

    layers: int
    hidden: int
    weight_bytes: float  # of one weight
    cache_bytes: float  # of one number of the cache

    @property
    def parameters(self) -> int:
        """Weights of all layers."""
        return self.layers * _MATRICES * self.hidden**2

    def step_bytes(self, rows: int, positions: float, outputs: int) -> float:
        """Bytes that one decode step reads: weights, the rows of the head that are sampled from, keys and values."""
        weights = self.parameters * self.weight_bytes + outputs * self.hidden * self.cache_bytes
        return weights + rows * positions * 2 * self.hidden * self.layers * self.cache_bytes

    def step_flops(self, rows: int, positions: float, outputs: int) -> float:
        """Operations of one decode step."""
        return 2.0 * rows * (self.parameters + outputs * self.hidden + 2 * positions * self.hidden * self.layers)

    def window_flops(self, positions: int, *, causal: bool) -> float:
        """Operations of one whole window."""
        attention = (2 if causal else 4) * positions**2 * self.hidden * self.layers
        return 2.0 * positions * self.parameters + attention


@dataclass(frozen=True)
class ChunkTokens:
    """Length of a spoken chunk."""

    semantic: int
    frames: int


def stage_floors(
    machine: Machine,
    network: Network,
    layout: Layout,
    codec: Any,
    chunks: Iterable[ChunkTokens],
    rows: int,
    voice: VoicePrompt | None,
) -> dict[str, float]:
    """Least seconds of each stage for these chunks, `rows` at a time, with a prefill for each coarse window."""
    found = dict.fromkeys(STAGES, 0.0)
    given = layout.coarse.codebooks
    prompted = len(coarse.history(voice, layout.coarse)[1])
    before = 0 if voice is None else min(layout.fine.hop, voice.fine_prompt.shape[1])
    outputs = layout.semantic.vocabulary + 1

    def step(positions: float, heads: int) -> float:
        """A row's share of a step."""
        read = network.step_bytes(rows, positions, heads) / machine.bytes_per_second
        return max(read, network.step_flops(rows, positions, heads) / machine.flops) / rows

    def window(positions: int, *, causal: bool) -> float:
        read = network.parameters * network.weight_bytes / machine.bytes_per_second / rows
        return max(read, network.window_flops(positions, causal=causal) / machine.flops)

    for chunk in chunks:
        start = layout.semantic.window
        found["semantic"] += window(start, causal=True)
        found["semantic"] += chunk.semantic * step(start + chunk.semantic / 2, outputs)
        for first in range(0, chunk.frames * given, layout.coarse.slide):
            tokens = min(layout.coarse.slide, chunk.frames * given - first)
            positions = layout.coarse.window + 1 + min(layout.coarse.history, prompted + first)
            found["coarse prefill"] += window(positions - 1, causal=True)
            found["coarse decode"] += tokens * step(positions + tokens / 2, layout.coarse.codebook)
        total = max(layout.fine.window, before + chunk.frames)
        passes = len(fine.windows(layout.fine, before, chunk.frames, total)) * (layout.fine.codebooks - given)
        found["fine"] += passes * window(layout.fine.window, causal=False)
        found["codec"] += chunk.frames * codec_flops(codec) / machine.full_flops
    return found


def codec_flops(codec: Any, frames: int = 75) -> float:
    """Operations of EnCodec's decoder for one frame: of its convolutions and its LSTM."""
    found = 0.0

    def count(module: Any, given: tuple[Any, ...], made: Any) -> None:
        nonlocal found
        if isinstance(module, torch.nn.ConvTranspose1d):
            found += 2.0 * given[0].numel() * module.out_channels * module.kernel_size[0]
        elif isinstance(module, torch.nn.Conv1d):
            found += 2.0 * made.numel() * module.in_channels * module.kernel_size[0]
        elif isinstance(module, torch.nn.LSTM):
            found += 16.0 * given[0].numel() * module.hidden_size * module.num_layers

    handles = [module.register_forward_hook(count) for module in codec.decoder.modules()]
    device = codec.quantizer.layers[0].codebook.embed.device
    codec.decoder(torch.zeros(1, codec.config.hidden_size, frames, device=device))
    for handle in handles:
        handle.remove()
    return found / frames


def coarse_positions(layout: Layout, voice: VoicePrompt) -> int:
    """Positions of a coarse window whose history is full, or as long as the voice's."""
    prompted = len(coarse.history(voice, layout.coarse)[1])
    return layout.coarse.window + 1 + min(layout.coarse.history, math.floor(prompted))
