"""Steps of the toy trainable on logical CPU devices: alone, split, mirrored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from toy import Loudness

from voxyard.trainer import ModelConfig, TrainConfig, TrainingConfig
from voxyard.trainer.devices.tensorflow_setup import Devices
from voxyard.trainer.step import TrainStep

CPUS = ("/device:CPU:0", "/device:CPU:1")


def devices(strategy: Any) -> Devices:
    model = CPUS[1] if strategy == "split" else CPUS[0]
    return Devices(
        kind="cpu", strategy=strategy, data=CPUS[0], model=model,
        replicas=CPUS if strategy == "mirrored" else (model,), batch_size=8, description=(), limits={}, threads=None,
    )  # fmt: skip


def config(**training: Any) -> TrainConfig:
    chosen: dict[str, Any] = {"precision": "float32", "xla": False, "checkpoint_dir": Path("unused")} | training
    return TrainConfig(model=ModelConfig(), training=TrainingConfig(**chosen))


class Quiet(Loudness):
    """The toy without dropout, so that runs can be compared; SGD, so that they differ by no more than rounding."""

    def build(self) -> keras.Model:
        keras.utils.set_random_seed(0)
        model = super().build()
        model.drop.rate = 0.0
        return model

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(0.05)


def batch(rows: int, seed: int = 0, scale: float = 3000.0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {
        "pcm": (draw.normal(size=(rows, 2048)) * scale * draw.uniform(0.1, 1, (rows, 1))).astype(np.int16),
        "pcm_length": np.full(rows, 2048, np.int32),
        "tokens": draw.integers(1, 100, (rows, 12)).astype(np.int32),
    }


def run(strategy: str, batches: list[dict[str, np.ndarray]], trainable: Any = None, **training: Any) -> TrainStep:
    settings = config(**training)
    chosen = _quiet(settings) if trainable is None else trainable
    # A process has one mirrored run; in tests it has many of other shapes, and each needs group keys of its own.
    tf.distribute.MirroredStrategy._collective_key_base += 1000
    step = TrainStep(chosen, devices(strategy), settings, most_traces=1)
    for number, one in enumerate(batches):
        step.train(step.stage(one), number)
    return step


def _quiet(settings: TrainConfig) -> Any:
    return Quiet(settings, ("",))


def assert_same_weights(one: TrainStep, other: TrainStep, tolerance: float = 2e-6) -> None:
    for a, b in zip(one.model.trainable_variables, other.model.trainable_variables, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=tolerance, rtol=1e-5)
