"""Losses per clip, each over the clip's own frames or tokens: neither padding nor batch mates change them."""

from __future__ import annotations

import tensorflow as tf
from keras import ops

from voxyard.trainer.model.text_to_mel import TextToMelOutput
from voxyard.trainer.trainable import Batch

WEIGHTS = {
    "mel": 1.0,
    "refined_mel": 1.0,
    "duration": 0.1,
    "pitch": 0.1,
    "energy": 0.1,
    "alignment": 1.0,
    "binarization": 0.1,
}


def clip_losses(spoken: TextToMelOutput, batch: Batch) -> dict[str, tf.Tensor]:
    """Losses of the model's output for a batch, each float32 (B,); `total` is their sum by WEIGHTS.

    `mel`, `refined_mel`: mean absolute error of the log-mel before and after the post-net, in nepers · `duration`:
    squared error in log frames · `pitch`, `energy`: squared error of each token's mean, normalised · `alignment`: −log
    of the summed likelihood of all paths, a frame · `binarization`: −log of the best path's share of it, a frame.
    """
    frames = tf.sequence_mask(batch["mel_length"], batch["mel"].shape[1], tf.float32)  # (batch, frames)
    tokens = tf.cast(spoken.is_token, tf.float32)  # (batch, tokens)
    length = tf.cast(batch["mel_length"], tf.float32)
    log_duration = tf.math.log(tf.maximum(spoken.durations, 1.0))
    best_path = tf.reduce_sum(tf.where(spoken.alignment.hard > 0, spoken.log_prob, 0.0), [1, 2])  # (batch,)
    losses = {
        "mel": _mean(ops.mean(ops.abs(spoken.mel - batch["mel"]), -1), frames),
        "refined_mel": _mean(ops.mean(ops.abs(spoken.refined - batch["mel"]), -1), frames),
        "duration": _mean(ops.square(spoken.log_duration - log_duration), tokens),
        "pitch": _mean(ops.square(spoken.pitch - spoken.token_pitch), tokens),
        "energy": _mean(ops.square(spoken.energy - spoken.token_energy), tokens),
        "alignment": spoken.alignment.loss / length,
        "binarization": (-best_path - spoken.alignment.loss) / length,
    }
    weighted = [WEIGHTS[name] * loss for name, loss in losses.items()]
    return {"total": tf.add_n(weighted), **losses}


def _mean(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Mean (B,) of values (B, positions) where the mask (B, positions) is 1."""
    return ops.sum(tf.where(mask > 0, values, 0.0), 1) / ops.sum(mask, 1)
