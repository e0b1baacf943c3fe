"""Text-to-speech training: recordings in, checkpoints and speech out. `voxyard.trainer.api` has the functions."""

from voxyard.trainer.config import DataConfig, ModelConfig, TelemetryConfig, TrainConfig, TrainingConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.trainable import SeveralUpdates, Trainable, Turns, Update

__all__ = [
    "DataConfig",
    "ModelConfig",
    "SeveralUpdates",
    "TelemetryConfig",
    "TrainConfig",
    "Trainable",
    "TrainerError",
    "TrainingConfig",
    "Turns",
    "Update",
]
