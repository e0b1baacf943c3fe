"""Samples: written whole, the newest kept, and never a reason for a run to end."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import logical_devices  # noqa: F401 (first: it sets TensorFlow up)
import numpy as np
import pytest
import tensorflow as tf
from toy import Loudness

from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.saving.saver import write_sample


class Voice(Loudness):
    """Says a tone, or fails."""

    def __init__(self, failure: Exception | None = None, samples: Any = None) -> None:
        super().__init__(TrainConfig(), ())
        self.failure = failure
        self.samples = np.zeros(100, np.float32) if samples is None else samples

    def speak(self, model: Any, text: str) -> Any:
        if self.failure is not None:
            raise self.failure
        return self.samples


def written(folder: Path, step: int, voice: Any) -> Path | None:
    return write_sample(folder, step, voice, None, "one", keep=2)


def test_the_newest_samples_are_kept(tmp_path):
    for step in (1, 2, 10):
        assert written(tmp_path, step, Voice()) is not None
    assert sorted(path.name for path in (tmp_path / "samples").iterdir()) == ["step-00000002.wav", "step-00000010.wav"]


def test_a_sample_that_the_disk_refuses_ends_no_run(tmp_path, caplog):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        assert written(tmp_path, 1, Voice()) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "No sample at step 1: [Errno 27] File too large" in caplog.text
    assert not list((tmp_path / "samples").iterdir())


@pytest.mark.parametrize(
    "voice",
    [
        Voice(TrainerError("nothing to say")),
        Voice(NotImplementedError("no voice")),
        Voice(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")),
        Voice(MemoryError()),
        Voice(samples=np.full(100, np.nan, np.float32)),
    ],
)
def test_a_model_that_cannot_speak_is_a_warning(tmp_path, voice, caplog):
    assert written(tmp_path, 3, voice) is None
    assert "No sample at step 3: " in caplog.text
    assert caplog.text.strip()[-1] != ":"


def test_a_disk_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "samples").touch()
    assert written(tmp_path, 3, Voice()) is None
    assert "No sample at step 3: " in caplog.text
