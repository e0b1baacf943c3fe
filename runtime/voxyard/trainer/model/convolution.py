"""Convolutions that a GPU computes as one matrix product each.

XLA leaves a convolution to cuDNN, and which of cuDNN's ways is good it finds out by trying them. Without trials the
first one is taken: on an H100 (2026-11-26, TensorFlow 2.21) it took 9 to 35 times as long as the product below, forward
and backward, and with them the update of `tiny` was not compiled after three minutes. Products need no trials.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import keras
import tensorflow as tf


class Conv1D(keras.layers.Conv1D):
    """Keras' layer over (batch, positions, channels), padded with `same`, without an activation."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Keras' hook: outputs (batch, positions, filters)."""
        return super().call(inputs) if not as_products(inputs) else _of_layer(self, inputs)


class Conv2D(keras.layers.Conv2D):
    """Keras' layer over (batch, rows, columns, channels), padded with `same`, without an activation."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Keras' hook: outputs (batch, rows, columns, filters)."""
        return super().call(inputs) if not as_products(inputs) else _of_layer(self, inputs)


def as_products(inputs: tf.Tensor) -> bool:
    """True for inputs of a fixed shape on GPUs; a CPU's convolutions are up to three times as fast as products."""
    return None not in inputs.shape[1:] and bool(tf.config.list_logical_devices("GPU"))


def product_of_patches(inputs: tf.Tensor, kernel: tf.Tensor, strides: Sequence[int]) -> tf.Tensor:
    """The convolution of inputs (B, …, C) with a kernel (…, C, filters), padded with zeros as TensorFlow's SAME.

    Each output is a product of the inputs that the kernel covers, side by side, with the whole kernel.
    """
    sizes, widths = inputs.shape[1:-1], kernel.shape[:-2]
    counts = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
    padding = [[0, 0], *map(_padding, sizes, widths, strides, counts), [0, 0]]
    padded = tf.pad(inputs, padding)
    patches = [
        padded[
            (
                slice(None),
                *(
                    slice(first, first + (count - 1) * stride + 1, stride)
                    for first, count, stride in zip(place, counts, strides, strict=True)
                ),
            )
        ]
        for place in itertools.product(*map(range, widths))
    ]
    columns = tf.reshape(tf.concat(patches, -1), [-1, len(patches) * inputs.shape[-1]])
    made = tf.matmul(columns, tf.reshape(kernel, [-1, kernel.shape[-1]]))
    return tf.reshape(made, [-1, *counts, kernel.shape[-1]])


def _of_layer(layer: Conv1D | Conv2D, inputs: tf.Tensor) -> tf.Tensor:
    return product_of_patches(inputs, layer.kernel, layer.strides) + layer.bias


def _padding(size: int, width: int, stride: int, count: int) -> list[int]:
    """Zeros before and after an axis."""
    zeros = max((count - 1) * stride + width - size, 0)
    return [zeros // 2, zeros - zeros // 2]
