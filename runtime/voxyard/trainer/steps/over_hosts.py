"""Updates over hosts: each computes the gradients of its part of a batch, and applies the mean of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from voxyard.trainer.copies import HOST
from voxyard.trainer.packing import BatchLayout, Packed
from voxyard.trainer.steps.compiled import Compiler
from voxyard.trainer.steps.gradients import UPDATE, Part, compiled_gradients, whole
from voxyard.trainer.steps.losses import STOP
from voxyard.trainer.steps.updates import Updater

if TYPE_CHECKING:
    from voxyard.trainer.hosts.collectives import Hosts


class UpdateOverHosts:
    """The updates of a step on this host, and its wish to stop, which goes with the losses."""

    def __init__(
        self,
        compiler: Compiler,
        updaters: Sequence[Updater],
        hosts: Hosts,
        *,
        accumulate: int,
        name: str = UPDATE,
        part: Part = whole,
        after: int = 0,
    ) -> None:
        """`part` is what the updates see of a batch, and of a turn; `after` so many other updates of the step."""
        self._updaters, self._hosts, self._after = updaters, hosts, after
        with tf.device(HOST):
            self._stop = tf.Variable(np.zeros(hosts.group.count, np.float32), trainable=False)
        self.gradients_of = compiled_gradients(compiler, updaters, accumulate, 1, name=name, part=part)
        self.apply: list[Callable[..., Any]] = [
            tf.function(lambda *given, to=one: to.apply(given), jit_compile=compiler.xla or None, autograph=False)
            for one in updaters
        ]
        self._update = compiler.of_layout(name, self._reduced, xla=False)

    def __call__(self, batch: Packed, *turn: tf.Tensor) -> Any:
        """Losses and rates, and who asked to stop, of a batch in a turn."""
        return self._update(batch, *turn)

    @property
    def more_names(self) -> tuple[str, ...]:
        """Names of what comes beside losses and rates: who asked to stop."""
        return tuple(f"{STOP}{place}" for place in range(self._hosts.group.count))

    def ask_to_stop(self) -> None:
        """The next step tells all hosts that this one was asked to stop."""
        group = self._hosts.group
        self._stop.assign(np.eye(group.count, dtype=np.float32)[group.index])

    def _reduced(self, layout: BatchLayout, words: Any, *turn: tf.Tensor) -> tf.Tensor:
        """The updates from this host's part of a batch: the mean over the hosts lies between gradients and update."""
        values, stop = [], self._stop
        for number, updater in enumerate(self._updaters):
            gradients, means = self.gradients_of[number][0](Packed(layout, words), *turn)
            shaped = [tf.reshape(each, one.shape) for each, one in zip(gradients, updater.variables, strict=True)]
            last = updater is self._updaters[-1] and not self._after
            asked = self._stop if last else self._stop[:0]  # once a step
            *reduced, mean = self._hosts.mean(
                [*shaped, tf.concat([updater.values(means), asked], 0)], of=self._after + number
            )
            value, stop = mean[: len(updater.names)], mean[len(updater.names) :]
            values.append(value)
            self.apply[number](*reduced)
        return tf.concat([*values, stop], 0)
