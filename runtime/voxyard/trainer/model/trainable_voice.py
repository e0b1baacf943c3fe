"""voxyard's text-to-speech model and the vocoder of its mels, trained side by side on the same batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.trainer.config import TrainConfig
from voxyard.trainer.model.discriminators import Discriminators
from voxyard.trainer.model.griffin_lim import PEAK
from voxyard.trainer.model.optimizer import FusedAdamW, WarmUpThenRoot
from voxyard.trainer.model.sizes import VOCODER_SIZES, Shape, VocoderShape
from voxyard.trainer.model.trainable_tts import POLICIES, TextToSpeech
from voxyard.trainer.model.vocoder import Vocoder
from voxyard.trainer.model.vocoder_losses import MelDistance, discriminator_losses, spectral_losses, vocoder_losses
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.trainable import Batch, Turns, Update

SEGMENT = 32  # frames of a clip that the vocoder is trained on in an update: Vocos' and HiFi-GAN's third of a second
TURNS = 8  # updates of a step, each on segments of their own, while there are no discriminators: one with them costs 13
ALONE, JUDGED = Turns("alone", TURNS), Turns("judged", 1)  # without discriminators, later with them
RATE, WARM_UP, HOLD = 1e-3, 200, 20_000  # learning rate; HiFi-GAN's and Vocos' momenta below


class Voice(keras.Model):
    """The acoustic model, the vocoder, and the discriminators that train it."""

    def __init__(self, acoustic: keras.Model, vocoder: Vocoder, discriminators: Discriminators) -> None:
        super().__init__(name="voice")
        self.acoustic, self.vocoder, self.discriminators = acoustic, vocoder, discriminators

    def build(self, input_shape: object = None) -> None:
        """Keras' hook; its parts are built."""
        self.built = True


