"""The trainer: recordings in, checkpoints and speech out. Importing it loads neither TensorFlow nor Keras."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxyard.trainer.config import DataConfig, ModelConfig, TelemetryConfig, TrainConfig, TrainingConfig
from voxyard.trainer.devices.tensorflow_import import import_tensorflow
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.trainable import Trainable

if TYPE_CHECKING:
    from voxyard.corpus import Example
    from voxyard.trainer.report import Report
    from voxyard.trainer.synthesis import SynthesizedFile

__all__ = [
    "DataConfig",
    "ModelConfig",
    "TelemetryConfig",
    "TrainConfig",
    "Trainable",
    "TrainerError",
    "TrainingConfig",
    "describe",
    "prepare_features",
    "synthesize",
    "train",
]


def train(config: TrainConfig) -> Report:
    """Trains as `config` says and reports; one run a process, since TensorFlow's devices are set once.

    Raises TrainerError, CorpusError or HostError with what was found, what was expected and what to do.
    """
    from voxyard.trainer import checkpoint
    from voxyard.trainer.autotune.tuner import choose_strategy
    from voxyard.trainer.corpora import open_corpora
    from voxyard.trainer.devices.auto_settings import apply_auto_settings
    from voxyard.trainer.devices.tensorflow_setup import prepare

    config = choose_strategy(apply_auto_settings(config))
    corpora = open_corpora(config)
    devices = prepare(config)  # before anything else touches TensorFlow
    from voxyard.trainer.loop import Run

    with checkpoint.exclusive(config.training.checkpoint_dir):
        return Run(config, devices, corpora).execute()


def synthesize(checkpoint: Path, text: str, out: Path, mel: Path | None = None) -> SynthesizedFile:
    """Speaks `text` with the model of a checkpoint into the WAV file `out` (see voxyard.trainer.synthesis)."""
    import_tensorflow()
    from voxyard.trainer.synthesis import synthesize as speak

    return speak(checkpoint, text, out, mel)


def prepare_features(config: TrainConfig) -> Callable[[Example], Mapping[str, Any]]:
    """The features of one clip as the data device computes them, for `corpus prepare --features`."""
    import_tensorflow()
    from voxyard.trainer.synthesis import features_of_clip

    return features_of_clip(config)


def describe() -> str:
    """The table of model sizes: parameters and memory."""
    from voxyard.trainer.model.sizes import describe as table

    return table()
