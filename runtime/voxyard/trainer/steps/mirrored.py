"""Updates on mirrored devices: each replica computes the gradients of its part of a batch, and applies the mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from voxyard.trainer.packing import BatchLayout, Packed
from voxyard.trainer.steps.compiled import Compiler
from voxyard.trainer.steps.gradients import UPDATE, Part, compiled_gradients, whole
from voxyard.trainer.steps.updates import Updater


class UpdateMirrored:
    """The updates of a step on all replicas; called in the scope of their strategy."""

    def __init__(
        self,
        compiler: Compiler,
        updaters: Sequence[Updater],
        *,
        replicas: int,
        accumulate: int,
        name: str = UPDATE,
        part: Part = whole,
    ) -> None:
        """`part` is what the updates see of a batch, and of a turn where they are made in turns."""
        self._updaters = updaters
        # A function of its own for each replica: what it captures are that replica's variables.
        self._gradients_of = compiled_gradients(compiler, updaters, accumulate, replicas, name=name, part=part)
        self._update = compiler.of_layout(name, self._on_all, xla=False)

    def __call__(self, batch: Packed, *turn: tf.Tensor) -> Any:
        """Losses and rates of a batch that is distributed over the replicas, in a turn."""
        return self._update(batch, *turn)

    def _on_all(self, layout: BatchLayout, words: Any, *turn: tf.Tensor) -> tf.Tensor:
        def of_replica(words: tf.Tensor, *turn: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            replica = int(tf.get_static_value(context.replica_id_in_sync_group))
            values = []
            for number, updater in enumerate(self._updaters):
                gradients, means = self._gradients_of[number][replica](Packed(layout, words), *turn)
                own = [*gradients, updater.values(means)]
                *reduced, mean = context.all_reduce(tf.distribute.ReduceOp.MEAN, own)
                updater.apply(reduced)
                values.append(mean)
            return tf.concat(values, 0)

        strategy = tf.distribute.get_strategy()
        values: tf.Tensor = strategy.experimental_local_results(strategy.run(of_replica, args=(words, *turn)))[0]
        return values
