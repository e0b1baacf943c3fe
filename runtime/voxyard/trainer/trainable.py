"""What the trainer asks of a model: the small protocol behind `--model-module`, and how a factory is found."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from voxyard.trainer.errors import TrainerError

if TYPE_CHECKING:
    import keras
    import numpy as np
    import tensorflow as tf
    from numpy.typing import NDArray

    from voxyard.trainer.config import TrainConfig
    from voxyard.trainer.schedule import Bucket

Batch = Mapping[str, "tf.Tensor"]


@runtime_checkable
class Trainable(Protocol):
    """A model with all that the trainer needs to know of it.

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
        """The model with all its variables; called where the variables shall live."""

    def losses(self, model: keras.Model, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Losses per clip, each float32 (B,); the mean of `total` is minimised.

        A clip's loss must depend neither on padding nor on the other clips of the batch.
        """

    def optimizer(self) -> keras.optimizers.Optimizer:
        """A fresh optimizer without clipping or loss scaling: the trainer adds both."""

    def speak(self, model: keras.Model, text: str) -> NDArray[np.float32]:
        """The model's voice: samples (n,) between −1 and 1 at `sample_rate`."""


Factory = Callable[["TrainConfig", tuple[str, ...]], Trainable]


def load_trainable(config: TrainConfig, speakers: tuple[str, ...]) -> Trainable:
    """Our own model, or the one of `model.module`.

    Raises TrainerError where the module, the factory or a part of the protocol is missing.
    """
    if config.model.module is None:
        from voxyard.trainer.tts import TextToSpeech

        return TextToSpeech(config, speakers)
    factory = _find_factory(config.model.module)
    made = factory(config, speakers)
    missing = [name for name in _PARTS if not hasattr(made, name)]
    if missing:
        raise TrainerError(
            f"--model-module {config.model.module} made a {type(made).__name__} without {', '.join(missing)}; "
            f"a trainable has {', '.join(_PARTS)} (see voxyard.trainer.Trainable)"
        )
    return made


_PARTS = ("sample_rate", "batch_spec", "features", "build", "losses", "optimizer", "speak")


def _find_factory(path: str) -> Factory:
    module_name, colon, name = path.partition(":")
    if not (module_name and colon and name):
        raise TrainerError(f"--model-module {path!r}: expected package.module:factory")
    try:
        module: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise TrainerError(
            f"--model-module {path}: no module named {error.name!r}; is it installed, or its folder on PYTHONPATH?"
        ) from error
    factory = getattr(module, name, None)
    if not callable(factory):
        raise TrainerError(f"--model-module {path}: {module_name} has no callable {name!r}")
    found: Factory = factory
    return found
