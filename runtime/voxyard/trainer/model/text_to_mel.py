"""The model: text to mel in one pass, with an alignment that it learns by itself (one architecture, four sizes).

Encoder blocks over the text, durations from the aligner (training) or a predictor (speaking), pitch and energy of each
token, expansion to frames, decoder blocks over the frames, post-net. The parts are those of FastSpeech 2 (Ren et al.
2020), FastPitch (Łańcucki 2020) and Badlani et al. (2021).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from voxyard.trainer.model.alignment import Alignment, align, diagonal_prior
from voxyard.trainer.model.dropout import Drops, clip_keys
from voxyard.trainer.model.layers import Positions, PostNet, Predictor, Shaped, Stack, convolution, sinusoids
from voxyard.trainer.model.mel import FLOOR
from voxyard.trainer.model.sizes import Shape, describe
from voxyard.trainer.trainable import Batch

__all__ = ["TextToMel", "TextToMelOutput", "describe"]

# Rough centre and spread of speech, that bring the model's inputs and targets near the unit range.
MEL_CENTRE, MEL_SPREAD = -5.5, 2.2
PITCH_CENTRE, PITCH_SPREAD = math.log(150.0), 0.35
ENERGY_CENTRE, ENERGY_SPREAD = -4.5, 2.0
SHARPNESS = 10.0  # mel bands that an alignment counts as independent: neighbouring bands say much the same
PLACE_SCALE = 0.3  # of position encodings beside embeddings of spread 1: what is said matters more than where
MOST_FRAMES = 200.0  # of a token, whatever an untrained model predicts


class TextToMelOutput(NamedTuple):
    """Output of the model for a batch; float32. L counts the text's two ends as tokens."""

    mel: tf.Tensor  # (B, T, mels) natural log, before the post-net
    refined: tf.Tensor  # (B, T, mels) after it
    log_duration: tf.Tensor  # (B, L) predicted, natural log of frames
    pitch: tf.Tensor  # (B, L) predicted, normalised
    energy: tf.Tensor  # (B, L)
    is_token: tf.Tensor  # (B, L) bool, False where padded
    durations: tf.Tensor  # (B, L) frames of each token in the best path
    token_pitch: tf.Tensor  # (B, L) of the recording, normalised, 0 for unvoiced tokens
    token_energy: tf.Tensor  # (B, L)
    log_prob: tf.Tensor  # (B, T, L) of each frame at each token
    alignment: Alignment


class Text(NamedTuple):
    """A batch of texts with their two ends."""

    at: Positions
    length: tf.Tensor  # (B,) tokens
    embedded: tf.Tensor  # (B, L, width) token and speaker
    encoded: tf.Tensor  # (B, L, width) after the encoder


