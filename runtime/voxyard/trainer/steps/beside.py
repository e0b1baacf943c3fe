"""Updates that a split may make on the data device, in turns: a compiled function for each kind of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from voxyard.trainer.packing import Packed
from voxyard.trainer.steps.updates import Updater
from voxyard.trainer.trainable import Turns

BESIDE = "update beside"  # the name of the functions, with the kind of the turns
ONCE = Turns("", 1)

Function = Callable[[Packed], Any]


def name_of(turns: Turns) -> str:
    """Name of the function that makes the updates in these turns."""
    return f"{BESIDE} {turns.kind}".rstrip()


class UpdatesBeside:
    """Calls the function of a kind of turns, made when a step first has it: what never takes part is never compiled."""

    def __init__(self, updaters: Sequence[Updater], made: Callable[[Sequence[Updater], Turns], Function]) -> None:
        """`made` gives the function of the updates that take part in these turns."""
        self._updaters, self._made = updaters, made
        self._of: dict[str, tuple[list[Updater], Function]] = {}

    def __call__(self, batch: Packed, turns: Turns) -> tuple[tuple[str, ...], tf.Tensor]:
        """The updates from a batch; names and values of the losses of the last turn."""
        if turns.kind not in self._of:
            part = [same for one in self._updaters if (same := one.of_kind(turns.kind)) is not None]
            self._of[turns.kind] = part, self._made(part, turns)
        updaters, function = self._of[turns.kind]
        values = function(batch)
        return tuple(name for one in updaters for name in one.names), values  # the names are known once it is traced


def one_by_one(update: Callable[..., Any], turns: Turns) -> Function:
    """The function that calls `update` for each turn, where it cannot make them all by itself."""
    numbers = [tf.constant(turn, tf.int64) for turn in range(turns.count)]
    return lambda batch: [update(batch, number) for number in numbers][-1]
