"""Loads the trainable of a run: voxyard's own model, or the one that `--model-module` names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.trainable import SeveralUpdates, Trainable

Factory = Callable[[TrainConfig, tuple[str, ...]], Trainable | SeveralUpdates]


def load_trainable(config: TrainConfig, speakers: tuple[str, ...]) -> Trainable | SeveralUpdates:
    """The trainable of `model.module`, or voxyard's own model without one.

    Raises TrainerError where the module, the factory or a part of the protocol is missing.
    """
    asked = config.model.vocoder_size
    if asked != "auto" and (config.model.module is not None or config.model.networks == "acoustic"):
        raise TrainerError(
            f"--vocoder-size {asked} has no effect, this run does not train voxyard's own vocoder: add --networks "
            "acoustic,vocoder, or leave it out"
        )
    if config.model.module is None:
        if config.model.networks == "acoustic,vocoder":
            from voxyard.trainer.model.trainable_voice import SpeechWithVocoder

            return SpeechWithVocoder(config, speakers)
        from voxyard.trainer.model.trainable_tts import TextToSpeech

        return TextToSpeech(config, speakers)
    if config.model.networks != "acoustic":
        raise TrainerError(
            f"--networks {config.model.networks} is of voxyard's own model; --model-module {config.model.module} says "
            "itself what it trains: leave --networks out"
        )
    factory = _find_factory(config.model.module)
    made = factory(config, speakers)
    missing = [name for name in _PARTS if not hasattr(made, name)]
    if not (hasattr(made, "optimizer") or hasattr(made, "updates")):
        missing.append("optimizer")
    if missing:
        raise TrainerError(
            f"--model-module {config.model.module} made a {type(made).__name__} without {', '.join(missing)}; "
            f"a trainable has {', '.join(_PARTS)} and optimizer, or updates in its place "
            "(see voxyard.trainer.Trainable and SeveralUpdates)"
        )
    return made


_PARTS = ("sample_rate", "batch_spec", "features", "build", "losses", "speak")


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
