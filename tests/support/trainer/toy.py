"""A second trainable beside our own: guesses how loud a clip is from its text. Small, fast, with dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial

import keras
import numpy as np
import tensorflow as tf

from voxyard.trainer import TrainConfig, Turns, Update
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.trainable import Batch

SYMBOLS = 512


class LoudnessGuess(keras.Model):
    """Text to one number."""

    def __init__(self, width: int, seed: int, name: str = "loudness") -> None:
        super().__init__(name=name)
        self.embed = keras.layers.Embedding(SYMBOLS, width, name="embed")
        self.hidden = keras.layers.Dense(width, "relu", name="hidden")
        self.drop = keras.layers.Dropout(0.1, seed=seed, name="drop")
        self.out = keras.layers.Dense(1, name="out", dtype="float32")

    def call(self, tokens: tf.Tensor, training: bool = False) -> tf.Tensor:
        text = self.embed(tokens)  # (batch, tokens, width)
        mask = tf.cast(tokens > 0, text.dtype)[:, :, None]
        mean = tf.reduce_sum(text * mask, 1) / tf.maximum(tf.reduce_sum(mask, 1), 1)
        return self.out(self.drop(self.hidden(mean), training=training))[:, 0]  # (batch,)


class Loudness:
    """The whole protocol in one screen."""

    def __init__(self, config: TrainConfig, speakers: tuple[str, ...], *, width: int = 16) -> None:
        self.sample_rate = config.model.sample_rate
        self._hop, self._seed, self._width = config.model.hop_length, config.training.seed, width
        self._learning_rate = config.training.learning_rate

    def batch_spec(self, bucket: Bucket, batch_size: int) -> dict[str, tf.TensorSpec]:
        return {
            "tokens": tf.TensorSpec((batch_size, bucket.tokens), tf.int32),
            "loudness": tf.TensorSpec((batch_size,), tf.float32),
        }

    def features(self, raw: Batch) -> dict[str, tf.Tensor]:
        pcm = tf.cast(raw["pcm"], tf.float32) / 32768.0  # (batch, samples)
        energy = tf.reduce_sum(pcm * pcm, 1) / tf.cast(raw["pcm_length"], tf.float32)
        return {"tokens": raw["tokens"], "loudness": tf.math.log(energy + 1e-6)}

    def build(self) -> keras.Model:
        model = LoudnessGuess(self._width, self._seed)
        model(tf.zeros((1, 4), tf.int32))
        return model

    def losses(self, model: keras.Model, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        error = model(batch["tokens"], training=training) - batch["loudness"]
        return {"total": error * error}

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.AdamW(self._learning_rate)

    def speak(self, model: keras.Model, text: str) -> np.ndarray:
        level = float(model(tf.constant([[ord(c) % SYMBOLS for c in text]]))[0])
        time = np.arange(self.sample_rate // 2) / self.sample_rate
        return (np.exp(level / 2) * np.sin(2 * np.pi * 440 * time)).astype(np.float32).clip(-1, 1)


def make(config: TrainConfig, speakers: tuple[str, ...]) -> Loudness:
    """The factory that `--model-module` names."""
    return Loudness(config, speakers)


def broken(config: TrainConfig, speakers: tuple[str, ...]) -> object:
    """A factory whose product lacks most of the protocol."""
    return object()


def make_wide(config: TrainConfig, speakers: tuple[str, ...]) -> Loudness:
    """The same with other shapes."""
    return Loudness(config, speakers, width=24)


class Still(Loudness):
    """One without dropout, the same on any number of devices."""

    def build(self) -> keras.Model:
        model = super().build()
        model.drop.rate = 0.0
        return model


def make_still(config: TrainConfig, speakers: tuple[str, ...]) -> Loudness:
    """The same without dropout."""
    return Still(config, speakers)


class Mute(Loudness):
    """One that cannot speak."""

    def speak(self, model: keras.Model, text: str) -> np.ndarray:
        raise NotImplementedError("it has no voice")


def make_mute(config: TrainConfig, speakers: tuple[str, ...]) -> Loudness:
    """The same without a voice."""
    return Mute(config, speakers)


class Adversaries(keras.Model):
    """Two networks: a guess of the loudness, and a judge that tells guesses from what was measured."""

    def __init__(self, width: int, seed: int, dropout: float) -> None:
        super().__init__(name="adversaries")
        self.guess = LoudnessGuess(width, seed)
        self.guess.drop.rate = dropout
        self.judge = keras.Sequential(
            [
                keras.layers.Input((1,)),
                keras.layers.Dense(width, "relu", name="heard"),
                keras.layers.Dense(1, name="real", dtype="float32"),
            ],
            name="judge",
        )

    def call(self, tokens: tf.Tensor, training: bool = False) -> tf.Tensor:
        guessed = self.guess(tokens, training=training)
        self.judge(guessed[:, None])
        return guessed

    def judged(self, loudness: tf.Tensor) -> tf.Tensor:
        """The judge's opinion of each (batch,): 1 for measured."""
        return self.judge(loudness[:, None])[:, 0]


