"""Single clips through a model: speech from a checkpoint, and the features of one recording."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.corpus import Coverage, Example
from voxyard.corpus.coverage import coverage_of
from voxyard.trainer import checkpoint as checkpoints
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.input import pad
from voxyard.trainer.load_trainable import load_trainable
from voxyard.trainer.model.griffin_lim import write_wav
from voxyard.trainer.sampler import Bucket
from voxyard.trainer.step import mismatches, named_weights

log = logging.getLogger("voxyard.trainer")

CLIP_FRAMES = 64  # lengths are rounded up to this, so that few shapes are traced


@dataclass(frozen=True)
class SynthesizedFile:
    """Synthesised speech, written to a file."""

    path: Path
    seconds: float
    sample_rate: int
    step: int
    mel: Path | None
    texts: Coverage | None = None  # dropped and folded characters of the text, where the model reports them


def synthesize(checkpoint: Path, text: str, out: Path, mel: Path | None) -> SynthesizedFile:
    """Speaks `text` into `out` (WAV, 16 bit), and the mel spectrogram (frames, mels) into `mel` (.npy) if asked.

    On the CPU: one sentence needs no GPU, and a running training keeps its memory. Raises TrainerError or CorpusError.
    """
    tf.config.set_visible_devices([], "GPU")
    found = checkpoints.open_any(checkpoint)
    config = TrainConfig.model_validate(found.meta["config"])
    trainable = load_trainable(config, tuple(found.meta["speakers"]))
    read = getattr(trainable, "read_text", None)
    coverage = None if read is None else coverage_of(read(text))
    for sentence in coverage.sentences() if coverage else ():
        log.warning("%s", sentence)
    model = trainable.build()
    variables = named_weights(model)
    weights = {name: value for name, value in found.state.items() if name.startswith("model/")}
    wrong = mismatches({name: tuple(variable.shape) for name, variable in variables.items()}, weights)
    if wrong:
        raise TrainerError(f"{found.path} does not fit its model:\n" + "\n".join(f"  {line}" for line in wrong[:20]))
    for name, variable in variables.items():
        variable.assign(weights[name])
    if mel is not None:
        predict = getattr(trainable, "mel", None)
        if predict is None:
            raise TrainerError("--mel: this model makes no mel spectrogram (its trainable has no `mel`)")
        np.save(mel, predict(model, text), allow_pickle=False)
    samples = trainable.speak(model, text)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_wav(out, samples, trainable.sample_rate)
    return SynthesizedFile(out, len(samples) / trainable.sample_rate, trainable.sample_rate, found.step, mel, coverage)


def features_of_clip(config: TrainConfig) -> Callable[[Example], Mapping[str, NDArray[np.float32]]]:
    """A function from an example to its mel (frames, mels), pitch and energy (frames,)."""
    features = tf.function(load_trainable(config, ()).features, autograph=False)
    hop = config.model.hop_length

    def of_clip(example: Example) -> Mapping[str, NDArray[np.float32]]:
        frames = len(example.pcm) // hop
        padded = -(-max(frames, 1) // CLIP_FRAMES) * CLIP_FRAMES
        arrays: dict[str, Any] = pad([example], Bucket(padded, max(1, len(example.tokens))), hop)
        # The text does not touch the features: one length of it, so that it makes no new shapes.
        arrays |= {"tokens": np.zeros((1, 1), np.int32), "token_length": np.ones(1, np.int32)}
        arrays["clip_seed"] = np.zeros((1, 2), np.int32)
        made = features({name: tf.constant(value) for name, value in arrays.items()})
        return {name: made[name].numpy()[0, :frames] for name in ("mel", "pitch", "energy")}

    return of_clip
