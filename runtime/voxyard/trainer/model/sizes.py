"""The sizes of our model: parameters and memory of each row of the table, counted without building the model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

from voxyard.corpus.text import SYMBOLS

_KEPT, _WORKSPACE = 0.35, 0.6  # shares of a block's numbers: kept for the backward pass, needed while it runs


@dataclass(frozen=True)
class Shape:
    """One size of the model."""

    width: int
    heads: int
    encoder_blocks: int
    encoder_hidden: int
    decoder_blocks: int
    decoder_hidden: int
    predictor_width: int
    aligner_width: int
    postnet_width: int

    def parameters(self, *, symbols: int, speakers: int, mels: int) -> int:
        """Number of weights, counted from the shapes of the layers."""
        width = self.width
        embeddings = (symbols + 1 + (speakers if speakers > 1 else 0)) * width
        blocks = self.encoder_blocks * _block(width, self.encoder_hidden)
        blocks += self.decoder_blocks * _block(width, self.decoder_hidden) + 2 * _norm(width)
        aligner = _layer(5 * width, self.aligner_width) + _layer(self.aligner_width, mels)
        one_predictor = _layer(3 * width, self.predictor_width) + _layer(3 * self.predictor_width, self.predictor_width)
        one_predictor += 2 * _norm(self.predictor_width) + _layer(self.predictor_width, 1)
        joints = _layer(2, width) + _layer(4, width) + _layer(width, mels)
        postnet = _layer(5 * mels, self.postnet_width) + _layer(5 * self.postnet_width, self.postnet_width)
        postnet += _layer(5 * self.postnet_width, mels)
        return embeddings + blocks + aligner + 3 * one_predictor + joints + postnet

    def activations(self, *, clips: int, frames: int, tokens: int, mels: int, recompute: bool) -> int:
        """Numbers held at the peak between the forward and the backward pass.

        An estimate with two fitted shares: within about a third of what resident memory showed on a CPU for `tiny` and
        `small`; what a GPU's libraries need comes on top.
        """
        encoder = _block_values(self.width, self.encoder_hidden, self.heads, tokens)
        decoder = _block_values(self.width, self.decoder_hidden, self.heads, frames)
        others = tokens * 48 * self.predictor_width + frames * (10 * self.postnet_width + 12 * mels + 8 * tokens)
        if recompute:
            inputs = self.width * (self.encoder_blocks * tokens + self.decoder_blocks * frames)
            return clips * math.ceil(inputs + (_KEPT + _WORKSPACE) * max(encoder, decoder) + others)
        blocks = self.encoder_blocks * encoder + self.decoder_blocks * decoder
        return clips * math.ceil(_KEPT * blocks + _WORKSPACE * max(encoder, decoder) + others)


# A clip has three or four times as many frames as tokens: most weights are on the text's side, where they are cheap.
SIZES = MappingProxyType(
    {
        "tiny": Shape(256, 4, 3, 1024, 2, 256, 192, 64, 128),
        "small": Shape(384, 6, 6, 1536, 4, 1024, 256, 96, 256),
        "normal": Shape(640, 10, 8, 2560, 6, 1280, 384, 128, 384),
        "big": Shape(1024, 16, 10, 4096, 7, 2048, 512, 160, 512),
    }
)


def describe() -> str:
    """The table of sizes: parameters, and memory in float32 for weights, training state and activations."""
    rows = [
        "size     width  blocks  parameters  weights  + gradients, Adam  activations  with --recompute",
        "                                    float32                    of 8 clips of 400 frames, estimated",
    ]
    for name, shape in SIZES.items():
        count = shape.parameters(symbols=len(SYMBOLS), speakers=1, mels=80)
        kept = [
            4 * shape.activations(clips=8, frames=400, tokens=100, mels=80, recompute=recompute)
            for recompute in (False, True)
        ]
        rows.append(
            f"{name:7}  {shape.width:5}  {shape.encoder_blocks:3}+{shape.decoder_blocks:<2}  {count / 1e6:8.1f} M  "
            f"{_mib(4 * count):>7}  {_mib(16 * count):>17}  {_mib(kept[0]):>11}  {_mib(kept[1]):>16}"
        )
    return "\n".join(rows)


def _layer(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


def _norm(width: int) -> int:
    return 2 * width


def _block(width: int, hidden: int) -> int:
    attention = _layer(width, 3 * width) + _layer(width, width)
    return 2 * _norm(width) + attention + _layer(3 * width, hidden) + _layer(hidden, width)


def _block_values(width: int, hidden: int, heads: int, positions: int) -> int:
    """Every number that a block computes for a clip of so many positions."""
    return positions * (22 * width + 3 * hidden + 3 * heads * positions)


def _mib(size: int) -> str:
    return f"{math.ceil(size / 2**20):,} MiB"
