"""Updates on mirrored devices: each replica computes the gradients of its part of a batch, and applies the mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from voxyard.trainer.packing import BatchLayout, Packed
from voxyard.trainer.steps.compiled import Compiler
from voxyard.trainer.steps.gradients import UPDATE, compiled_gradients
from voxyard.trainer.steps.updates import Updater


class UpdateMirrored:
    """The updates of a step on all replicas; called in the scope of their strategy."""

    def __init__(self, compiler: Compiler, updaters: Sequence[Updater], *, replicas: int, accumulate: int) -> None:
        self._updaters = updaters
        # A function of its own for each replica: what it captures are that replica's variables.
        self._gradients_of = compiled_gradients(compiler, updaters, accumulate, replicas)
        self._update = compiler.of_layout(UPDATE, self._on_all, xla=False)

    def __call__(self, batch: Packed) -> Any:
        """Losses and rates of a batch that is distributed over the replicas."""
        return self._update(batch)

    def _on_all(self, layout: BatchLayout, words: Any) -> tf.Tensor:
        def of_replica(words: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            replica = int(tf.get_static_value(context.replica_id_in_sync_group))
            values = []
            for number, updater in enumerate(self._updaters):
                gradients, means = self._gradients_of[number][replica](Packed(layout, words))
                own = [*gradients, updater.values(means)]
                *reduced, mean = context.all_reduce(tf.distribute.ReduceOp.MEAN, own)
                updater.apply(reduced)
                values.append(mean)
            return tf.concat(values, 0)

        strategy = tf.distribute.get_strategy()
        values: tf.Tensor = strategy.experimental_local_results(strategy.run(of_replica, args=(words,)))[0]
        return values
