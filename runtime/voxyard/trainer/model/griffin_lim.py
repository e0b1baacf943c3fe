"""Synthesis: a log-mel back to sound that one can listen to (Griffin-Lim), as WAV or as a picture. NumPy only."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxyard.trainer.config import ModelConfig
from voxyard.trainer.model.mel import EDGES, edge_padding, hann, mel_basis

ITERATIONS, MOMENTUM = 48, 0.99
INVERSION_ITERATIONS = 64
PEAK = 0.95  # louder samples are scaled down to this

_COLOURS = np.array(  # from silent to loud: dark blue, purple, red, orange, pale yellow
    [[3, 5, 26], [58, 20, 110], [150, 38, 108], [222, 73, 72], [251, 150, 41], [252, 247, 190]], np.float64
)


def waveform(mel: NDArray[np.floating[Any]], config: ModelConfig, *, pre_emphasis: float = 0.0) -> NDArray[np.float32]:
    """Samples (frames · hop,) between −1 and 1 of a natural log-mel (frames, mels); deterministic.

    `pre_emphasis` is what the mel was made with; it is undone.
    """
    magnitude = linear_magnitude(mel, config)  # (frames, bins)
    if pre_emphasis > 0:
        angle = np.linspace(0, np.pi, magnitude.shape[1])
        magnitude /= np.abs(1 - pre_emphasis * np.exp(-1j * angle))
    samples = griffin_lim(magnitude, config)
    peak = float(np.abs(samples).max(initial=0.0))
    return np.asarray(samples * min(1.0, PEAK / max(peak, 1e-9)), np.float32)


def linear_magnitude(mel: NDArray[np.floating[Any]], config: ModelConfig) -> NDArray[np.float64]:
    """Magnitudes (frames, fft_size / 2 + 1) ≥ 0 whose mel is nearest to a log-mel (frames, mels) in the mean square.

    Non-negative least squares by the multiplicative updates of Lee & Seung (2001), from the clipped pseudo-inverse.
    """
    target = np.exp(np.asarray(mel, np.float64))  # (frames, mels)
    basis = mel_basis(config)  # (mels, bins)
    scale = 1 / basis.max()
    basis, target = basis * scale, target * scale
    magnitude = np.maximum(target @ np.linalg.pinv(basis).T, 1e-7)
    correlation = target @ basis
    for _ in range(INVERSION_ITERATIONS):
        magnitude *= correlation / np.maximum(magnitude @ basis.T @ basis, 1e-12)
    return magnitude


def griffin_lim(magnitude: NDArray[np.float64], config: ModelConfig) -> NDArray[np.float64]:
    """Samples (frames · hop,) whose spectrogram is near `magnitude` (frames, bins).

    The fast variant with momentum: Perraudin, Balazs & Søndergaard (2013), "A fast Griffin-Lim algorithm".
    """
    phase = np.random.default_rng(0).uniform(0, 2 * np.pi, magnitude.shape)
    spectrum = magnitude * np.exp(1j * phase)
    before = np.zeros_like(spectrum)
    for _ in range(ITERATIONS):
        consistent = analysis(_synthesis(spectrum, config), config)
        pushed = consistent + MOMENTUM * (consistent - before)
        before = consistent
        spectrum = magnitude * pushed / np.maximum(np.abs(pushed), 1e-12)
    return _synthesis(spectrum, config)


def analysis(samples: NDArray[np.float64], config: ModelConfig) -> NDArray[np.complex128]:
    """Spectrum (frames, bins) of samples (n,), edges reflected as the trainer's features have them."""
    padded = np.pad(samples, edge_padding(config.fft_size, config.hop_length), EDGES)
    frames = np.lib.stride_tricks.sliding_window_view(padded, config.fft_size)[:: config.hop_length]
    return np.asarray(np.fft.rfft(frames * hann(config.fft_size)), np.complex128)


def _synthesis(spectrum: NDArray[np.complex128], config: ModelConfig) -> NDArray[np.float64]:
    """Overlap-add: the samples whose spectrogram is nearest in the mean square, with what their reflection says."""
    hop, size, window = config.hop_length, config.fft_size, hann(config.fft_size)
    frames = np.fft.irfft(spectrum, size) * window  # (frames, fft)
    source = np.pad(np.arange(len(frames) * hop), edge_padding(size, hop), EDGES)  # (padded,)
    samples = np.zeros(len(source))
    weight = np.zeros_like(samples)
    squared = window**2
    for i, frame in enumerate(frames):
        samples[i * hop : i * hop + size] += frame
        weight[i * hop : i * hop + size] += squared
    return np.asarray(np.bincount(source, samples) / np.maximum(np.bincount(source, weight), 1e-3))


def wav_of(samples: NDArray[np.floating[Any]], sample_rate: int) -> bytes:
    """Samples (n,) between −1 and 1 as a 16-bit mono WAV file."""
    import soundfile

    content = io.BytesIO()  # soundfile itself does not say why a disk takes no more
    pcm = np.round(np.clip(samples, -1, 1) * 32767).astype(np.int16)
    soundfile.write(content, pcm, sample_rate, subtype="PCM_16", format="WAV")
    return content.getvalue()


def spectrogram_image(mel: NDArray[np.floating[Any]], low: float = -11.5, high: float = 1.0) -> NDArray[np.uint8]:
    """A picture (2 · mels, 2 · frames, 3) of a log-mel (frames, mels): low bands below, `low` dark, `high` pale."""
    level = np.clip((np.asarray(mel, np.float64).T[::-1] - low) / (high - low), 0, 1) * (len(_COLOURS) - 1)
    stops = np.arange(len(_COLOURS))
    picture = np.stack([np.interp(level, stops, _COLOURS[:, channel]) for channel in range(3)], -1)
    return np.round(picture).astype(np.uint8).repeat(2, 0).repeat(2, 1)