class SpeechWithVocoder(TextToSpeech):
    """TextToSpeech with a vocoder of its own (voxyard.trainer.model.vocoder): `SeveralUpdates`."""

    def __init__(
        self,
        config: TrainConfig,
        speakers: tuple[str, ...],
        *,
        shape: Shape | None = None,
        vocoder: VocoderShape | None = None,
    ) -> None:
        """See TextToSpeech; `vocoder` overrides its size."""
        super().__init__(config, speakers, shape=shape)
        self._vocoder = vocoder or VOCODER_SIZES[config.model.vocoder_row]
        self._samples = SEGMENT * config.model.hop_length
        self._distance = MelDistance(config.model)

    def batch_spec(self, bucket: Bucket, batch_size: int) -> dict[str, tf.TensorSpec]:
        """See Trainable and FeatureExtractor."""
        return {
            **super().batch_spec(bucket, batch_size),
            "segment_mel": tf.TensorSpec((batch_size, TURNS, SEGMENT, self._config.model.mels), tf.float32),
            "segment": tf.TensorSpec((batch_size, TURNS, self._samples), tf.float32),
        }

    def features(self, raw: Batch) -> dict[str, tf.Tensor]:
        """See Trainable and FeatureExtractor."""
        return self._features(raw, segments=TURNS, length=SEGMENT)

    beside = ("discriminators", "vocoder")

    def turns(self, step: int) -> Turns:
        """See UpdatesInTurns."""
        return ALONE if step < self._config.training.discriminators_after else JUDGED

    def phases(self, first: int, end: int) -> str:
        """Phases of the vocoder's training in a run from step `first` to `end`, as a sentence."""
        after = self._config.training.discriminators_after
        alone = f"{TURNS} updates a step by its mel distances alone"
        if end <= after:
            return (
                f"Vocoder: {alone}; its discriminators begin after step {after:,} (--discriminators-after), which this "
                "run does not reach"
            )
        if first < after:
            return f"Vocoder: {alone} up to step {after:,} (--discriminators-after), then one with discriminators"
        return "Vocoder: one update a step, with discriminators"

    def of_turn(self, batch: Batch, turn: tf.Tensor | int) -> Batch:
        """See UpdatesInTurns: a segment of each clip and its mel."""
        return {name: tf.gather(batch[name], turn, axis=1) for name in ("segment_mel", "segment")}

    def build(self, beside: str | None = None) -> Voice:
        """See Trainable, and SeveralUpdates for `beside`."""
        policy = keras.DTypePolicy(POLICIES.get(self._config.training.precision, "float32"))
        with nullcontext() if beside is None else tf.device(beside):
            xla = bool(self._config.training.xla)
            vocoder = Vocoder(self._vocoder, self._config.model, policy, xla=xla)
            discriminators = Discriminators(self._vocoder, policy)
            discriminators(vocoder(tf.zeros((1, SEGMENT, self._config.model.mels))))  # makes their variables
        voice = Voice(super().build(), vocoder, discriminators)
        voice.build()
        return voice

    def updates(self, model: Voice) -> Sequence[Update]:
        """See SeveralUpdates: the acoustic model; the discriminators; the vocoder, against those as they are then.

        The latter two see a part of the batch, of_turn's. The first updates of the vocoder are by its spectral loss
        alone, as Parallel WaveGAN's and UnivNet's are: they cost a tenth, and discriminators have nothing to tell of a
        sound that has no words yet.
        """

        def acoustic(batch: Batch) -> Batch:
            return super(SpeechWithVocoder, self).losses(model.acoustic, batch, training=True)

        def discriminators(batch: Batch) -> Batch:
            made = tf.stop_gradient(model.vocoder(batch["segment_mel"]))
            return discriminator_losses(*(model.discriminators(each)[0] for each in (batch["segment"], made)))

        def alone(batch: Batch) -> Batch:
            return spectral_losses(self._distance(batch["segment"], model.vocoder(batch["segment_mel"])))

        def judged(batch: Batch) -> Batch:
            recorded, made = batch["segment"], model.vocoder(batch["segment_mel"])
            opinions = model.discriminators(recorded), model.discriminators(made)
            return vocoder_losses(self._distance(recorded, made), *opinions)

        judges, vocoder = model.discriminators.trainable_variables, model.vocoder.trainable_variables
        return [
            Update("acoustic", model.acoustic.trainable_variables, acoustic, self.optimizer),
            Update("discriminators", judges, {JUDGED.kind: discriminators}, _optimizer),
            Update("vocoder", vocoder, {ALONE.kind: alone, JUDGED.kind: judged}, _optimizer),
        ]

    def losses(self, model: Voice, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """See Trainable: those of the acoustic model, and `vocoder_mel`, the vocoder's mel distance in nepers."""
        found = super().losses(model.acoustic, batch, training)
        one = self.of_turn(batch, 0)
        mel = self._distance(one["segment"], model.vocoder(one["segment_mel"]))
        return {**found, "total": found["total"] + mel, "vocoder_mel": mel}

    def speak(
        self, model: Voice, text: str, speaker: int = 0, language: str | None = None, vocoder: str = "griffin-lim"
    ) -> NDArray[np.float32]:
        """See TextToSpeech; with the vocoder `neural` the model's own speaks, else Griffin-Lim."""
        if vocoder == "griffin-lim":
            return super().speak(model, text, speaker, language)
        return self.copy(model, self.mel(model, text, speaker, language))

    def copy(self, model: Voice, mel: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """Samples (T · hop,) of a log-mel (T, mels) by the model's vocoder, at most PEAK loud."""
        samples = model.vocoder(tf.constant(mel[None], tf.float32))[0].numpy()
        loudest = float(np.abs(samples).max(initial=0.0))
        return np.asarray(samples * min(1.0, PEAK / max(loudest, 1e-9)), np.float32)

    def mel(self, model: Voice, text: str, speaker: int = 0, language: str | None = None) -> NDArray[np.float32]:
        """See TextToSpeech."""
        return super().mel(model.acoustic, text, speaker, language)

    def pictures(self, model: Voice, batch: Batch) -> dict[str, NDArray[np.uint8]]:
        """See TextToSpeech."""
        return super().pictures(model.acoustic, batch)


def _optimizer() -> keras.optimizers.Optimizer:
    return FusedAdamW(WarmUpThenRoot(RATE, WARM_UP, HOLD), weight_decay=0.01, beta_1=0.8, beta_2=0.9, epsilon=1e-8)
