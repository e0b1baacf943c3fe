"""Discriminators of the vocoder: judges of samples at several periods and of spectra at several resolutions.

Periods: J. Kong, J. Kim & J. Bae (2020), "HiFi-GAN". Resolutions: W. Jang et al. (2021), "UnivNet".
"""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import layers

from voxyard.trainer.model.convolution import Conv2D
from voxyard.trainer.model.sizes import VocoderShape

PERIODS = (2, 3, 5, 7, 11)  # samples
RESOLUTIONS = ((1024, 256), (2048, 512), (512, 128))  # window and hop, in samples
SLOPE = 0.1  # of what is below zero

Judgement = tuple[list[tf.Tensor], list[list[tf.Tensor]]]


class Discriminators(keras.Model):
    """All judges, each with an opinion (B, places) and the values of its layers."""

    def __init__(self, shape: VocoderShape, policy: keras.DTypePolicy) -> None:
        super().__init__(name="discriminators")
        self._judges = [OfPeriod(period, shape.period_channels, policy) for period in PERIODS]
        self._judges += [OfResolution(*one, shape.spectrum_channels, policy) for one in RESOLUTIONS]

    def call(self, samples: tf.Tensor) -> Judgement:
        """Opinions (B, places) of samples (B, S): 1 for recorded; and what each layer of each judge saw."""
        judged = [judge(samples) for judge in self._judges]
        return [opinion for opinion, _ in judged], [seen for _, seen in judged]


class OfPeriod(layers.Layer):
    """A judge of every p-th sample, for all p offsets at once."""

    def __init__(self, period: int, channels: tuple[int, ...], policy: keras.DTypePolicy) -> None:
        super().__init__(name=f"period_{period}", dtype=policy)
        self._period = period
        self._convolutions = [
            Conv2D(count, (5, 1), (3, 1), "same", dtype=policy, name=f"layer_{place}")
            for place, count in enumerate(channels)
        ]
        self._last = Conv2D(channels[-1], (5, 1), padding="same", dtype=policy, name="last")
        self._opinion = Conv2D(1, (3, 1), padding="same", dtype="float32", name="opinion")

    def call(self, samples: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """See Discriminators."""
        whole = -(-samples.shape[1] // self._period) * self._period
        padded = tf.pad(samples, [[0, 0], [0, whole - samples.shape[1]]], "REFLECT")
        return _judged(tf.reshape(padded, [-1, whole // self._period, self._period, 1]), self)


class OfResolution(layers.Layer):
    """A judge of the magnitudes of a spectrogram."""

    def __init__(self, fft: int, hop: int, channels: int, policy: keras.DTypePolicy) -> None:
        # The samples stay as they are: an FFT has no half precision.
        super().__init__(name=f"resolution_{fft}", dtype=policy, autocast=False)
        self._fft, self._hop = fft, hop
        self._convolutions = [
            Conv2D(channels, (3, 9), (1, 2 if place else 1), "same", dtype=policy, name=f"layer_{place}")
            for place in range(4)
        ]
        self._last = Conv2D(channels, (3, 3), padding="same", dtype=policy, name="last")
        self._opinion = Conv2D(1, (3, 3), padding="same", dtype="float32", name="opinion")

    def call(self, samples: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """See Discriminators."""
        return _judged(magnitudes(samples, self._fft, self._hop)[..., None], self)


def magnitudes(samples: tf.Tensor, fft: int, hop: int) -> tf.Tensor:
    """Magnitudes (B, S / hop, fft / 2 + 1) of samples (B, S), reflected at the edges, by a Hann window."""
    left = (fft - hop) // 2
    padded = tf.pad(samples, [[0, 0], [left, fft - hop - left]], "REFLECT")
    spectrum = tf.signal.stft(padded, fft, hop)
    # A magnitude of zero has no gradient: one of 1e-7 instead, 140 dB below full scale.
    return tf.sqrt(tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum)) + 1e-14)


def _judged(x: tf.Tensor, judge: OfPeriod | OfResolution) -> tuple[tf.Tensor, list[tf.Tensor]]:
    seen = []
    for layer in (*judge._convolutions, judge._last):  # noqa: SLF001 (both judges are of this file)
        x = layer(x)
        x = tf.maximum(x, SLOPE * x)
        seen.append(x)
    opinion = judge._opinion(x)  # noqa: SLF001
    return tf.reshape(opinion, [tf.shape(opinion)[0], -1]), seen
