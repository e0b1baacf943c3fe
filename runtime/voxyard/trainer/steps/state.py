"""State of a step: the variables that the next one depends on, by the names that checkpoints use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from voxyard.trainer.errors import TrainerError
from voxyard.trainer.steps.average import EMA, MODEL, WeightAverage, has_average, weights_for_use, without_average
from voxyard.trainer.steps.updates import Updater

MOST_LINES = 20  # of a refusal


class StepState:
    """Variables of a model, of its optimizers and of its averages."""

    def __init__(
        self, model: keras.Model, updaters: Sequence[Updater], scope: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        """`scope` gives the scope in which variables are assigned."""
        self._model, self._updaters, self._scope = model, updaters, scope

    def read(self) -> dict[str, NDArray[Any]]:
        """Every variable that the next step depends on, by name."""
        return {name: np.asarray(variable.numpy()) for name, variable in self.named()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Takes back what `read` gave. Raises TrainerError where names or shapes do not fit this model.

        Averages begin with the weights where it has none, and are left out where this run has none.
        """
        named = self.named()
        if not self._averages or not has_average(state):
            state = without_average(state)
            named = [(name, variable) for name, variable in named if not name.startswith(EMA)]
        wrong = mismatches({name: tuple(variable.shape) for name, variable in named}, state)
        if wrong:
            lines = [*wrong[:MOST_LINES], *([f"and {len(wrong) - MOST_LINES} more"] if len(wrong) > MOST_LINES else [])]
            raise TrainerError(
                "the checkpoint is of another model; its weights, where they fit, are taken into another "
                "--checkpoint-dir with --init-from:\n" + "\n".join(f"  {line}" for line in lines)
            )
        self._assign(named, state)
        if not has_average(state):
            self._begin_averages()

    def restore_weights(self, state: Mapping[str, NDArray[Any]]) -> list[str]:
        """Takes the weights only, averaged ones where there are some, where they fit; a line for each that does not."""
        named = [(name, variable) for name, variable in self.named() if name.startswith(MODEL)]
        weights = weights_for_use(state)
        wrong = mismatches({name: tuple(variable.shape) for name, variable in named}, weights)
        fitting = [
            (name, variable)
            for name, variable in named
            if name in weights and weights[name].shape == tuple(variable.shape)
        ]
        self._assign(fitting, weights)
        self._begin_averages()
        return wrong

    def swap_averages(self) -> None:
        """Exchanges weights and averages."""
        with self._scope():
            for average in self._averages:
                average.swap()

    def named(self) -> list[tuple[str, keras.Variable]]:
        """The variables with their names: weights, optimizers, averages."""
        weights = named_weights(self._model)
        names = {id(variable): name for name, variable in weights.items()}
        averages = [
            named
            for one in self._updaters
            if one.average is not None
            for named in (
                (f"{EMA}updates/{one.name}".rstrip("/"), one.average.updates),
                *(
                    (EMA + names[id(variable)], average)
                    for variable, average in zip(one.average.variables, one.average.averages, strict=True)
                    if id(variable) in names
                ),
            )
        ]
        return [*weights.items(), *(named for one in self._updaters for named in one.state), *averages]

    def _assign(self, named: list[tuple[str, keras.Variable]], state: Mapping[str, NDArray[Any]]) -> None:
        with self._scope():
            for name, variable in named:
                variable.assign(state[name])

    @property
    def _averages(self) -> list[WeightAverage]:
        return [one.average for one in self._updaters if one.average is not None]

    def _begin_averages(self) -> None:
        with self._scope():
            for average in self._averages:
                average.begin()


def named_weights(model: keras.Model) -> dict[str, keras.Variable]:
    """A model's variables by the names that checkpoints use.

    Keras numbers what has no name of its own through the whole process (dropout_7); here it is numbered within its
    place, so that a model has the same names in every process. Raises TrainerError for names that are not unique.
    """
    places: dict[tuple[str, str], list[str]] = {}
    named: dict[str, keras.Variable] = {}
    for variable in model.variables:
        name = "model"
        for part in variable.path.split("/"):
            stem = part.rstrip("0123456789").rstrip("_") or part
            alike = places.setdefault((name, stem), [])
            if part not in alike:
                alike.append(part)
            number = alike.index(part)
            name += f"/{stem}_{number}" if number else f"/{stem}"
        if name in named:
            raise TrainerError(
                f"the model has two variables of the name {variable.path!r}: a checkpoint needs one each"
            )
        named[name] = variable
    return named


def mismatches(expected: Mapping[str, tuple[int, ...]], found: Mapping[str, NDArray[Any]]) -> list[str]:
    """Differences between the variables of a model and those of a checkpoint, a line each."""
    lines = [f"missing: {name} {shape}" for name, shape in expected.items() if name not in found]
    lines += [f"unknown: {name} {value.shape}" for name, value in found.items() if name not in expected]
    lines += [
        f"shape of {name}: {found[name].shape} in the checkpoint, {shape} in the model"
        for name, shape in expected.items()
        if name in found and found[name].shape != shape
    ]
    return lines
