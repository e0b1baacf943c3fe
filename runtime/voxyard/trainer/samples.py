"""Samples: a sentence synthesized at each checkpoint, as a WAV file to listen to during the run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from voxyard.host.durable_files import whole_file
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.model.griffin_lim import write_wav

if TYPE_CHECKING:
    from voxyard.trainer.trainable import TrainableModel

log = logging.getLogger("voxyard.trainer")

SAMPLES = "samples"


def write_sample(
    directory: Path, step: int, trainable: TrainableModel, model: Any, text: str, *, keep: int
) -> Path | None:
    """Speaks `text` into DIRECTORY/samples/step-N.wav and keeps the `keep` newest; None where that cannot be done.

    A run does not end because its model has nothing to say yet, or no memory is left to say it: why there is no sample
    is a warning in the log.
    """
    path = directory / SAMPLES / f"step-{step:08d}.wav"
    try:
        samples = trainable.speak(model, text)
        if not np.isfinite(samples).all():
            raise TrainerError("the model's sound is not finite")
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            write_wav(file, samples, trainable.sample_rate)
        for old in sorted(path.parent.glob("step-*.wav"))[:-keep]:
            old.unlink(missing_ok=True)
    except (TrainerError, NotImplementedError, OSError, MemoryError, tf.errors.OpError) as error:
        log.warning("No sample at step %d: %s", step, str(error) or type(error).__name__)
        return None
    return path
