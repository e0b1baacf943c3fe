"""Losses of the vocoder and of its discriminators, per clip: those of Vocos (Siuzdak 2023), mels at three scales."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from voxyard.trainer.config import ModelConfig
from voxyard.trainer.model.discriminators import Judgement, magnitudes
from voxyard.trainer.model.mel import FLOOR, mel_basis

MEL_WEIGHT = 15.0  # of each of three resolutions; the paper's 45 is of one
FEATURE_WEIGHT = 2.0  # HiFi-GAN's
RESOLUTIONS = ((512, 128), (1024, 256), (2048, 512))  # window and hop, in samples


class MelDistance:
    """Mean absolute difference of log-mels at several resolutions."""

    def __init__(self, model: ModelConfig) -> None:
        self._bases = []
        for fft, hop in RESOLUTIONS:
            # Below 40 bands a window of 512 has a bin for each; more would be empty.
            bands = model.model_copy(update={"fft_size": fft, "hop_length": hop, "mels": min(model.mels, fft // 13)})
            self._bases.append((fft, hop, mel_basis(bands).T.astype("float32")))

    def __call__(self, recorded: tf.Tensor, made: tf.Tensor) -> tf.Tensor:
        """Nepers (B,), the mean of the resolutions, of samples (B, S) in float32."""
        return tf.add_n([self._one(recorded, made, *each) for each in self._bases]) / len(self._bases)

    def _one(self, recorded: tf.Tensor, made: tf.Tensor, fft: int, hop: int, basis: tf.Tensor) -> tf.Tensor:
        one, other = (
            tf.math.log(tf.maximum(tf.matmul(magnitudes(each, fft, hop), basis), FLOOR)) for each in (recorded, made)
        )
        return tf.reduce_mean(tf.abs(one - other), [1, 2])


def spectral_losses(mel: tf.Tensor) -> dict[str, tf.Tensor]:
    """Losses (B,) of the vocoder without discriminators, from its mel distance (B,) in nepers."""
    return {"total": len(RESOLUTIONS) * MEL_WEIGHT * mel, "mel": mel}


def vocoder_losses(mel: tf.Tensor, recorded: Judgement, made: Judgement) -> dict[str, tf.Tensor]:
    """Losses (B,) of the vocoder from its mel distance (B,) and from what the judges say and see.

    `mel` in nepers · `adversarial`: hinge, 0 where every judge takes the sound for a recording · `features`: mean
    absolute difference of what each layer of the judges sees.
    """
    adversarial = _mean([tf.nn.relu(1 - opinion) for opinion in made[0]])
    pairs = zip(
        (each for seen in recorded[1] for each in seen), (each for seen in made[1] for each in seen), strict=True
    )
    features = _mean([tf.abs(tf.stop_gradient(one) - other) for one, other in pairs])
    total = len(RESOLUTIONS) * MEL_WEIGHT * mel + adversarial + FEATURE_WEIGHT * features
    return {"total": total, "mel": mel, "adversarial": adversarial, "features": features}


def discriminator_losses(recorded: Sequence[tf.Tensor], made: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
    """Hinge loss (B,) of the judges' opinions (B, places)."""
    return {
        "total": _mean([tf.nn.relu(1 - each) for each in recorded]) + _mean([tf.nn.relu(1 + each) for each in made])
    }


def _mean(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """Mean (B,) over the judges or layers of their means over all but the clips."""
    means = [tf.reduce_mean(tf.cast(each, tf.float32), list(range(1, each.shape.rank))) for each in values]
    return tf.add_n(means) / len(means)