class TextToMel(keras.Model):
    """The network. `call` is for training; `durations_of` and `mel_of` are the two halves of speaking."""

    def __init__(
        self,
        shape: Shape,
        *,
        symbols: int,
        speakers: int,
        mels: int,
        policy: keras.DTypePolicy | None = None,
        recompute: bool = False,
        align_in_blocks: bool = False,
    ) -> None:
        super().__init__(name="text_to_mel", dtype="float32")
        policy = policy or keras.DTypePolicy("float32")
        dense, width = keras.layers.Dense, shape.width
        self.symbols, self.speakers, self.shape_of = symbols, speakers, shape
        self.align_in_blocks = align_in_blocks
        table = {"use_bias": False, "kernel_initializer": keras.initializers.RandomNormal(stddev=1.0), "dtype": policy}
        self.embed = dense(width, name="embed", **table)
        self.speaker = dense(width, name="speaker", **table) if speakers > 1 else None
        self.encoder = Stack(
            shape.encoder_blocks,
            width,
            shape.heads,
            shape.encoder_hidden,
            recompute=recompute,
            dtype=policy,
            name="encoder",
        )
        self.aligner = Aligner(shape.aligner_width, mels, dtype=policy, name="aligner")
        self.duration = Predictor(shape.predictor_width, dtype=policy, name="duration")
        self.pitch = Predictor(shape.predictor_width, dtype=policy, name="pitch")
        self.energy = Predictor(shape.predictor_width, dtype=policy, name="energy")
        self.prosody = dense(width, dtype=policy, name="prosody")
        self.place = dense(width, dtype=policy, name="place")
        self.decoder = Stack(
            shape.decoder_blocks,
            width,
            shape.heads,
            shape.decoder_hidden,
            recompute=recompute,
            dtype=policy,
            name="decoder",
        )
        self.to_mel = dense(mels, dtype="float32", name="to_mel")
        self.postnet = PostNet(shape.postnet_width, mels, dtype=policy, name="postnet")
        self.mels = mels

    def build(self, input_shape: Shaped | None = None) -> None:
        """Creates all variables; their shapes do not depend on the input's."""
        text: Shaped = (None, None, self.shape_of.width)
        self.embed.build((None, None, self.symbols + 1))
        if self.speaker is not None:
            self.speaker.build((None, self.speakers))
        for layer in (self.aligner, self.encoder, self.duration, self.pitch, self.energy, self.decoder, self.to_mel):
            layer.build(text)
        self.prosody.build((None, None, 2))
        self.place.build((None, None, 4))
        self.postnet.build((None, None, self.mels))

    def call(self, batch: Batch, training: bool = False) -> TextToMelOutput:
        """The forward pass on a feature batch (see Trainable), by the best path of the learned alignment."""
        keys = clip_keys(batch["clip_seed"]) if training else None
        text = self._text(batch["tokens"], batch["token_length"], batch["speaker"], keys)
        frames, tokens = batch["mel"].shape[1], text.at.valid.shape[1]
        mel_at = Positions(
            tf.sequence_mask(batch["mel_length"], frames), None if keys is None else Drops.of(keys, frames)
        )

        log_likelihood = self.aligner(text.embedded, text.at, (batch["mel"] - MEL_CENTRE) / MEL_SPREAD)
        log_prob = log_likelihood + diagonal_prior(batch["mel_length"], text.length, frames, tokens)
        alignment = align(log_prob, batch["mel_length"], text.length, in_blocks=self.align_in_blocks)

        durations = ops.sum(alignment.hard, 1)  # (batch, tokens)
        pitch, energy = batch["pitch"], batch["energy"]
        voiced = ops.cast(pitch > 0, "float32")
        token_pitch = _token_means((pitch - PITCH_CENTRE) / PITCH_SPREAD, voiced, alignment.hard)
        token_energy = _token_means((energy - ENERGY_CENTRE) / ENERGY_SPREAD, ops.ones_like(energy), alignment.hard)

        mel, refined = self._decoded(text.encoded, token_pitch, token_energy, alignment.hard, durations, mel_at)
        return TextToMelOutput(
            mel,
            refined,
            self.duration(text.encoded, text.at),
            self.pitch(text.encoded, text.at),
            self.energy(text.encoded, text.at),
            text.at.valid,
            durations,
            token_pitch,
            token_energy,
            log_prob,
            alignment,
        )

    def durations_of(self, tokens: tf.Tensor, token_length: tf.Tensor, speaker: tf.Tensor) -> tf.Tensor:
        """Predicted frames of each token and the two ends, float32 (B, L + 2): 1 or more, 0 where padded."""
        text = self._text(tokens, token_length, speaker, None)
        log_duration = ops.minimum(self.duration(text.encoded, text.at), math.log(MOST_FRAMES))
        return tf.where(text.at.valid, ops.maximum(1.0, ops.round(ops.exp(log_duration))), 0.0)

    def mel_of(
        self, tokens: tf.Tensor, token_length: tf.Tensor, speaker: tf.Tensor, durations: tf.Tensor, frames: int
    ) -> tf.Tensor:
        """Log-mel (B, frames, mels) of text with durations (B, L + 2); log(1e-5) from each clip's last frame on."""
        text = self._text(tokens, token_length, speaker, None)
        ends = ops.cumsum(durations, 1)[:, None]  # (batch, 1, tokens)
        frame = ops.arange(frames, dtype="float32")[None, :, None]
        hard = ops.cast((frame >= ends - durations[:, None]) & (frame < ends), "float32")  # (batch, frames, tokens)
        at = Positions(ops.any(hard > 0, -1), None)
        pitch, energy = self.pitch(text.encoded, text.at), self.energy(text.encoded, text.at)
        _, refined = self._decoded(text.encoded, pitch, energy, hard, durations, at)
        return tf.where(at.valid[:, :, None], refined, math.log(FLOOR))

    def _text(self, tokens: tf.Tensor, token_length: tf.Tensor, speaker: tf.Tensor, keys: tf.Tensor | None) -> Text:
        """The text of a batch between a token for the silence before and one for that after it."""
        most = tokens.shape[1] + 2
        place, length = ops.arange(most)[None], token_length + 2
        is_end = (place == 0) | (place == length[:, None] - 1)
        symbols = tf.where(is_end, self.symbols, tf.pad(tokens, [[0, 0], [1, 1]]))  # (batch, tokens)
        # Looked up by matrix products, whose gradients are dense and exact.
        embedded = self.embed(ops.one_hot(symbols, self.symbols + 1))  # (batch, tokens, width)
        if self.speaker is not None:
            embedded += self.speaker(ops.one_hot(speaker, self.speakers))[:, None]
        at = Positions(tf.sequence_mask(length, most), None if keys is None else Drops.of(keys, most))
        places = ops.cast(PLACE_SCALE * sinusoids(most, embedded.shape[-1]), embedded.dtype)
        return Text(at, length, embedded, self.encoder(embedded + places, at))

    def _decoded(
        self,
        encoded: tf.Tensor,
        pitch: tf.Tensor,
        energy: tf.Tensor,
        hard: tf.Tensor,
        durations: tf.Tensor,
        at: Positions,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mel before and after the post-net (batch, frames, mels), by a path `hard` (batch, frames, tokens)."""
        text = encoded + self.prosody(ops.stack([pitch, energy], -1))  # (batch, tokens, width)
        x = ops.matmul(ops.cast(hard, text.dtype), text)  # (batch, frames, width)
        frames, width = x.shape[1:]
        x += self.place(_place_in_token(hard, durations)) + ops.cast(PLACE_SCALE * sinusoids(frames, width), x.dtype)
        mel = self.to_mel(self.decoder(x, at))
        refined = mel + ops.cast(self.postnet(mel, at), "float32")
        return mel * MEL_SPREAD + MEL_CENTRE, refined * MEL_SPREAD + MEL_CENTRE


class Aligner(keras.layers.Layer):
    """The mel that each token sounds like, and from it the log likelihood of each frame under each token.

    A hidden Markov model whose states are the text's tokens, each a Gaussian of one width around a mean that follows
    from the token and its neighbours. A softmax over the tokens would learn faster to let one token claim all frames
    than to tell sounds apart; here no token can claim a frame that it does not sound like.
    """

    def __init__(self, width: int, mels: int, *, dtype: keras.DTypePolicy, name: str) -> None:
        super().__init__(dtype=dtype, name=name, autocast=False)
        self.hidden = convolution(width, 5, dtype=dtype, name="hidden")
        self.mean = keras.layers.Dense(mels, dtype="float32", name="mean")

    def build(self, shape: Shaped) -> None:
        """For text (batch, tokens, width)."""
        self.hidden.build(shape)
        self.mean.build((*shape[:-1], self.hidden.filters))

    def call(self, text: tf.Tensor, at: Positions, mel: tf.Tensor) -> tf.Tensor:
        """Text (batch, tokens, width) and normalised mel (batch, frames, mels) → (batch, frames, tokens)."""
        mean = self.mean(ops.relu(self.hidden(at.masked(text))))  # (batch, tokens, mels)
        distance = (
            ops.sum(ops.square(mel), -1)[:, :, None]
            + ops.sum(ops.square(mean), -1)[:, None, :]
            - 2 * ops.matmul(mel, ops.swapaxes(mean, 1, 2))
        )  # (batch, frames, tokens)
        return -0.5 * SHARPNESS / mel.shape[-1] * distance


def _token_means(values: tf.Tensor, weights: tf.Tensor, hard: tf.Tensor) -> tf.Tensor:
    """Mean of values (B, T) over each token's frames (B, L), counted by their weights (B, T); 0 where none counts."""
    sums = ops.matmul(ops.stack([values * weights, weights], 1), hard)  # (batch, 2, tokens)
    return sums[:, 0] / ops.maximum(sums[:, 1], 1.0)


def _place_in_token(hard: tf.Tensor, durations: tf.Tensor) -> tf.Tensor:
    """Position of each frame in its token (batch, frames, 4): share gone by, frames from both ends, its length."""
    starts = ops.cumsum(durations, 1) - durations
    of_token = ops.matmul(hard, ops.stack([starts, durations], -1))  # (batch, frames, 2)
    length = ops.maximum(of_token[:, :, 1], 1.0)
    since = ops.arange(hard.shape[1], dtype="float32")[None] - of_token[:, :, 0] + 0.5
    left = length - since
    return ops.stack(
        [since / length, ops.log(ops.maximum(since, 0.5)), ops.log(ops.maximum(left, 0.5)), ops.log(length)], -1
    )
