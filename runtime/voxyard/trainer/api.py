"""Python interface of the trainer: train, synthesize, open a run. Calls load TensorFlow, the import does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxyard.trainer import checkpoint as checkpoints
from voxyard.trainer.autotune.tuner import timed_strategy
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.corpora import Corpora, longest_of, open_corpora
from voxyard.trainer.devices.auto_settings import apply_auto_settings
from voxyard.trainer.devices.tensorflow_import import import_tensorflow
from voxyard.trainer.devices.tensorflow_setup import Devices, prepare_devices, prepare_one_device
from voxyard.trainer.hosts.addresses import for_this_host
from voxyard.trainer.out_of_memory import Doing, told_out_of_memory
from voxyard.trainer.reporting.mlflow_run import require_mlflow
from voxyard.trainer.text.front_end import with_shared_text_front_end, with_text_front_end

if TYPE_CHECKING:
    from voxyard.corpus import Example
    from voxyard.trainer.loop import Run
    from voxyard.trainer.report import RunReport
    from voxyard.trainer.synthesis import SynthesizedFile
    from voxyard.trainer.voice.export import ExportedVoice


def train(config: TrainConfig) -> RunReport:
    """Trains as `config` says and reports; one run a process, since TensorFlow's devices are set once.

    Raises TrainerError, CorpusError or HostError with what was found, what was expected and what to do.
    """
    require_mlflow()
    chosen = timed_strategy(with_shared_text_front_end(apply_auto_settings(config)))
    config = for_this_host(chosen.config)
    corpora = open_corpora(config)
    source = corpora.training
    devices = prepare_devices(config, corpus=source.fingerprint, longest=longest_of(config, source))
    with checkpoints.exclusive(config.training.checkpoint_dir):
        return open_run(config, devices=devices, corpora=corpora, trials=chosen.trials).execute()


def open_run(
    config: TrainConfig,
    *,
    devices: Devices | None = None,
    corpora: Corpora | None = None,
    trials: Mapping[str, Mapping[str, float | None]] | None = None,
) -> Run:
    """The run of `config` with its model built and its newest checkpoint restored, ready to be executed.

    Opens the corpora and sets TensorFlow's devices up, in this order, unless they are given. `strategy` auto and
    `auto` must be resolved; `trials` is what was timed for that. Raises TrainerError, CorpusError or HostError.
    """
    config = with_text_front_end(config)
    corpora = open_corpora(config) if corpora is None else corpora
    if devices is None:
        source = corpora.training  # before anything else touches TensorFlow
        devices = prepare_devices(config, corpus=source.fingerprint, longest=longest_of(config, source))
    from voxyard.trainer.loop import Run

    with told_out_of_memory(config, devices, lambda: Doing("while the model was made"), lambda: "Nothing was trained."):
        return Run(config, devices, corpora, trials=trials or {})


def synthesize(
    checkpoint: Path,
    text: str,
    out: Path,
    mel: Path | None = None,
    *,
    speaker: str | None = None,
    language: str | None = None,
    vocoder: str = "auto",
) -> SynthesizedFile:
    """Speaks `text` with the model of a checkpoint into the WAV file `out` (see voxyard.trainer.synthesis)."""
    import_tensorflow()
    from voxyard.trainer import synthesis

    return synthesis.synthesize(checkpoint, text, out, mel, speaker=speaker, language=language, vocoder=vocoder)


def export(checkpoint: Path, out: Path, *, vocoder: str = "auto", licence: str | None = None) -> ExportedVoice:
    """Writes the voice of a checkpoint into the directory `out` (see voxyard.trainer.voice.export)."""
    import_tensorflow()
    from voxyard.trainer.voice import export as exporting

    return exporting.export(checkpoint, out, vocoder=vocoder, licence=licence)


def prepare_features(config: TrainConfig) -> Callable[[Example], Mapping[str, Any]]:
    """The features of one clip as the data device computes them, for `corpus prepare --features`.

    Sets TensorFlow up for that device alone. Raises TrainerError where the host does not have it.
    """
    prepare_one_device(config)
    from voxyard.trainer.synthesis import features_of_clip

    return features_of_clip(config)


def describe() -> str:
    """The table of model sizes: parameters and memory."""
    from voxyard.trainer.model import sizes

    return sizes.describe()
