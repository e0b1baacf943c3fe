"""Clips with a voice-like sound, and a model that is small enough to compute twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from voxyard.trainer.config import DataConfig, ModelConfig
from voxyard.trainer.model.features import FeatureExtractor
from voxyard.trainer.model.sizes import Shape
from voxyard.trainer.model.text_to_mel import TextToMel

HOP, RATE, SYMBOLS = 256, 22050, 40
SMALL = Shape(
    width=32, heads=2, encoder_blocks=2, encoder_hidden=48, decoder_blocks=1, decoder_hidden=32,
    predictor_width=16, aligner_width=16, postnet_width=16,
)  # fmt: skip

Raw = dict[str, tf.Tensor]


def raw_batch(lengths: Sequence[tuple[int, int]], frames: int, tokens: int, *, extra: int = 0, seed: int = 0) -> Raw:
    """Clips of the given (frames, tokens), padded to a bucket; clip i is the same whatever comes after it.

    `extra` samples, less than a frame, follow each clip's last whole frame where the bucket has room.
    """
    rows = len(lengths)
    pcm = np.zeros((rows, frames * HOP), np.int16)
    text = np.zeros((rows, tokens), np.int32)
    seeds = np.zeros((rows, 2), np.int32)
    for row, (length, words) in enumerate(lengths):
        draw = np.random.default_rng((seed, row))
        time = np.arange(length * HOP + extra) / RATE
        pitch = draw.uniform(90, 250)
        sound = sum(np.sin(2 * np.pi * pitch * k * time) / k for k in range(1, 8)) + 0.1 * draw.normal(size=len(time))
        samples = (sound * draw.uniform(1000, 6000)).astype(np.int16)[: frames * HOP]
        pcm[row, : len(samples)] = samples
        text[row, :words] = draw.integers(1, SYMBOLS, words)
        seeds[row] = draw.integers(2**31 - 1, size=2)
    return {
        "pcm": tf.constant(pcm),
        "pcm_length": tf.constant([min(length * HOP + extra, frames * HOP) for length, _ in lengths]),
        "tokens": tf.constant(text),
        "token_length": tf.constant([words for _, words in lengths]),
        "speaker": tf.constant(np.arange(rows, dtype=np.int32) % 2),
        "clip_seed": tf.constant(seeds),
    }


def features_of(raw: Raw, **data: Any) -> Raw:
    return FeatureExtractor(ModelConfig(), DataConfig(**data))(raw)


def small_model(**settings: Any) -> TextToMel:
    """A model with weights that do not depend on the test; its post-net does something."""
    keras.utils.set_random_seed(7)
    model = TextToMel(SMALL, symbols=SYMBOLS, speakers=2, mels=80, **settings)
    model.build()
    kernel = model.postnet.out.kernel
    kernel.assign(0.05 * np.random.default_rng(1).normal(size=kernel.shape))
    return model
