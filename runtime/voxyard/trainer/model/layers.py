"""The layers of our model: attention and convolution blocks, and the predictors of duration, pitch and energy.

No layer lets a padded position reach a valid one: attention is masked, convolutions see zeros there, and what is
normalised is normalised position by position. Dropout draws from the clip's own key (voxyard.trainer.model.dropout).
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from numpy.typing import NDArray

from voxyard.trainer.model.convolution import Conv1D
from voxyard.trainer.model.dropout import Drops

DROPOUT = 0.1
Shaped = tuple[int | None, ...]


class Positions(NamedTuple):
    """Positions in the sequence that a layer is given besides its values."""

    valid: tf.Tensor  # (B, positions) bool, False where padded
    drops: Drops | None  # None: no dropout

    def masked(self, x: tf.Tensor) -> tf.Tensor:
        """X (B, positions, width) with zeros where padded."""
        return tf.where(self.valid[:, :, None], x, tf.zeros_like(x))

    def dropped(self, x: tf.Tensor, name: str) -> tf.Tensor:
        """X after the dropout of the layer `name`."""
        return x if self.drops is None else self.drops.drop(x, DROPOUT, name)


class Attention(keras.layers.Layer):
    """Multi-head self-attention over the valid positions."""

    def __init__(self, width: int, heads: int, *, dtype: keras.DTypePolicy, name: str) -> None:
        super().__init__(dtype=dtype, name=name)
        self.heads, self.head_width = heads, width // heads
        self.qkv = keras.layers.Dense(3 * width, dtype=dtype, name="qkv")
        self.out = keras.layers.Dense(width, dtype=dtype, name="out")

    def build(self, shape: Shaped) -> None:
        """For inputs (batch, positions, width)."""
        self.qkv.build(shape)
        self.out.build(shape)

    def call(self, x: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """X and the result are (batch, positions, width)."""
        positions, width = x.shape[1:]
        split = ops.reshape(self.qkv(x), (-1, positions, 3, self.heads, self.head_width))
        query, key, value = ops.unstack(ops.transpose(split, (2, 0, 3, 1, 4)))  # (batch, heads, positions, head)
        query = query * self.head_width**-0.5  # before the product, whose sums overflow in float16 otherwise
        logits = ops.matmul(query, ops.swapaxes(key, -1, -2))
        logits = ops.where(valid[:, None, None, :], ops.cast(logits, "float32"), -1e9)
        share = ops.cast(ops.softmax(logits), self.compute_dtype)  # (batch, heads, positions, positions)
        mixed = ops.transpose(ops.matmul(share, value), (0, 2, 1, 3))
        return self.out(ops.reshape(mixed, (-1, positions, width)))


class Block(keras.layers.Layer):
    """A transformer block whose feed-forward part is a convolution of three positions; normalised before each part."""

    def __init__(self, width: int, heads: int, hidden: int, *, dtype: keras.DTypePolicy, name: str) -> None:
        super().__init__(dtype=dtype, name=name)
        self.attention_norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name="attention_norm")
        self.attention = Attention(width, heads, dtype=dtype, name="attention")
        self.hidden_norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name="hidden_norm")
        self.hidden = convolution(hidden, 3, dtype=dtype, name="hidden")
        self.out = keras.layers.Dense(width, dtype=dtype, name="out")

    def build(self, shape: Shaped) -> None:
        """For inputs (batch, positions, width)."""
        for layer in (self.attention_norm, self.attention, self.hidden_norm, self.hidden):
            layer.build(shape)
        self.out.build((*shape[:-1], self.hidden.filters))

    def call(self, x: tf.Tensor, at: Positions) -> tf.Tensor:
        """X and the result are (batch, positions, width)."""
        x += at.dropped(self.attention(self.attention_norm(x), at.valid), f"{self.path}/attention")
        hidden = ops.relu(self.hidden(at.masked(self.hidden_norm(x))))  # (batch, positions, hidden)
        return x + at.dropped(self.out(hidden), f"{self.path}/hidden")


class Stack(keras.layers.Layer):
    """Blocks one after the other and a last normalisation."""

    def __init__(
        self, blocks: int, width: int, heads: int, hidden: int, *, recompute: bool, dtype: keras.DTypePolicy, name: str
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.recompute = recompute
        self.blocks = [Block(width, heads, hidden, dtype=dtype, name=f"block{i}") for i in range(blocks)]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name="norm")

    def build(self, shape: Shaped) -> None:
        """For inputs (batch, positions, width)."""
        for layer in (*self.blocks, self.norm):
            layer.build(shape)

    def call(self, x: tf.Tensor, at: Positions) -> tf.Tensor:
        """X and the result are (batch, positions, width)."""
        for block in self.blocks:
            x = tf.recompute_grad(partial(block.__call__, at=at))(x) if self.recompute else block(x, at=at)
        return self.norm(x)


class Predictor(keras.layers.Layer):
    """One number a token."""

    def __init__(self, width: int, *, dtype: keras.DTypePolicy, name: str) -> None:
        super().__init__(dtype=dtype, name=name)
        self.convolutions = [convolution(width, 3, dtype=dtype, name=f"convolution{i}") for i in range(2)]
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name=f"norm{i}") for i in range(2)]
        self.out = keras.layers.Dense(1, dtype="float32", name="out")

    def build(self, shape: Shaped) -> None:
        """For inputs (batch, tokens, width)."""
        for layer, norm in zip(self.convolutions, self.norms, strict=True):
            layer.build(shape)
            shape = (*shape[:-1], layer.filters)
            norm.build(shape)
        self.out.build(shape)

    def call(self, x: tf.Tensor, at: Positions) -> tf.Tensor:
        """X (batch, tokens, width) → float32 (batch, tokens)."""
        for i, (layer, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = at.dropped(norm(ops.relu(layer(at.masked(x)))), f"{self.path}/{i}")
        return self.out(x)[:, :, 0]


class PostNet(keras.layers.Layer):
    """A correction of the mel by convolutions over its frames; starts as none."""

    def __init__(self, width: int, mels: int, *, dtype: keras.DTypePolicy, name: str) -> None:
        super().__init__(dtype=dtype, name=name)
        self.convolutions = [convolution(width, 5, dtype=dtype, name=f"convolution{i}") for i in range(2)]
        self.out = convolution(mels, 5, dtype=dtype, name="out", kernel_initializer="zeros")

    def build(self, shape: Shaped) -> None:
        """For inputs (batch, frames, mels)."""
        for layer in (*self.convolutions, self.out):
            layer.build(shape)
            shape = (*shape[:-1], layer.filters)

    def call(self, mel: tf.Tensor, at: Positions) -> tf.Tensor:
        """Mel and the result are (batch, frames, mels)."""
        x = mel
        for i, layer in enumerate(self.convolutions):
            x = at.dropped(ops.tanh(layer(at.masked(x))), f"{self.path}/{i}")
        return self.out(at.masked(x))


def convolution(
    width: int, kernel: int, *, dtype: keras.DTypePolicy, name: str, kernel_initializer: str = "glorot_uniform"
) -> Conv1D:
    """A convolution over positions that keeps their number."""
    return Conv1D(width, kernel, padding="same", dtype=dtype, name=name, kernel_initializer=kernel_initializer)


def sinusoids(positions: int, width: int) -> NDArray[np.float32]:
    """Position encodings (positions, width) of Vaswani et al. (2017), sines before cosines."""
    rates = np.exp(-math.log(10_000) * np.arange(width // 2) / (width // 2))
    angles = np.arange(positions)[:, None] * rates[None]
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
