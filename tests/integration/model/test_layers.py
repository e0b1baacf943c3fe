"""Layers in half precision: what a product of large values is, and stays."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from voxyard.trainer.model.layers import Attention

WIDTH, HEADS, POSITIONS = 64, 1, 5


def attention(precision: str) -> Attention:
    """One head whose queries and keys are 40 everywhere: q·k is 64 · 1600 = 102,400, and 12,800 when scaled."""
    layer = Attention(WIDTH, HEADS, dtype=keras.DTypePolicy(precision), name="attention")
    layer.build((None, POSITIONS, WIDTH))
    kernel = np.zeros((WIDTH, 3 * WIDTH), np.float32)
    kernel[:, : 2 * WIDTH] = 40 / WIDTH
    kernel[:, 2 * WIDTH :] = np.eye(WIDTH)
    layer.qkv.kernel.assign(kernel)
    layer.out.kernel.assign(np.eye(WIDTH, dtype=np.float32))
    return layer


def test_attention_in_float16_takes_products_that_overflow_unscaled():
    """65,504 is the largest float16."""
    x = tf.ones((2, POSITIONS, WIDTH))
    valid = tf.sequence_mask([POSITIONS, 3], POSITIONS)
    half, single = (attention(precision)(x, valid).numpy() for precision in ("mixed_float16", "float32"))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half.astype(np.float32), single, atol=1e-2)
