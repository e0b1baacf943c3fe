"""Updates of a step as they run: variables, what is minimised in them, an optimizer with clipping and loss scaling."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Self

import keras
import tensorflow as tf

from voxyard.trainer.config import TrainingConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.steps.average import WeightAverage
from voxyard.trainer.trainable import Batch, SeveralUpdates, Trainable, Update

RATE = "learning_rate"  # beside the losses of an update
TOTAL = "total"

Means = dict[str, tf.Tensor]


class Updater:
    """One update of a step, on the devices of the run."""

    def __init__(self, update: Update, training: TrainingConfig, *, reduced: bool) -> None:
        """Makes the optimizer, and with --ema the average; in the scope of the variables.

        `reduced`: gradients come reduced over the replicas.
        """
        self.name, self.variables = update.name, list(update.variables)
        self._update, self.losses = update, update.losses_in("")
        self.optimizer = update.optimizer()
        self.optimizer.global_clipnorm = training.clip_norm
        if reduced:
            # Keras sums the gradients over the replicas, after it has clipped those of each and looked for overflows
            # in them. Here they are reduced before both, once.
            self.optimizer._all_reduce_sum_gradients = list  # noqa: SLF001 (Keras has no setting for it)
        if training.precision == "float16":
            self.optimizer = keras.optimizers.LossScaleOptimizer(self.optimizer, dynamic_growth_steps=2000)
        self.optimizer.build(self.variables)
        self.average = None if training.ema is None else WeightAverage(self.variables, training.ema)
        self.names: tuple[str, ...] = ()  # of the losses and the rate, as `values` gives them; known once traced

    def of_kind(self, kind: str) -> Self | None:
        """The same update, by its losses in turns of this kind; None where it takes no part in them."""
        same = copy.copy(self)
        same.losses = self._update.losses_in(kind)
        return None if same.losses is None else same

    @property
    def state(self) -> list[tuple[str, keras.Variable]]:
        """Variables of the optimizer by the names that checkpoints use."""
        place = f"optimizer/{self.name}/" if self.name else "optimizer/"
        return [
            (f"{place}{position:04d}_{variable.name.rpartition('_')[2]}", variable)
            for position, variable in enumerate(self.optimizer.variables)
        ]

    def gradients(self, batch: Batch) -> tuple[list[tf.Tensor], Means]:
        """Gradients of the mean of `total` over the clips, scaled in float16, and the mean of each loss; graph code."""
        if self.losses is None:
            raise TrainerError(f"update {self.name}: found losses by kinds of turns, which are for those in `beside`")
        with tf.GradientTape() as tape:
            means = {name: tf.reduce_mean(value) for name, value in self.losses(batch).items()}
            if TOTAL not in means:
                where = f"update {self.name}" if self.name else "losses"
                raise TrainerError(f"{where}: found {', '.join(means) or 'no loss'}, expected a loss {TOTAL!r}")
            objective = self.optimizer.scale_loss(means[TOTAL])
        found = tape.gradient(objective, [variable.value for variable in self.variables], unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in found], means

    def values(self, means: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The means and the rate of the coming update as one tensor, their names noted; graph code."""
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        prefix = f"{self.name}/" if self.name else ""
        self.names = tuple(f"{prefix}{name}" for name in (*means, RATE))
        return tf.stack([tf.cast(value, tf.float32) for value in (*means.values(), optimizer.learning_rate)])

    def apply(self, gradients: Sequence[tf.Tensor]) -> None:
        """Change the variables, and their average where one is kept; graph code."""
        self.optimizer.apply(list(gradients), self.variables)
        if self.average is not None:
            self.average.update()


def updaters_of(
    trainable: Trainable | SeveralUpdates,
    model: keras.Model,
    training: TrainingConfig,
    *,
    reduced: bool,
    beside: str | None = None,
) -> tuple[Updater, ...]:
    """The updates of a step in their order; in the scope of the model's variables.

    With the device `beside` the optimizers of the trainable's `beside` updates lie there.

    Raises TrainerError where the updates of a trainable leave a trainable variable out, or change one twice.
    """
    if isinstance(trainable, SeveralUpdates):
        updates = list(trainable.updates(model))
        _refuse_unfit(updates, model)
    else:
        updates = [
            Update(
                "",
                model.trainable_variables,
                lambda batch: trainable.losses(model, batch, training=True),
                trainable.optimizer,
            )
        ]
    made = []
    for one in updates:
        own = beside if one.name in getattr(trainable, "beside", ()) else None
        with nullcontext() if own is None else tf.device(own):
            made.append(Updater(one, training, reduced=reduced))
    return tuple(made)


def with_totals(values: dict[str, float]) -> dict[str, float]:
    """Losses and rates of a step; of several updates with the sum of their totals and the rate of the first one."""
    if TOTAL in values:
        return values
    total = sum(value for name, value in values.items() if name.endswith(f"/{TOTAL}"))
    rate = next(value for name, value in values.items() if name.endswith(f"/{RATE}"))
    return {TOTAL: total, RATE: rate, **values}


def _refuse_unfit(updates: Sequence[Update], model: keras.Model) -> None:
    names = [one.name for one in updates]
    if not updates or not all(name.isidentifier() for name in names) or len(set(names)) < len(names):
        raise TrainerError(f"updates: found the names {names}, expected one or more, each a word of its own")
    changed = Counter(id(variable) for one in updates for variable in one.variables)
    wrong = [f"{one.name}: it has no variables" for one in updates if not one.variables]
    wrong += [f"{each.path}: two updates change it" for each in model.trainable_variables if changed[id(each)] > 1]
    wrong += [
        f"{each.path}: no update changes it; where that is meant it has `trainable = False`"
        for each in model.trainable_variables
        if not changed[id(each)]
    ]
    if wrong:
        raise TrainerError("the updates do not fit the model:\n" + "\n".join(f"  {line}" for line in wrong[:20]))
