"""Vocoder: a network from log-mels to samples, through the phases and magnitudes of a short-time Fourier transform.

H. Siuzdak (2023), "Vocos: Closing the gap between time-domain and Fourier-based neural vocoders for high-quality audio
synthesis" (ICLR 2024): ConvNeXt blocks at the rate of the frames, and one inverse transform at the end.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from voxyard.trainer.config import ModelConfig
from voxyard.trainer.model.convolution import Conv1D
from voxyard.trainer.model.mel import edge_padding, hann
from voxyard.trainer.model.sizes import VocoderShape

LOUDEST = 1e2  # of a magnitude, as in the paper's code: exp() of an untrained head would overflow
NEIGHBOURS = 7  # frames of a depthwise convolution
_FAINT = 1e-11  # of the windows' sum, where no frame lies


class Vocoder(keras.Model):
    """Log-mels (B, T, mels) to samples (B, T · hop)."""

    def __init__(
        self, shape: VocoderShape, model: ModelConfig, policy: keras.DTypePolicy, *, xla: bool = False
    ) -> None:
        """`xla`: it is compiled by XLA. The weights and what they compute are the same."""
        super().__init__(name="vocoder")
        self._fft, self._hop = model.fft_size, model.hop_length
        self._left, _ = edge_padding(self._fft, self._hop)
        self._window = hann(self._fft).astype(np.float32)
        self._embed = Conv1D(shape.width, 7, padding="same", dtype=policy, name="embed")
        self._embed_norm = layers.LayerNormalization(epsilon=1e-6, dtype=policy, name="embed_norm")
        self._blocks = [
            ConvNeXt(shape.width, shape.hidden, 1 / shape.blocks, policy, f"block_{place}", xla=xla)
            for place in range(shape.blocks)
        ]
        self._norm = layers.LayerNormalization(epsilon=1e-6, dtype=policy, name="norm")
        self._head = layers.Dense(self._fft + 2, dtype="float32", name="head")

    def call(self, mel: tf.Tensor) -> tf.Tensor:
        """Samples (B, T · hop) float32, not bounded to −1…1."""
        x = self._embed_norm(self._embed(mel))
        for block in self._blocks:
            x = block(x)
        log_magnitude, phase = tf.split(self._head(self._norm(x)), 2, -1)  # (batch, frames, bins)
        magnitude = tf.minimum(tf.exp(tf.minimum(log_magnitude, 10.0)), LOUDEST)
        return self._samples(tf.complex(magnitude * tf.cos(phase), magnitude * tf.sin(phase)))

    def _samples(self, spectrum: tf.Tensor) -> tf.Tensor:
        """Samples (B, T · hop) of spectra (B, T, bins): windowed, overlapped, divided by the sum of squared windows."""
        frames = tf.signal.irfft(spectrum) * self._window
        ones = tf.ones_like(frames[:1, :, :1]) * self._window**2  # (1, frames, fft)
        summed, weight = (tf.signal.overlap_and_add(each, self._hop) for each in (frames, ones))
        length = tf.shape(spectrum)[1] * self._hop
        whole = summed / tf.maximum(weight, _FAINT)
        samples = whole[:, self._left : self._left + length]
        if spectrum.shape[1] is not None:
            samples = tf.ensure_shape(samples, (spectrum.shape[0], spectrum.shape[1] * self._hop))
        return samples


class ConvNeXt(layers.Layer):
    """A block of Z. Liu et al. (2022), "A ConvNet for the 2020s", over frames."""

    def __init__(
        self, width: int, hidden: int, scale: float, policy: keras.DTypePolicy, name: str, *, xla: bool = False
    ) -> None:
        super().__init__(name=name, dtype=policy)
        self._scale = scale
        # By XLA on a CPU in 0.3 to 0.4 of a convolution's time, bfloat16 in 0.1 to 0.2; without XLA in 1.5 to 4.7.
        along = ShiftedConvolution if xla else layers.DepthwiseConv1D
        self._along = along(NEIGHBOURS, padding="same", dtype=policy, name="along")
        self._norm = layers.LayerNormalization(epsilon=1e-6, dtype=policy, name="norm")
        self._wide = layers.Dense(hidden, "gelu", dtype=policy, name="wide")
        self._narrow = layers.Dense(width, dtype=policy, name="narrow")

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Keras' hook."""
        for layer in (self._along, self._norm, self._wide):
            layer.build(input_shape)
        self._narrow.build((*input_shape[:-1], self._wide.units))
        self.gamma = self.add_weight(
            (input_shape[-1],), initializer=keras.initializers.Constant(self._scale), name="gamma"
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Frames (B, T, width) to the same."""
        return x + ops.cast(self.gamma, x.dtype) * self._narrow(self._wide(self._norm(self._along(x))))


class ShiftedConvolution(layers.DepthwiseConv1D):
    """A depthwise convolution as multiply-adds of shifted frames, which XLA fuses into one loop.

    XLA leaves a convolution of one channel a group to cuDNN, which has no fast one of such kernels in bfloat16.
    """

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Frames (B, T, width) to the same; summed in float32, as convolutions are."""
        length, edge = tf.shape(x)[1] if x.shape[1] is None else x.shape[1], NEIGHBOURS // 2
        frames = tf.pad(tf.cast(x, tf.float32), [[0, 0], [edge, edge], [0, 0]])
        kernel = tf.cast(self.kernel, tf.float32)[:, :, 0]  # (neighbours, width)
        shifted = [frames[:, place : place + length] * kernel[place] for place in range(NEIGHBOURS)]
        return tf.cast(tf.add_n(shifted) + tf.cast(self.bias, tf.float32), x.dtype)
