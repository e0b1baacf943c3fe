"""The mel scale and the frames it is taken over: shared by analysis (TensorFlow) and synthesis (NumPy)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from voxyard.trainer.config import ModelConfig

FLOOR = 1e-5  # of magnitudes before the logarithm
EDGES: Final = "reflect"  # beyond its edges a clip is continued by its own samples, as for published HiFi-GAN and Vocos

_LINEAR_HZ = 200.0 / 3  # width of a mel below 1 kHz
_BREAK_HZ, _BREAK_MEL = 1000.0, 15.0
_LOG_STEP = np.log(6.4) / 27  # a mel above 1 kHz is this much in log frequency


def hann(size: int) -> NDArray[np.float64]:
    """The periodic Hann window (size,)."""
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)


def edge_padding(fft_size: int, hop_length: int) -> tuple[int, int]:
    """Samples by which a clip is continued before and after, so that it has exactly one frame a hop."""
    left = (fft_size - hop_length) // 2
    return left, fft_size - hop_length - left


def mel_basis(config: ModelConfig) -> NDArray[np.float64]:
    """Triangular filters (mels, fft_size / 2 + 1), each of area 2 / its width in Hz (Slaney's normalisation).

    M. Slaney, Auditory Toolbox (1998): linear below 1 kHz, logarithmic above.
    """
    edges = _to_mel(np.array([config.mel_low_hz, config.mel_high_hz]))
    points = _to_hz(np.linspace(edges[0], edges[1], config.mels + 2))  # (mels + 2,)
    bins = np.linspace(0, config.sample_rate / 2, config.fft_size // 2 + 1)
    slopes = points[:, None] - bins[None]  # (mels + 2, bins)
    widths = np.diff(points)[:, None]
    rising, falling = -slopes[:-2] / widths[:-1], slopes[2:] / widths[1:]
    return np.maximum(0, np.minimum(rising, falling)) * (2 / (points[2:] - points[:-2]))[:, None]


def _to_mel(hz: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _BREAK_MEL + np.log(np.maximum(hz, _BREAK_HZ) / _BREAK_HZ) / _LOG_STEP
    return np.where(hz < _BREAK_HZ, hz / _LINEAR_HZ, above)


def _to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _BREAK_HZ * np.exp(_LOG_STEP * (np.maximum(mel, _BREAK_MEL) - _BREAK_MEL))
    return np.where(mel < _BREAK_MEL, mel * _LINEAR_HZ, above)
