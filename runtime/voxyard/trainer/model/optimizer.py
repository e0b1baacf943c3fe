"""The optimizer of our model: AdamW with one fused operation a variable, and a learning rate that never ends."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

UNDECAYED = ("bias", "gamma", "beta")  # names of biases and normalisations


class FusedAdamW(keras.optimizers.Adam):
    """AdamW (Loshchilov & Hutter 2019), computed by TensorFlow's fused kernel instead of a dozen operations.

    The numbers are those of `keras.optimizers.AdamW` to rounding; a step touches less memory and is traced faster.
    """

    def __init__(self, learning_rate: Any, *, weight_decay: float, name: str = "adamw", **settings: Any) -> None:
        super().__init__(learning_rate, name=name, **settings)
        self.decay = weight_decay
        self._decayed: list[bool] = []  # by place

    def build(self, variables: list[keras.Variable]) -> None:
        """Keras' hook: makes the state of the variables."""
        super().build(variables)
        # By Keras' names: those of TensorFlow end with the number of the replica on all mirrored devices but the first.
        self._decayed = [self.decay > 0 and not any(name in each.name for name in UNDECAYED) for each in variables]

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        """Keras' hook: updates one variable (TensorFlow's own) by its gradient."""
        rate, step = ops.cast(learning_rate, variable.dtype), ops.cast(self.iterations + 1, variable.dtype)
        place = self._get_variable_index(variable)
        if self._decayed[place]:
            variable.assign(variable * (1 - self.decay * rate))
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[place].value.handle,
            v=self._velocities[place].value.handle,
            beta1_power=ops.power(ops.cast(self.beta_1, variable.dtype), step),
            beta2_power=ops.power(ops.cast(self.beta_2, variable.dtype), step),
            lr=rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=ops.cast(gradient, variable.dtype),
        )


class WarmUpThenRoot(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises linearly to its peak, stays there, and falls with 1/√step; finite and positive.

    It falls from step `hold_steps` on; where that is 0, from the end of the warm-up.
    """

    def __init__(self, peak: float, warmup_steps: int, hold_steps: int = 0) -> None:
        self.peak, self.warmup_steps, self.hold_steps = peak, warmup_steps, hold_steps

    def __call__(self, step: Any) -> Any:
        """The rate of update `step`, from 0."""
        done = ops.cast(step, "float32") + 1.0
        falling = ops.sqrt(max(self.warmup_steps, self.hold_steps) / done)
        return self.peak * ops.minimum(ops.minimum(done / self.warmup_steps, falling), 1.0)

    def get_config(self) -> dict[str, float]:
        """Keras' hook: the arguments of the schedule."""
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "hold_steps": self.hold_steps}
