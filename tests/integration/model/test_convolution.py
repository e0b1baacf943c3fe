"""Convolutions as products: what Keras' layers give, values and gradients, and no convolution left for XLA to try."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from voxyard.trainer.model import convolution

Layer = convolution.Conv1D | convolution.Conv2D
CASES = [
    (convolution.Conv1D, (3,), 1, (9, 4)),
    (convolution.Conv1D, (5,), 1, (3, 4)),
    (convolution.Conv1D, (4,), 2, (9, 4)),
    (convolution.Conv2D, (5, 1), (3, 1), (11, 3, 1)),
    (convolution.Conv2D, (3, 9), (1, 2), (6, 33, 1)),
    (convolution.Conv2D, (3, 9), (1, 2), (6, 16, 5)),
    (convolution.Conv2D, (3, 3), 1, (4, 5, 2)),
]


def values_and_gradients(layer: Layer, x: tf.Tensor) -> list[np.ndarray]:
    with tf.GradientTape() as tape:
        tape.watch(x)
        made = layer(x)
        total = tf.reduce_sum(tf.cast(tf.sin(made), tf.float32))
    return [made.numpy(), *(each.numpy() for each in tape.gradient(total, [x, layer.kernel.value, layer.bias.value]))]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every input as one on a GPU."""
    monkeypatch.setattr(convolution, "as_products", lambda _: True)


@pytest.mark.parametrize(("kind", "kernel", "strides", "shape"), CASES)
def test_a_product_is_the_convolution(
    kind: type[Layer], kernel: Any, strides: Any, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    keras.utils.set_random_seed(1)
    layer = kind(6, kernel, strides, "same", bias_initializer="normal")
    x = tf.random.stateless_normal([2, *shape], (3, 4))
    expected = values_and_gradients(layer, x)
    monkeypatch.setattr(convolution, "as_products", lambda _: True)
    for one, other in zip(values_and_gradients(layer, x), expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_a_product_keeps_the_half_precision_of_its_layer(policy: str, gpu: None) -> None:
    layer = convolution.Conv1D(8, 3, padding="same", dtype=keras.DTypePolicy(policy))
    x = tf.random.stateless_normal([2, 10, 4], (1, 2))
    made = layer(x)
    assert made.dtype == policy.removeprefix("mixed_")
    exact = tf.nn.conv1d(x, layer.kernel.value, 1, "SAME").numpy()
    np.testing.assert_allclose(tf.cast(made, tf.float32), exact, atol=0.05)


@pytest.mark.parametrize(("kind", "kernel", "strides", "shape"), CASES)
def test_xla_has_no_convolution_to_try(
    kind: type[Layer], kernel: Any, strides: Any, shape: tuple[int, ...], gpu: None
) -> None:
    layer = kind(6, kernel, strides, "same")
    layer.build((2, *shape))

    def update(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(layer(x) ** 2)
        return tape.gradient(total, [x, layer.kernel.value])

    compiled = tf.function(update, jit_compile=True, autograph=False)
    hlo = compiled.experimental_get_compiler_ir(tf.zeros((2, *shape)))(stage="hlo")
    assert " dot(" in hlo
    assert " convolution(" not in hlo


def test_inputs_of_an_open_length_and_those_of_a_cpu_stay_convolutions() -> None:
    assert not convolution.as_products(tf.zeros((1, 5, 2)))
    with tf.Graph().as_default():
        open_length = tf.compat.v1.placeholder(tf.float32, (1, None, 2))
        assert not convolution.as_products(open_length)
