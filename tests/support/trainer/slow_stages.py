"""A trainable whose stages can be made slow one by one.

`--model-module slow_stages:make`, and seconds in SLOW_READ, SLOW_FEATURES, SLOW_TRANSFER, SLOW_TRAIN. The delays are
sleeps, so that they dominate on a loaded machine too: one a clip where recordings are decoded, one a batch elsewhere.
SLOW_SAVE is of a checkpoint. DECODE_READ and PYTHON_READ are seconds of a processor a clip, which all threads take side
by side, or by turns. HEAVY_FEATURES and HEAVY_TRAIN multiply so many matrices instead, in the feature graph and in the
model.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from voxyard.corpus import Example
from voxyard.corpus.recordings import Recordings
from voxyard.trainer import TrainConfig, checkpoint
from voxyard.trainer.model.features import FeatureExtractor
from voxyard.trainer.packing import Packed
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.step import TrainStep

Tensors = Mapping[str, tf.Tensor]


def _seconds(name: str) -> float:
    return float(os.environ.get(f"SLOW_{name}", "0"))


def slow(value: tf.Tensor, seconds: float) -> tf.Tensor:
    """The value, so many seconds later."""
    if not seconds:
        return value

    def wait(array: np.ndarray) -> np.ndarray:
        time.sleep(seconds)
        return array

    late = tf.numpy_function(wait, [value], value.dtype)
    late.set_shape(value.shape)
    return late


def heavy(value: tf.Tensor, times: int) -> tf.Tensor:
    """The value after much arithmetic that leaves it as it is."""
    matrix = tf.cast(tf.reshape(value, [-1])[:1], tf.float32) * 0 + tf.eye(384)
    matrix = tf.while_loop(lambda i, _: i < times, lambda i, m: (i + 1, m @ m), [0, matrix])[1]
    return value + tf.cast(matrix[0, 1], value.dtype)


class SlowStages:
    """Guesses the mean of a clip's mel spectrogram from its text."""

    def __init__(self, config: TrainConfig, speakers: tuple[str, ...]) -> None:
        self.sample_rate = config.model.sample_rate
        self._mels = config.model.mels
        self._extract = FeatureExtractor(config.model, config.data)
        self._heavy = int(os.environ.get("HEAVY_FEATURES", "0"))
        self._heavy_train = int(os.environ.get("HEAVY_TRAIN", "0"))

    def batch_spec(self, bucket: Bucket, batch_size: int) -> dict[str, tf.TensorSpec]:
        rows, frames = batch_size, bucket.frames
        return {
            "tokens": tf.TensorSpec((rows, bucket.tokens), tf.int32),
            "mel": tf.TensorSpec((rows, frames, self._mels), tf.float32),
            "pitch": tf.TensorSpec((rows, frames), tf.float32),
            "energy": tf.TensorSpec((rows, frames), tf.float32),
        }

    def features(self, raw: Tensors) -> dict[str, tf.Tensor]:
        pcm = slow(raw["pcm"], _seconds("FEATURES"))
        pcm = heavy(pcm, self._heavy) if self._heavy else pcm
        return self._extract({**raw, "pcm": pcm})

    def build(self) -> keras.Model:
        model = keras.Sequential([keras.layers.Embedding(512, 8), keras.layers.Dense(1)])
        model(tf.zeros((1, 4), tf.int32))
        return model

    def losses(self, model: keras.Model, batch: Tensors, training: bool) -> dict[str, tf.Tensor]:
        tokens = slow(batch["tokens"], _seconds("TRAIN") if training else 0)
        if training and self._heavy_train:
            tokens = heavy(tokens, self._heavy_train)
        guess = tf.reduce_mean(model(tokens, training=training), [1, 2])
        return {"total": tf.square(guess - tf.reduce_mean(batch["mel"], [1, 2]))}

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.AdamW(1e-3)

    def speak(self, model: keras.Model, text: str) -> np.ndarray:
        return np.zeros(self.sample_rate, np.float32)


def make(config: TrainConfig, speakers: tuple[str, ...]) -> SlowStages:
    """The factory that `--model-module` names."""
    return SlowStages(config, speakers)


def _compute(seconds: float, *, by_turns: bool) -> None:
    """So many seconds of this thread on a processor; zlib lets other threads go on meanwhile, Python does not."""
    begin, text = time.thread_time(), bytes(1 << 16)
    while time.thread_time() - begin < seconds:
        if by_turns:
            sum(range(1000))
        else:
            zlib.compress(text)


def _slow_reading() -> None:
    read = Recordings.read
    decoding, python = (float(os.environ.get(f"{name}_READ", "0")) for name in ("DECODE", "PYTHON"))

    def late(self: Recordings, i: int) -> Example:
        time.sleep(_seconds("READ"))
        _compute(decoding, by_turns=False)
        _compute(python, by_turns=True)
        return read(self, i)

    Recordings.read = late  # type: ignore[method-assign]


def _slow_disk() -> None:
    save = checkpoint.save

    def late(*arguments: Any, **more: Any) -> Path:
        time.sleep(_seconds("SAVE"))
        return save(*arguments, **more)

    checkpoint.save = late


def _slow_link() -> None:
    transfer = TrainStep.transfer

    def late(self: TrainStep, made: Packed) -> Packed:
        if self.devices.data != self.devices.model:
            time.sleep(_seconds("TRANSFER"))
        return transfer(self, made)

    TrainStep.transfer = late  # type: ignore[method-assign]


if _seconds("READ") or {"DECODE_READ", "PYTHON_READ"} & set(os.environ):
    _slow_reading()
if _seconds("SAVE"):
    _slow_disk()
if _seconds("TRANSFER"):
    _slow_link()