class Adversarial(Loudness):
    """Several updates in one screen: least squares GAN (X. Mao et al., ICCV 2017), the judge first."""

    dropout = 0.1

    def build(self) -> keras.Model:
        model = Adversaries(self._width, self._seed, self.dropout)
        model(tf.zeros((1, 4), tf.int32))
        return model

    def updates(self, model: Adversaries) -> Sequence[Update]:
        def judge(batch: Batch) -> Batch:
            real = model.judged(batch["loudness"])
            guessed = model.judged(tf.stop_gradient(model(batch["tokens"], training=True)))
            return {"total": (real - 1) ** 2 + guessed**2}

        def guess(batch: Batch) -> Batch:
            guessed = model(batch["tokens"], training=True)
            error = guessed - batch["loudness"]
            deceived = (model.judged(guessed) - 1) ** 2
            return {"total": error * error + deceived, "adversarial": deceived}

        return [
            Update("judge", model.judge.trainable_variables, judge, partial(keras.optimizers.SGD, 0.01)),
            Update("guess", model.guess.trainable_variables, guess, self.optimizer),
        ]


def make_adversarial(config: TrainConfig, speakers: tuple[str, ...]) -> Adversarial:
    """Two networks that train each other."""
    return Adversarial(config, speakers)


class StillAdversarial(Adversarial):
    """The same without dropout, and so the same on any number of devices."""

    dropout = 0.0


def make_still_adversarial(config: TrainConfig, speakers: tuple[str, ...]) -> Adversarial:
    """The same without dropout."""
    return StillAdversarial(config, speakers)


class Pair(keras.Model):
    """Two networks that share nothing."""

    def __init__(self, width: int, seed: int, beside: str | None) -> None:
        super().__init__(name="pair")
        self.first = LoudnessGuess(width, seed)
        with tf.device(beside) if beside else nullcontext():
            self.second = LoudnessGuess(width, seed + 1, "second")
            self.second(tf.zeros((1, 4), tf.int32))
        self.first(tf.zeros((1, 4), tf.int32))
        self.built = True


class TwoNetworks(Loudness):
    """Two networks that learn the same without each other: the second one may be trained on the data device."""

    beside: tuple[str, ...] = ("second",)

    def build(self, beside: str | None = None) -> keras.Model:
        return Pair(self._width, self._seed, beside)

    def updates(self, model: Pair) -> Sequence[Update]:
        def of(network: keras.Model) -> Callable[[Batch], Batch]:
            def losses(batch: Batch) -> Batch:
                return {"total": (network(batch["tokens"], training=True) - batch["loudness"]) ** 2}

            return losses

        return [
            Update(name, network.trainable_variables, of(network), self.optimizer)
            for name, network in (("first", model.first), ("second", model.second))
        ]

    def losses(self, model: Pair, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        first, second = (network(batch["tokens"], training=training) for network in (model.first, model.second))
        return {"total": (first - batch["loudness"]) ** 2 + (second - batch["loudness"]) ** 2}

    def speak(self, model: Pair, text: str) -> np.ndarray:
        return super().speak(model.first, text)


class InTurns(TwoNetworks):
    """The same; the second network is updated three times in each of the first two steps, each time with other aims.

    A judge of it, which is no part of anything else, begins to learn in the third step.
    """

    beside = ("judge", "second")

    def build(self, beside: str | None = None) -> keras.Model:
        model = super().build(beside)
        model.first.drop.rate = model.second.drop.rate = 0.0
        with tf.device(beside) if beside else nullcontext():
            model.judge = keras.layers.Dense(1, name="judge")
            model.judge(tf.zeros((1, 1)))
        return model

    def updates(self, model: Pair) -> Sequence[Update]:
        first, second = super().updates(model)
        early = second.losses_in("early")
        assert early is not None

        def judge(batch: Batch) -> Batch:
            return {"total": (model.judge(batch["loudness"][:, None])[:, 0] - 1) ** 2}

        def late(batch: Batch) -> Batch:
            return {"total": early(batch)["total"] / 2, "late": batch["loudness"]}

        return [
            first,
            Update("judge", model.judge.trainable_variables, {"late": judge}, self.optimizer),
            Update("second", second.variables, {"early": early, "late": late}, self.optimizer),
        ]

    def turns(self, step: int) -> Turns:
        return Turns("early", 3) if step < 2 else Turns("late", 1)

    def of_turn(self, batch: Batch, turn: tf.Tensor | int) -> Batch:
        return {"tokens": batch["tokens"], "loudness": batch["loudness"] + tf.cast(turn, tf.float32)}


def make_in_turns(config: TrainConfig, speakers: tuple[str, ...]) -> InTurns:
    """Two networks, the second one updated several times in a step."""
    return InTurns(config, speakers)


def make_two(config: TrainConfig, speakers: tuple[str, ...]) -> TwoNetworks:
    """Two networks side by side."""
    return TwoNetworks(config, speakers)


class Hungry(Loudness):
    """One whose losses need a petabyte for each clip."""

    def losses(self, model: keras.Model, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        made = super().losses(model, batch, training)
        wanted = tf.random.normal([tf.shape(batch["tokens"])[0], 2**26, 2**22])
        return {"total": made["total"] + tf.reduce_sum(wanted, [1, 2])}


def make_hungry(config: TrainConfig, speakers: tuple[str, ...]) -> Hungry:
    """The same, for which no memory suffices."""
    return Hungry(config, speakers)
