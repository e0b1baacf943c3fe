"""voxyard's own text-to-speech model as a Trainable."""

from __future__ import annotations

import math

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.corpus.text import SYMBOLS, Encoded
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.model.features import FeatureExtractor
from voxyard.trainer.model.griffin_lim import spectrogram_image, waveform
from voxyard.trainer.model.losses import clip_losses
from voxyard.trainer.model.optimizer import FusedAdamW, WarmUpThenRoot
from voxyard.trainer.model.sizes import SIZES, Shape
from voxyard.trainer.model.text_to_mel import TextToMel
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.text.reader import TextReader
from voxyard.trainer.trainable import Batch

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
FRAME_STEP, TOKEN_STEP = 64, 16  # spoken text is padded to multiples of these: few shapes


class TextToSpeech:
    """Text-to-mel model (voxyard.trainer.model.text_to_mel) with features, losses and optimizer, by settings."""

    def __init__(self, config: TrainConfig, speakers: tuple[str, ...], *, shape: Shape | None = None) -> None:
        """`training.precision` is a number format (`auto` counts as float32). `shape` overrides the size."""
        self.sample_rate = config.model.sample_rate
        self._config, self._speakers = config, speakers
        self._shape = shape or SIZES[config.model.size]
        self._reader = TextReader(config)
        self._features = FeatureExtractor(config.model, config.data)

    def batch_spec(self, bucket: Bucket, batch_size: int) -> dict[str, tf.TensorSpec]:
        """See Trainable; FeatureExtractor describes the features."""
        frames, tokens = (batch_size, bucket.frames), (batch_size, bucket.tokens)
        return {
            "mel": tf.TensorSpec((*frames, self._config.model.mels), tf.float32),
            "mel_length": tf.TensorSpec((batch_size,), tf.int32),
            "pitch": tf.TensorSpec(frames, tf.float32),
            "energy": tf.TensorSpec(frames, tf.float32),
            "tokens": tf.TensorSpec(tokens, tf.int32),
            "token_length": tf.TensorSpec((batch_size,), tf.int32),
            "speaker": tf.TensorSpec((batch_size,), tf.int32),
            "clip_seed": tf.TensorSpec((batch_size, 2), tf.int32),
        }

    def features(self, raw: Batch) -> dict[str, tf.Tensor]:
        """See Trainable and FeatureExtractor."""
        return self._features(raw)

    def build(self) -> keras.Model:
        """See Trainable."""
        training = self._config.training
        model = TextToMel(
            self._shape,
            symbols=len(SYMBOLS),
            speakers=len(self._speakers),
            mels=self._config.model.mels,
            policy=keras.DTypePolicy(POLICIES.get(training.precision, "float32")),
            recompute=training.recompute,
            align_in_blocks=bool(tf.config.list_logical_devices("GPU")),  # a CPU would only do more arithmetic
        )
        model.build()
        return model

    def losses(self, model: keras.Model, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """See Trainable; the parts are those of `clip_losses`."""
        return clip_losses(model(batch, training=training), batch)

    def optimizer(self) -> keras.optimizers.Optimizer:
        """AdamW, whose weight decay spares biases and normalisations."""
        training = self._config.training
        return FusedAdamW(
            WarmUpThenRoot(training.learning_rate, training.warmup_steps),
            weight_decay=training.weight_decay,
            beta_1=0.9,
            beta_2=0.98,
            epsilon=1e-8,
        )

    def speak(
        self, model: keras.Model, text: str, speaker: int = 0, language: str | None = None
    ) -> NDArray[np.float32]:
        """See Trainable and `read_text`."""
        mel = self.mel(model, text, speaker, language)
        return waveform(mel, self._config.model, pre_emphasis=self._config.data.pre_emphasis)

    def mel(self, model: keras.Model, text: str, speaker: int = 0, language: str | None = None) -> NDArray[np.float32]:
        """The model's log-mel (frames, mels) of a text, for any vocoder; see `read_text`."""
        ids = self.read_text(text, language).tokens
        tokens = np.zeros((1, _round_up(len(ids), TOKEN_STEP)), np.int32)
        tokens[0, : len(ids)] = ids
        spoken = (tf.constant(tokens), tf.constant([len(ids)]), tf.constant([speaker], tf.int32))
        durations = model.durations_of(*spoken)
        frames = int(tf.reduce_sum(durations))
        mel = model.mel_of(*spoken, durations, _round_up(frames, FRAME_STEP))
        made: NDArray[np.float32] = mel[0, :frames].numpy()
        return made

    def read_text(self, text: str, language: str | None = None) -> Encoded:
        """The text as tokens of the model. Raises TrainerError or CorpusError, see TextReader.read."""
        return self._reader.read(text, language)

    def pictures(self, model: keras.Model, batch: Batch) -> dict[str, NDArray[np.uint8]]:
        """Of a feature batch's first clip, for TensorBoard: recorded over predicted mel, and the alignment."""
        output = model(batch, training=False)
        frames, tokens = int(batch["mel_length"][0]), int(batch["token_length"][0]) + 2
        mels = [batch["mel"][0, :frames].numpy(), output.refined[0, :frames].numpy()]
        path = output.alignment.hard[0, :frames, :tokens].numpy()
        return {
            "mel_recorded_above_predicted": np.concatenate([spectrogram_image(mel) for mel in mels]),
            "alignment": spectrogram_image(path, low=0.0),
        }


def _round_up(value: int, step: int) -> int:
    return math.ceil(value / step) * step
