"""The sizes of our model: parameters and memory of each row of the table, counted without building the model."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from types import MappingProxyType

from voxyard.corpus.text import SYMBOLS

PERIODS, RESOLUTIONS = 5, 3  # discriminators of the vocoder
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


@dataclass(frozen=True)
class VocoderShape:
    """One size of the vocoder, and of the discriminators that train it."""

    width: int
    blocks: int
    hidden: int
    period_channels: tuple[int, ...]  # of the layers of a period's discriminator
    spectrum_channels: int  # of those of a resolution's

    def parameters(self, *, fft: int, mels: int) -> int:
        """Number of the vocoder's weights, counted from the shapes of its layers."""
        width = self.width
        block = 8 * width + _norm(width) + _layer(width, self.hidden) + _layer(self.hidden, width) + width
        return _layer(7 * mels, width) + 2 * _norm(width) + self.blocks * block + _layer(width, fft + 2)

    def discriminator_parameters(self) -> int:
        """Number of weights of the discriminators, which only training needs."""
        counts = (1, *self.period_channels, self.period_channels[-1])
        period = sum(_layer(5 * one, other) for one, other in itertools.pairwise(counts)) + _layer(3 * counts[-1], 1)
        count = self.spectrum_channels
        resolution = _layer(27, count) + 3 * _layer(27 * count, count) + _layer(9 * count, count) + _layer(9 * count, 1)
        return PERIODS * period + RESOLUTIONS * resolution


VOCODER_SIZES = MappingProxyType(
    {
        "tiny": VocoderShape(128, 4, 384, (8, 16, 32), 8),
        "small": VocoderShape(256, 6, 768, (16, 64, 128), 16),
        "normal": VocoderShape(512, 8, 1536, (32, 128, 512, 1024), 32),  # the paper's
        "big": VocoderShape(768, 10, 2304, (32, 128, 512, 1024), 32),
    }
)
"""Rows of the table of vocoders, --vocoder-size."""


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
    rows += [
        "",
        "--networks acoustic,vocoder besides, on the data device of a split (weights, gradients and Adam, float32):",
        "size     vocoder  discriminators   memory",
    ]
    for name, vocoder in VOCODER_SIZES.items():
        made, judges = vocoder.parameters(fft=1024, mels=80), vocoder.discriminator_parameters()
        rows.append(f"{name:7} {made / 1e6:6.1f} M  {judges / 1e6:12.1f} M  {_mib(16 * (made + judges)):>9}")
    rows += ["", "--ema adds 4 bytes for each parameter: a quarter of weights, gradients and Adam."]
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
