"""The sizes of our model: what each row of the table sets, and what it costs, counted without building it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

SYMBOLS = 128  # of the table's counts; a corpus' own number of symbols differs by little


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


# A clip has three or four times as many frames as tokens: most weights are on the side of the text, where they are cheap.
SIZES = MappingProxyType(
    {
        "tiny": Shape(256, 4, 3, 1024, 2, 256, 192, 64, 128),
        "small": Shape(384, 6, 6, 1536, 4, 1024, 256, 80, 256),
        "normal": Shape(640, 10, 8, 2560, 6, 1280, 384, 128, 384),
        "big": Shape(1024, 16, 12, 4096, 8, 2048, 512, 160, 512),
    }
)
