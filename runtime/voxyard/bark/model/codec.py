"""Codec stage, codes to audio: EnCodec's decoder, one whole chunk at a time.

Padding would change its LSTM's output. Its layers are causal, but a chunk in windows is not the same bytes: the order
of sums follows the length of the input (of the first 150 of 975 frames 59 samples differ, by 4e-8, on a CPU).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from voxyard.bark.model.progress import OnProgress, unwatched
from voxyard.bark.voices import Codes

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio


def decode(codec: Any, codes: Codes, report: OnProgress = unwatched) -> Audio:
    """Mono float32 audio of codes (codebooks, frames): 320 samples a frame at 24 kHz. Reports before each layer."""
    if not codes.shape[1]:
        return np.zeros(0, dtype=np.float32)
    device = codec.quantizer.layers[0].codebook.embed.device
    x = codec.quantizer.decode(torch.as_tensor(codes, device=device)[:, None])  # (1, hidden, frames)
    for layer in codec.decoder.layers:
        report()
        x = layer(x)
    audio: Audio = x[0, 0].float().cpu().numpy()
    return audio
