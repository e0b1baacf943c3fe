"""Losses per clip, and that they can be learned away."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from voices import Raw, features_of, raw_batch, small_model

from voxyard.trainer.model.losses import WEIGHTS, clip_losses
from voxyard.trainer.model.text_to_mel import TextToMel

LENGTHS = [(40, 12), (31, 9), (17, 14)]


@pytest.fixture(scope="module")
def model() -> TextToMel:
    return small_model()


def losses_of(model: TextToMel, batch: Raw, training: bool = False) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in clip_losses(model(batch, training=training), batch).items()}


def test_a_longer_bucket_changes_no_clips_loss(model: TextToMel, batch: Raw) -> None:
    """Each loss is over the clip's own frames or tokens."""
    longer = losses_of(model, features_of(raw_batch(LENGTHS, 96, 40)))
    for name, values in losses_of(model, batch).items():
        assert values.shape == (3,)
        np.testing.assert_allclose(longer[name], values, rtol=1e-3, atol=1e-5, err_msg=name)


def test_the_total_is_the_weighted_sum(model: TextToMel, batch: Raw) -> None:
    """What is minimised is what is shown."""
    losses = losses_of(model, batch)
    np.testing.assert_allclose(losses["total"], sum(WEIGHTS[name] * losses[name] for name in WEIGHTS), rtol=1e-5)


def test_the_best_path_has_a_share_of_all_paths(model: TextToMel, batch: Raw) -> None:
    """Binarization is −log of a probability, and both alignment losses are a frame's."""
    losses, path = losses_of(model, batch), model(batch).alignment
    assert (losses["binarization"] >= 0).all()
    np.testing.assert_allclose(losses["alignment"], path.loss / tf.cast(batch["mel_length"], tf.float32), rtol=1e-5)


@pytest.mark.slow
def test_gradients_of_micro_batches_sum_to_those_of_the_whole_batch(model: TextToMel) -> None:
    """--grad-accum: also with dropout, because a clip draws the same in any micro-batch."""
    whole = features_of(raw_batch([(20, 6), (24, 8), (18, 5), (24, 7)], 24, 8))
    weights = [variable.value for variable in model.trainable_variables]

    @tf.function(autograph=False)
    def gradients(batch: Raw) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            mean = tf.reduce_mean(clip_losses(model(batch, training=True), batch)["total"])
        return tape.gradient(mean, weights)

    halves = [gradients({name: value[i : i + 2] for name, value in whole.items()}) for i in (0, 2)]
    for left, right, expected in zip(*halves, gradients(whole), strict=True):
        np.testing.assert_allclose((left + right) / 2, expected, atol=2e-5, rtol=1e-3)
