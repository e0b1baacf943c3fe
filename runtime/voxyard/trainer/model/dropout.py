"""Random numbers that follow from each clip's own seed: no generator state, no dependence on batch mates or replicas.

A clip's augmentation and dropout are the same whichever batch, micro-batch or replica it is in, and a resumed run draws
what the undisturbed one would have drawn, because the input derives `clip_seed` from (seed, step).
"""

from __future__ import annotations

import zlib
from typing import NamedTuple, Self

import numpy as np
import tensorflow as tf

_FIRST, _SECOND = 0x3F58476D1CE4E5B9, 0x14D049BB133111EB  # splitmix64's multipliers, the first below 2**63
_STEP = 0x1E3779B97F4A7C15
_UNIT = 2.0**-31


def clip_keys(clip_seed: tf.Tensor) -> tf.Tensor:
    """One 64-bit key a clip, int64 (B,), from `clip_seed` int32 (B, 2)."""
    seed = tf.cast(clip_seed, tf.int64)
    return _mixed(_mixed(seed[:, 0]) + seed[:, 1])


def clip_uniform(keys: tf.Tensor, name: str) -> tf.Tensor:
    """One number in [0, 1) a clip and name, float32 (B,)."""
    return tf.cast(_positive(_mixed(keys + _salt(name))), tf.float32) * _UNIT


class Drops(NamedTuple):
    """The dropout of a batch of sequences."""

    keys: tf.Tensor  # (B,) int64, of the clips
    rows: tf.Tensor  # (B, positions, 1) int64, random and odd

    @classmethod
    def of(cls, keys: tf.Tensor, positions: int) -> Self:
        """For sequences of `positions` in clips with these keys (B,)."""
        places = _STEP * tf.range(1, positions + 1, dtype=tf.int64)
        return cls(keys, _odd(_mixed(keys[:, None] + places))[:, :, None])

    def drop(self, x: tf.Tensor, rate: float, name: str) -> tf.Tensor:
        """Drops elements of x (B, positions, width) with probability `rate` and scales the rest; layers differ by name.

        Element (p, w) of a clip is kept or dropped by the top bits of a product of two random numbers, one of the
        position and one of the channel: multiply-shift hashing (Dietzfelbinger et al. 1997), one multiplication each.
        """
        channels = np.arange(1, x.shape[2] + 1) * -_STEP + _salt(name)  # wraps around, as int64 does
        columns = _odd(_mixed(self.keys[:, None] + channels))[:, None, :]  # (batch, 1, width)
        kept = self.rows * columns >= int((rate - 0.5) * 2**64)  # (batch, positions, width), modulo 2**64
        return tf.where(kept, x * tf.cast(1 / (1 - rate), x.dtype), tf.zeros_like(x))


def _mixed(z: tf.Tensor) -> tf.Tensor:
    """The finaliser of splitmix64 (Steele, Lea & Flood 2014) in wrapping signed arithmetic."""
    z = tf.bitwise.bitwise_xor(z, tf.bitwise.right_shift(z, tf.constant(30, tf.int64))) * _FIRST
    z = tf.bitwise.bitwise_xor(z, tf.bitwise.right_shift(z, tf.constant(27, tf.int64))) * _SECOND
    return tf.bitwise.bitwise_xor(z, tf.bitwise.right_shift(z, tf.constant(31, tf.int64)))


def _odd(z: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.bitwise_or(z, tf.constant(1, tf.int64))


def _positive(z: tf.Tensor) -> tf.Tensor:
    """The upper bits of z, in [0, 2**31)."""
    return tf.bitwise.bitwise_and(
        tf.bitwise.right_shift(z, tf.constant(32, tf.int64)), tf.constant(2**31 - 1, tf.int64)
    )


def _salt(name: str) -> int:
    return zlib.crc32(name.encode()) * 0x1E3779B1
