"""Contestants of the speech benchmark: each one is a function from a sentence to its sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from bench_sentences import Sentence
from numpy.typing import NDArray

from voxyard.corpus import Example
from voxyard.corpus.recordings import Recordings
from voxyard.trainer import checkpoint
from voxyard.trainer.api import prepare_features
from voxyard.trainer.config import ModelConfig, TrainConfig
from voxyard.trainer.devices.tensorflow_import import import_tensorflow
from voxyard.trainer.input import pad
from voxyard.trainer.model.griffin_lim import waveform
from voxyard.trainer.sampler import Bucket

Mel = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Sound:
    """Samples (n,) between −1 and 1, and their rate in Hz."""

    samples: NDArray[np.float32]
    rate: int


Voice = Callable[[Sentence], Sound]


class Clips:
    """Recordings of a corpus and their mels, as the trainer reads them."""

    def __init__(self, source: Recordings) -> None:
        import_tensorflow().config.set_visible_devices([], "GPU")  # before the first tensor
        self._source, self._config = source, TrainConfig()
        self._number = {clip: number for number, clip in enumerate(source.ids)}
        self._features = prepare_features(self._config)
        self.mel: Callable[[Sentence], Mel] = cache(self._mel)

    @property
    def model(self) -> ModelConfig:
        """Settings of the mels."""
        return self._config.model

    def example(self, sentence: Sentence) -> Example:
        """The sentence's clip."""
        return self._source.read(self._number[sentence.clip])

    def recording(self, sentence: Sentence) -> Sound:
        """The recording itself."""
        return Sound((self.example(sentence).pcm / 32768).astype(np.float32), self._source.sample_rate)

    def copy(self, sentence: Sentence) -> Sound:
        """Griffin-Lim's copy synthesis: the recording's mel made into sound again."""
        return griffin_lim(self.mel(sentence), self.model)

    def _mel(self, sentence: Sentence) -> Mel:
        mel: Mel = self._features(self.example(sentence))["mel"]
        return mel


def griffin_lim(mel: Mel, config: ModelConfig) -> Sound:
    """Sound of a mel."""
    return Sound(waveform(mel, config), config.sample_rate)


class MeanMel:
    """The control: the mean of all mels, stretched to the length of each clip; no word is in it."""

    def __init__(self, clips: Clips, sentences: Sequence[Sentence]) -> None:
        self._clips = clips
        self._mean = mean_mel([clips.mel(each) for each in sentences])

    def __call__(self, sentence: Sentence) -> Sound:
        """Its sound, as long as the sentence's clip."""
        return griffin_lim(stretched(self._mean, len(self._clips.mel(sentence))), self._clips.model)


def mean_mel(mels: Sequence[Mel]) -> Mel:
    """The mean (frames, mels) of mels that are stretched to the mean length."""
    frames = round(float(np.mean([len(mel) for mel in mels])))
    return np.asarray(np.mean([stretched(mel, frames) for mel in mels], 0))


def stretched(mel: Mel, frames: int) -> Mel:
    """A mel (n, mels) as one of so many frames, by linear interpolation from its first frame to its last."""
    at = np.linspace(0, len(mel) - 1, frames)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, len(mel) - 1)
    share = (at - low)[:, None]
    return np.asarray(mel[low] * (1 - share) + mel[high] * share)


class Trained:
    """A model of ours, as the newest checkpoint of a run has it."""

    def __init__(self, run: Path) -> None:
        """Raises SystemExit where the run has no checkpoint."""
        from voxyard.trainer.load_trainable import load_trainable
        from voxyard.trainer.synthesis import assign_weights

        found = checkpoint.newest_good(run)
        if found is None:
            raise SystemExit(f"{run} has no checkpoint: see the training's messages above")
        config = TrainConfig.model_validate(found.meta["config"])
        self.step, self._hop = found.step, config.model.hop_length
        self._trainable: Any = load_trainable(config, tuple(found.meta["speakers"]))
        self._model = self._trainable.build()
        assign_weights(self._model, found)

    def __call__(self, sentence: Sentence) -> Sound:
        """The sentence, read aloud by the model."""
        return Sound(self._trainable.speak(self._model, sentence.text), self._trainable.sample_rate)

    def with_vocoder(self, sentence: Sentence) -> Sound:
        """The sentence, read aloud by the model and its vocoder."""
        return Sound(self._trainable.speak(self._model, sentence.text, vocoder="neural"), self._trainable.sample_rate)

    def copy_of(self, clips: Clips) -> Voice:
        """Copy synthesis of the model's vocoder: the recording's mel made into sound again."""
        return lambda sentence: Sound(self._trainable.copy(self._model, clips.mel(sentence)), clips.model.sample_rate)

    def pictures(self, example: Example) -> dict[str, NDArray[np.uint8]]:
        """Of a clip: its mel above the predicted one, and the alignment."""
        import tensorflow as tf

        raw = pad([example], Bucket(len(example.pcm) // self._hop, len(example.tokens)), self._hop)
        raw["clip_seed"] = np.zeros((1, 2), np.int32)
        batch = self._trainable.features({name: tf.constant(value) for name, value in raw.items()})
        made: dict[str, NDArray[np.uint8]] = self._trainable.pictures(self._model, batch)
        return made
