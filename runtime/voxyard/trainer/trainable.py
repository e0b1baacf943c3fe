"""Model protocol of the trainer, behind `--model-module`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import keras
    import numpy as np
    import tensorflow as tf
    from numpy.typing import NDArray

    from voxyard.trainer.sampler import Bucket

Batch = Mapping[str, "tf.Tensor"]
Losses = Callable[[Batch], Mapping[str, "tf.Tensor"]]


@runtime_checkable
class TrainableModel(Protocol):
    """A model with its data, without the way in which it is trained.

    A *raw batch* is what the input room makes: `pcm` int16 (B, samples), `pcm_length`, `tokens` int32 (B, L),
    `token_length`, `speaker` int32 (B,), `clip_seed` int32 (B, 2). A *feature batch* is whatever `features` makes
    of it; it must match `batch_spec`.
    """

    sample_rate: int

    def batch_spec(self, bucket: Bucket, batch_size: int) -> dict[str, tf.TensorSpec]:
        """Shapes and types of a feature batch of `batch_size` clips in `bucket`."""

    def features(self, raw: Batch) -> dict[str, tf.Tensor]:
        """Graph code that runs on the data device; static shapes."""

    def build(self) -> keras.Model:
        """The model with all its variables; called in the scope of the device that holds the variables."""

    def losses(self, model: keras.Model, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Losses per clip, each float32 (B,); the mean of `total` is minimised.

        A clip's loss must depend neither on padding nor on the other clips of the batch.
        """

    def speak(
        self, model: keras.Model, text: str, speaker: int = 0, language: str | None = None
    ) -> NDArray[np.float32]:
        """The model's voice: samples (n,) between −1 and 1 at `sample_rate`.

        `speaker` is a position in the speakers that the factory got, `language` another one than the model's own. Each
        is given only where a user asks for it: a model that has no choice leaves it out of its signature.
        """


@runtime_checkable
class Trainable(TrainableModel, Protocol):
    """A model with all that the trainer needs to know of it: one optimizer changes all of its trainable variables."""

    def optimizer(self) -> keras.optimizers.Optimizer:
        """A fresh optimizer without clipping or loss scaling: the trainer adds both."""


@runtime_checkable
class SeveralUpdates(TrainableModel, Protocol):
    """A model of several networks, each with an optimizer of its own, such as a generator and its discriminators.

    One that names updates in `beside`, a sequence of words, has them trained on the data device of a split, beside the
    others: they share no variable with these, and `build(beside=DEVICE)` creates their variables on that device.
    """

    def updates(self, model: keras.Model) -> Sequence[Update]:
        """The updates of a step, in their order; called once, in the scope of the model's variables.

        Each sees what those before it changed, on the same batch. Every trainable variable belongs to one of them.
        `losses` is what validation reports.
        """


@dataclass(frozen=True)
class Turns:
    """How often a step makes the updates in `beside`, and which of them: all of one kind are one compiled function."""

    kind: str
    """A word; an update whose losses are by kind takes part where it has losses of this one."""
    count: int


@runtime_checkable
class UpdatesInTurns(SeveralUpdates, Protocol):
    """A model whose updates in `beside` are made several times in a step, each time on another part of the batch."""

    @property
    def beside(self) -> Sequence[str]:
        """Names of these updates."""

    def turns(self, step: int) -> Turns:
        """The turns of step `step`, from 0; those of one kind are as many in every step."""

    def of_turn(self, batch: Batch, turn: tf.Tensor | int) -> Batch:
        """Graph code: what these updates see of the feature batch in turn `turn`, int64 from 0; static shapes."""


@dataclass(frozen=True)
class Update:
    """One update of a step."""

    name: str
    """A word, which stands before its losses in reports and before its optimizer's variables in checkpoints."""
    variables: Sequence[keras.Variable]
    losses: Losses | Mapping[str, Losses]
    """Graph code: losses per clip of a feature batch, in training, each float32 (B,); the mean of `total` is minimised
    in `variables` alone. Of an update in turns they may be by the kind of these."""
    optimizer: Callable[[], keras.optimizers.Optimizer]
    """Makes one without clipping or loss scaling: the trainer adds both."""

    def losses_in(self, kind: str) -> Losses | None:
        """Its losses in turns of this kind; None where it takes no part in them."""
        return self.losses.get(kind) if isinstance(self.losses, Mapping) else self.losses
