"""The fused AdamW and its learning rate."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from voxyard.trainer.model.optimizer import FusedAdamW, WarmUpThenRoot

SETTINGS: dict[str, Any] = {"beta_2": 0.98, "epsilon": 1e-8, "global_clipnorm": 1.0, "weight_decay": 0.1}


def trained(optimizer: keras.optimizers.Optimizer, *, xla: bool = False) -> list[np.ndarray]:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(6), keras.layers.LayerNormalization(), keras.layers.Dense(2)])
    model.build((None, 4))
    optimizer.build(model.trainable_variables)
    inputs = tf.random.stateless_normal((8, 4), (1, 2))

    @tf.function(autograph=False, jit_compile=xla or None)
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs) - 1))
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [weight.value for weight in weights]), weights)

    for _ in range(20):
        step()
    return [weight.numpy() for weight in model.trainable_variables]


@pytest.mark.parametrize("xla", [False, True])
def test_the_fused_step_is_keras_adamw(xla: bool) -> None:
    """The same weights after 20 steps; biases and normalisations are not decayed."""
    reference = keras.optimizers.AdamW(WarmUpThenRoot(0.02, 5), **SETTINGS)
    reference.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    ours = FusedAdamW(WarmUpThenRoot(0.02, 5), **SETTINGS)
    for fused, expected in zip(trained(ours, xla=xla), trained(reference), strict=True):
        np.testing.assert_allclose(fused, expected, atol=1e-5)


def test_weights_shrink_and_biases_do_not() -> None:
    """Decay without a gradient."""
    optimizer = FusedAdamW(0.1, weight_decay=0.5)
    weights = [keras.Variable(tf.ones([2]), name=name) for name in ("kernel", "bias", "gamma", "beta")]
    optimizer.build(weights)
    optimizer.apply([tf.zeros([2])] * 4, weights)
    assert [float(weight[0]) for weight in weights] == pytest.approx([0.95, 1, 1, 1])


def test_mirrored_copies_of_a_weight_stay_the_same() -> None:
    """On each of the devices, what is decayed and what is not."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        optimizer = FusedAdamW(0.1, weight_decay=0.5)
        weights = [keras.Variable(tf.ones([2]), name=name) for name in ("kernel", "bias", "gamma", "beta")]
        optimizer.build(weights)
    strategy.run(tf.function(lambda: optimizer.apply([tf.zeros([2])] * 4, weights), autograph=False))
    for device in (0, 1):
        copies = [float(weight.value.values[device][0]) for weight in weights]
        assert copies == pytest.approx([0.95, 1, 1, 1]), f"on device {device}"


def test_the_learning_rate_is_finite_and_positive_far_out() -> None:
    """training.warmup_steps: linear to the peak, then 1/√step, at step 10⁷ and beyond."""
    schedule = WarmUpThenRoot(1e-3, 100)
    rate = {step: float(schedule(tf.constant(step, tf.int64))) for step in (0, 49, 99, 399, 10**7, 10**9, 2**31)}
    assert rate[0] == pytest.approx(1e-5)
    assert rate[49] == pytest.approx(5e-4)
    assert rate[99] == pytest.approx(1e-3)
    assert rate[399] == pytest.approx(5e-4)
    assert rate[10**7] == pytest.approx(1e-3 * (100 / 10**7) ** 0.5, rel=1e-3)
    assert all(np.isfinite(value) and value > 0 for value in rate.values())
