"""Features: 16-bit PCM to log-mel, pitch and energy, in graph code that any device can run. The trainer's only mel."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.trainer.config import DataConfig, ModelConfig
from voxyard.trainer.model.dropout import clip_keys, clip_uniform
from voxyard.trainer.model.mel import FLOOR, edge_padding, hann, mel_basis
from voxyard.trainer.trainable import Batch

PITCH_LOW_HZ, PITCH_HIGH_HZ = 60.0, 500.0
VOICED = 0.45  # lowest normalised autocorrelation of a voiced frame (Boersma 1993)
SILENT = 0.03  # a frame softer than this share of the clip's loudest is unvoiced (same source)
OCTAVE_COST = 0.01  # for each octave towards lower pitches: the shortest period wins among equals (same source)
PASSED_ON = ("tokens", "token_length", "speaker", "clip_seed")


class FeatureExtractor:
    """The features of a batch of padded clips. A clip's features depend neither on padding nor on its batch mates."""

    def __init__(self, model: ModelConfig, data: DataConfig) -> None:
        self._fft, self._hop = model.fft_size, model.hop_length
        self._rate = model.sample_rate
        self._pre_emphasis, self._gain_db = data.pre_emphasis, data.gain_augment_db
        self._left, self._right = edge_padding(self._fft, self._hop)
        self._window = hann(self._fft).astype(np.float32)
        self._basis = mel_basis(model).T.astype(np.float32)  # (bins, mels)
        self._window_correlation = _autocorrelation(hann(self._fft)).astype(np.float32)  # (fft/2 + 1,)
        self._shortest = max(2, math.floor(self._rate / PITCH_HIGH_HZ))
        self._longest = min(math.ceil(self._rate / PITCH_LOW_HZ), self._fft // 2 - 1)

    def __call__(self, raw: Batch, segments: int = 0, length: int = 0) -> dict[str, tf.Tensor]:
        """The feature batch of a raw batch of B clips of S = T · hop samples (see Trainable).

        Returns `mel` (B, T, mels): log(max(basis · |STFT|, 1e-5)), log(1e-5) beyond `mel_length` (B,); the product may
        be TF32's on a GPU: all its terms are positive, so that rounding them to 11 bits changes the mel by 1e-3 ·
        `pitch` (B, T): log F0 in Hz, 0 where unvoiced or padded · `energy` (B, T): log of the windowed frame's RMS with
        the same floor, 0 where padded · the text, the speaker and the clip's seed as they came · for `segments` of
        `length` frames `segment_mel` (B, segments, length, mels) and their samples `segment` (B, segments, length ·
        hop), without pre-emphasis, evenly spread from a place that follows from the clip's seed; silence where a clip
        is shorter.
        """
        mel_length = raw["pcm_length"] // self._hop  # (batch,)
        samples = self._samples(raw)
        frames = self._frames(self._emphasised(samples), mel_length)  # (batch, frames, fft)
        valid = tf.range(frames.shape[1])[None] < mel_length[:, None]  # (batch, frames)
        spectrum = tf.signal.rfft(frames)  # (batch, frames, bins)
        power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
        mel = tf.math.log(tf.maximum(tf.matmul(tf.sqrt(power), self._basis), FLOOR))
        rms = tf.sqrt(tf.reduce_mean(tf.square(frames), -1))
        zero = tf.zeros_like(rms)
        mel = tf.where(valid[:, :, None], mel, math.log(FLOOR))
        return {
            **(self._segments(raw, samples, mel, segments, length) if segments else {}),
            "mel": mel,
            "mel_length": mel_length,
            "pitch": tf.where(valid, self._pitch(power, tf.where(valid, rms, zero)), zero),
            "energy": tf.where(valid, tf.math.log(tf.maximum(rms, FLOOR)), zero),
            **{name: raw[name] for name in PASSED_ON},
        }

    def _samples(self, raw: Batch) -> tf.Tensor:
        """Samples in −1…1 (B, S)."""
        pcm = tf.cast(raw["pcm"], tf.float32) / 32768.0
        if self._gain_db > 0:
            decibels = self._gain_db * (2 * clip_uniform(clip_keys(raw["clip_seed"]), "gain") - 1)
            pcm *= tf.pow(10.0, decibels / 20)[:, None]
        return pcm

    def _emphasised(self, samples: tf.Tensor) -> tf.Tensor:
        if self._pre_emphasis > 0:
            samples -= self._pre_emphasis * tf.pad(samples[:, :-1], [[0, 0], [1, 0]])
        return samples

    def _segments(
        self, raw: Batch, samples: tf.Tensor, mel: tf.Tensor, count: int, length: int
    ) -> dict[str, tf.Tensor]:
        """So many segments of each clip, and their samples; int64 as in `_frames`."""
        frames = tf.cast(raw["pcm_length"], tf.int64)[:, None, None] // self._hop  # (batch, 1, 1)
        room = tf.cast(tf.maximum(frames - length, 0) + 1, tf.float32)
        drawn = clip_uniform(clip_keys(raw["clip_seed"]), "segment")[:, None]
        spread = tf.math.floormod(drawn + np.arange(count, dtype=np.float32) / count, 1.0)  # (batch, count)
        first = tf.cast(spread[:, :, None] * room, tf.int64)  # (batch, count, 1)
        at = first + np.arange(length, dtype=np.int64)  # (batch, count, length)
        mel = tf.pad(mel, [[0, 0], [0, length], [0, 0]], constant_values=math.log(FLOOR))
        place = first * self._hop + np.arange(length * self._hop, dtype=np.int64)
        samples = tf.gather(tf.pad(samples, [[0, 0], [0, length * self._hop]]), place, batch_dims=1)
        return {
            "segment_mel": tf.gather(mel, at, batch_dims=1),
            "segment": tf.where(place < frames * self._hop, samples, 0.0),
        }

    def _frames(self, samples: tf.Tensor, mel_length: tf.Tensor) -> tf.Tensor:
        """Windowed frames (B, T, fft) around the T hops of samples (B, T · hop).

        Beyond its first sample and that of its last whole hop a clip is reflected, several times where it is shorter
        than the padding. Indices are int64: int32 arithmetic would take a GPU's batch through the host.
        """
        positions = np.arange(-self._left, samples.shape[1] + self._right, dtype=np.int64)[None]  # (1, padded)
        last = tf.maximum(tf.cast(mel_length, tf.int64) * self._hop - 1, 1)[:, None]  # (batch, 1)
        at = last - tf.abs(last - tf.math.floormod(positions, 2 * last))  # (batch, padded)
        return tf.signal.frame(tf.gather(samples, at, batch_dims=1), self._fft, self._hop) * self._window

    def _pitch(self, power: tf.Tensor, rms: tf.Tensor) -> tf.Tensor:
        """Log F0 (B, T), 0 where unvoiced, from power spectra (B, T, bins): the autocorrelation's best peak.

        P. Boersma (1993), "Accurate short-term analysis of the fundamental frequency": the frame's autocorrelation over
        the window's. It is circular here, which Hann's taper makes harmless up to half a window.
        """
        low, high = self._shortest, self._longest
        correlation = tf.signal.irfft(tf.cast(power, tf.complex64))[:, :, : high + 2]
        correlation /= tf.maximum(correlation[:, :, :1], 1e-10)
        correlation /= self._window_correlation[: high + 2]
        lags = np.arange(low, high + 1)
        cost = (OCTAVE_COST * np.log2(PITCH_LOW_HZ * lags / self._rate)).astype(np.float32)
        inner = correlation[:, :, low : high + 1]  # (batch, frames, lags)
        peaks = (inner >= correlation[:, :, low - 1 : high]) & (inner > correlation[:, :, low + 1 : high + 2])
        best = tf.argmax(tf.where(peaks, inner - cost, -1.0), -1, output_type=tf.int64)  # (batch, frames)
        around = tf.gather(correlation, best[:, :, None] + low + np.arange(-1, 2), batch_dims=2)  # (batch, frames, 3)
        left, middle, right = tf.unstack(around, axis=-1)
        bend = tf.minimum(left - 2 * middle + right, -1e-6)
        lag = tf.cast(best + low, tf.float32) + tf.clip_by_value(0.5 * (left - right) / bend, -0.5, 0.5)
        loud = rms > SILENT * tf.reduce_max(rms, 1, keepdims=True)
        return tf.where((middle > VOICED) & loud, math.log(self._rate) - tf.math.log(lag), tf.zeros_like(lag))


def _autocorrelation(window: NDArray[np.float64]) -> NDArray[np.float64]:
    """The window's circular autocorrelation over its energy, lags 0 to half its length."""
    correlation = np.fft.irfft(np.abs(np.fft.rfft(window)) ** 2)
    return np.asarray(correlation[: len(window) // 2 + 1] / correlation[0])
