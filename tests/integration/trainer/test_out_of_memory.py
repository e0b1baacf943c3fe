"""Running out of memory, or of a corpus: a tensor that no machine has room for, and devices that fail when told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from async_device import AsyncStep, Open
from runs import environment

from voxyard.corpus import CorpusError
from voxyard.trainer import TrainConfig, checkpoint
from voxyard.trainer.autotune import trial_process
from voxyard.trainer.autotune.candidates import trial
from voxyard.trainer.autotune.trial_process import FailedTrialError
from voxyard.trainer.out_of_memory import OutOfMemoryError

OOM = tf.errors.ResourceExhaustedError(
    None, None, "OOM when allocating tensor with shape[64,1024] and type float on /job:localhost/device:CPU:0 by cpu"
)


@pytest.mark.slow
def test_a_model_that_fits_nowhere_ends_the_training_in_words(toy, voxyard) -> None:
    done = voxyard(*toy, "--model-module", "toy:make_hungry", "--max-steps", 2, "--grad-accum", 2)
    assert done.returncode == 71, done.stderr
    said = done.stderr[done.stderr.index("out of memory") :]
    assert said.startswith("out of memory in step 1 on the model device (/device:CPU:1): asked for ")
    assert "4 × 67108864 × 4194304 float" in said
    assert "--batch-size 2 --grad-accum 4" in said
    assert said.index("--batch-size") < said.index("--prefetch-buffer-size") < said.index("--buffer-size")
    assert "bucket of" in said
    assert "No checkpoint was made." in said
    assert "Traceback" not in done.stderr


class WithoutMemoryForData(AsyncStep):
    """Devices that have no memory for the features of the ninth batch."""

    staged = 0

    def stage(self, arrays: Any) -> Any:
        self.staged += 1
        if self.staged == 9:
            raise OOM
        return super().stage(arrays)


class WithoutMemoryForUpdates(AsyncStep):
    """Devices that have no memory for the updates of the fifth step."""

    def train(self, staged: Any, step: int = 0) -> Any:
        if step == 4:
            raise OOM
        return super().train(staged, step)


class WithoutCorpus(AsyncStep):
    """Devices that a corpus does not reach any more from the batch `last` on."""

    staged = last = 0

    def stage(self, arrays: Any) -> Any:
        self.staged += 1
        if self.staged >= self.last:
            raise CorpusError("more clips cannot be read than --max-bad-share allows")
        return super().stage(arrays)


class WithoutCorpusLater(WithoutCorpus):
    """The same after some steps."""

    last = 9


@pytest.mark.parametrize(("step", "code"), [(WithoutCorpus, 2), (WithoutCorpusLater, 1)])
def test_a_corpus_that_goes_away_fails_a_run_that_had_begun_and_keeps_its_steps(
    opened: Open, step: type[AsyncStep], code: int
) -> None:
    run = opened(step=step, max_steps=20)
    with pytest.raises(CorpusError, match="more clips cannot be read") as raised:
        run.execute()
    newest = checkpoint.newest(run.config.training.checkpoint_dir)
    assert (raised.value.exit_code, newest is None) == (code, code == 2)
    assert (f"The newest checkpoint is {newest}: the run goes on from there." in str(raised.value)) == (code == 1)


def test_a_state_of_a_whole_step_is_saved(opened: Open) -> None:
    """Between two updates the weights are those of a step: the run goes on from there."""
    run = opened(step=WithoutMemoryForData, max_steps=20)
    with pytest.raises(OutOfMemoryError) as raised:
        run.execute()
    newest = checkpoint.newest(run.config.training.checkpoint_dir)
    assert newest is not None
    step = checkpoint.load(newest).step
    assert 0 < step < 9
    assert f"after step {step}, beside the updates" in raised.value.what
    assert "on the data device (/device:CPU:0): asked for 0.2 MiB: 64 × 1024 float" in raised.value.what
    assert f"The newest checkpoint is {newest}: the run goes on from there." in str(raised.value)


def test_devices_that_count_no_memory_are_left_out(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow counts that of a CPU with oneDNN, which it uses on some CPUs and not on others."""

    def counts_none(_device: str) -> None:
        raise ValueError("Allocator stats not available for device 'CPU:0'")

    run = opened(max_steps=1)
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", counts_none)
    assert run.step.memory_taken() == {}
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda device: {"peak": len(device)})
    assert set(run.step.memory_taken().values()) == {5.0}


def test_weights_in_the_middle_of_an_update_are_not_saved(opened: Open) -> None:
    run = opened(step=WithoutMemoryForUpdates, max_steps=20, every=3)
    with pytest.raises(OutOfMemoryError, match="out of memory in step 5") as raised:
        run.execute()
    newest = checkpoint.newest(run.config.training.checkpoint_dir)
    assert newest is not None
    assert checkpoint.load(newest).step == 3
    assert str(newest) in str(raised.value)


@pytest.mark.slow
def test_a_trial_without_memory_does_not_fit(tones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--strategy auto leaves the way out and goes on with the others."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    config = TrainConfig.model_validate(
        {
            "model": {"module": "toy:make_hungry"},
            "data": {"train_data": str(tones), "validation_share": 0},
            "training": {"device": "cpu", "strategy": "single", "batch_size": 4},
        }
    )
    request = {"config": trial(config, str(tones.parent / "hungry"), 5).model_dump(mode="json")}
    with pytest.raises(FailedTrialError, match=r"^it does not fit: out of memory in step 1 on the model device"):
        trial_process.ask(request, 120)
