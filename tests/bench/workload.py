"""The balanced workload of the trainer's benchmark: our model, so small that its step takes as long as the features."""

from __future__ import annotations

from voxyard.trainer import TrainConfig
from voxyard.trainer.model.sizes import Shape
from voxyard.trainer.model.trainable_tts import TextToSpeech

BALANCED = Shape(
    width=48,
    heads=2,
    encoder_blocks=1,
    encoder_hidden=64,
    decoder_blocks=1,
    decoder_hidden=64,
    predictor_width=32,
    aligner_width=32,
    postnet_width=24,
)


def balanced(config: TrainConfig, speakers: tuple[str, ...]) -> TextToSpeech:
    """The factory that the benchmark names."""
    return TextToSpeech(config, speakers, shape=BALANCED)
