"""Average of the weights (--ema): an exponential moving average on the devices of the updates, beside the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import NDArray

MODEL, EMA = "model/", "ema/"  # before the names of a checkpoint: weights, and averages of them (ema/model/…)


class WeightAverage:
    """Average a of the variables w that an update changes: after update n, from 1, a ← a + (1 − d)(w − a).

    The decay d is min(decay, (1 + n) ÷ (10 + n)), as in `tf.train.ExponentialMovingAverage` with `num_updates`: the
    weights of the beginning are soon forgotten.
    """

    def __init__(self, variables: Sequence[keras.Variable], decay: float) -> None:
        """Begins with the variables as they are; in their scope, on their device."""
        self.variables, self._decay = list(variables), decay
        self.averages = [
            keras.Variable(each.numpy(), dtype=each.dtype, trainable=False, name="average") for each in self.variables
        ]
        self.updates = keras.Variable(
            0, dtype="int64", trainable=False, aggregation="only_first_replica", name="updates"
        )

    def update(self) -> None:
        """Takes the variables in as they are now; graph code, in the context of a replica."""
        count = tf.cast(self.updates.value, tf.float32) + 1.0
        rate = 1.0 - tf.minimum(self._decay, (1.0 + count) / (10.0 + count))
        self.updates.assign_add(1)
        tf.__internal__.distribute.interim.maybe_merge_call(self._on_all, tf.distribute.get_strategy(), rate)

    def begin(self) -> None:
        """Begins anew with the variables as they are."""
        for variable, average in zip(self.variables, self.averages, strict=True):
            with tf.device(variable.value.device):
                average.assign(variable.value)
        self.updates.assign(0)

    def swap(self) -> None:
        """Exchanges the variables and their averages, bit for bit; TensorFlow exchanges buffers and copies nothing."""
        for variable, average in zip(self.variables, self.averages, strict=True):
            with tf.device(variable.value.device):
                weight = tf.convert_to_tensor(variable.value)
                variable.assign(average.value)
                average.assign(weight)

    def _on_all(self, strategy: tf.distribute.Strategy, rate: tf.Tensor) -> None:
        """The update in the context across replicas."""

        def nearer(average: Any, weight: Any, rate: tf.Tensor) -> None:
            average.assign_sub(tf.cast(rate, average.dtype) * (average - weight))

        for variable, average in zip(self.variables, self.averages, strict=True):
            strategy.extended.update(average.value, nearer, args=(variable.value, rate), group=False)


def has_average(state: Mapping[str, NDArray[Any]]) -> bool:
    """True where a checkpoint has averaged weights."""
    return any(name.startswith(EMA) for name in state)


def without_average(state: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """A checkpoint's state as that of a run without --ema."""
    return {name: value for name, value in state.items() if not name.startswith(EMA)}


def weights_for_use(state: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Weights of a checkpoint for all but its own training, by name: the averaged ones where it has them."""
    return {name: state.get(EMA + name, value) for name, value in state.items() if name.startswith(MODEL)}
