"""Gradients of the updates of a step, over micro-batches, and the updates in turn on one device; graph code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from voxyard.trainer.steps.compiled import Compiler
from voxyard.trainer.steps.updates import Means, Updater
from voxyard.trainer.trainable import Batch

UPDATE = "update"  # the name of the functions that compute gradients

GradientsOf = list[list[Callable[..., Any]]]  # by update and replica
Part = Callable[..., Batch]  # of a batch and a turn


def whole(batch: Batch, _turn: tf.Tensor | None = None) -> Batch:
    """The part that is all of it."""
    return batch


def accumulated(updater: Updater, batch: Batch, count: int) -> tuple[list[tf.Tensor], Means]:
    """Mean gradients and losses over `count` micro-batches (rows 0…B/N − 1 first), accumulated inside the graph."""
    if count == 1:
        return updater.gradients(batch)
    parts = {
        name: tf.reshape(value, [count, value.shape[0] // count, *value.shape[1:]]) for name, value in batch.items()
    }
    first_gradients, first_means = updater.gradients({name: part[0] for name, part in parts.items()})
    names = list(first_means)

    def add(i: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
        gradients, means = updater.gradients({name: part[i] for name, part in parts.items()})
        more = [*gradients, *(means[name] for name in names)]
        return [i + 1, *(total + value for total, value in zip(sums, more, strict=True))]

    start = [tf.constant(1), *first_gradients, *(first_means[name] for name in names)]
    _, *sums = tf.while_loop(lambda *_: True, add, start, parallel_iterations=1, maximum_iterations=count - 1)
    averaged = [total / count for total in sums]
    gradients = len(updater.variables)
    return averaged[:gradients], dict(zip(names, averaged[gradients:], strict=True))


def in_turn(updaters: Sequence[Updater], batch: Batch, count: int) -> tf.Tensor:
    """The updates after each other from one batch; their losses and rates."""
    values = []
    for updater in updaters:
        gradients, means = accumulated(updater, batch, count)
        values.append(updater.values(means))
        updater.apply(gradients)
    return tf.concat(values, 0)


def in_turns(updaters: Sequence[Updater], batch: Batch, count: int, turns: int, part: Part) -> tf.Tensor:
    """The updates after each other in each turn, from its part of the batch; losses and rates of the last turn."""

    def once(turn: tf.Tensor) -> tf.Tensor:
        return in_turn(updaters, part(batch, turn), count)

    if turns == 1:
        return once(tf.constant(0, tf.int64))
    one = tf.function(once, autograph=False)  # traced once, which tells how many values a turn has
    values = one.get_concrete_function(tf.TensorSpec((), tf.int64)).structured_outputs

    def more(turn: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return turn + 1, one(turn)

    start = (tf.constant(0, tf.int64), tf.zeros(values.shape))
    # XLA takes the number of turns from maximum_iterations alone. Each turn trains on what the one before it has left.
    return tf.while_loop(lambda *_: True, more, start, parallel_iterations=1, maximum_iterations=turns)[1]


def compiled_gradients(
    compiler: Compiler,
    updaters: Sequence[Updater],
    count: int,
    replicas: int,
    *,
    name: str = UPDATE,
    part: Part = whole,
) -> GradientsOf:
    """Functions that give the gradients of each update from its part of the batch, one for each replica."""
    alike = replicas * len(updaters)

    def of(updater: Updater) -> Callable[..., Any]:
        return compiler.of_batch(
            name, lambda batch, *turn: accumulated(updater, part(batch, *turn), count), alike=alike
        )

    return [[of(updater) for _ in range(replicas)] for updater in updaters]
