"""Checkpoints of a benchmark: the user's published weights, or random ones in which every chunk ends at one length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from voxyard.bark.weights import tiny
from voxyard.bark.weights.checkpoint import check, is_random

SHAPES = {
    "tiny": tiny.TinyShape(end_after=0, spare_coarse_outputs=0),
    "small": tiny.TinyShape(
        layers=12, hidden=768, heads=12, end_after=0, spare_coarse_outputs=0, codec_filters=32, codec_hidden=128
    ),
    "large": tiny.TinyShape(
        layers=24, hidden=1024, heads=16, end_after=0, spare_coarse_outputs=0, codec_filters=32, codec_hidden=128
    ),
}  # the coarse head holds codes alone: of the others transformers samples some
_PROMPT = 256  # position of the token after which the first one is sampled
_STRENGTH = 16.0  # norm of the direction; that of a token's embedding is about 0.5


@dataclass(frozen=True)
class BenchCheckpoint:
    """A model directory, and the semantic tokens of each of its chunks where they are known beforehand."""

    directory: Path
    tokens: int | None  # None: published weights, which end by themselves

    @property
    def weights(self) -> str:
        """Kind of the weights, for the report."""
        return "published" if self.tokens is None else "random"


def published(directory: Path) -> BenchCheckpoint | None:
    """The checkpoint in a directory, None where there is none or its weights are marked as random."""
    if check(directory) or is_random(directory):
        return None
    return BenchCheckpoint(directory, None)


def random_checkpoint(directory: Path, size: str, tokens: int) -> BenchCheckpoint:
    """Write random weights of a size; every chunk ends after `tokens` semantic tokens, whoever samples them."""
    from safetensors.torch import load_file, save_file

    shape = SHAPES[size]
    tiny.write(directory, shape)
    state = load_file(directory / "model.safetensors")
    _end_after(state, shape, tokens)
    save_file(state, directory / "model.safetensors", metadata={"format": "pt"})
    return BenchCheckpoint(directory, tokens)


def _end_after(state: dict[str, Any], shape: tiny.TinyShape, tokens: int) -> None:
    """Give one direction of the hidden space to the end: it is impossible before the position, then certain."""
    direction = torch.ones(shape.hidden) / math.sqrt(shape.hidden)
    direction[::2] *= -1  # a constant direction would be lost in the layer norm
    sign = torch.where(torch.arange(shape.block) < _PROMPT + tokens, -1.0, 1.0)
    state["semantic.position_embeds_layer.weight"] += _STRENGTH * sign[:, None] * direction
    state["semantic.lm_head.weight"][shape.semantic_vocabulary] = direction * 4
