"""Checkpoints of a run: the best is remembered, nothing broken is saved."""

from __future__ import annotations

import math
import os
import re
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from eventually import PATIENCE
from safetensors.numpy import load_file

from voxyard.host import durable_files
from voxyard.host.nvml import Gpu
from voxyard.host.out_of_work import VARIABLE, Mark, OutOfWork
from voxyard.telemetry.gpu_watch import GpuWatch
from voxyard.telemetry.workloads import TrainMetrics
from voxyard.trainer import checkpoint
from voxyard.trainer.api import open_run
from voxyard.trainer.config import DataConfig, ModelConfig, TelemetryConfig, TrainConfig, TrainingConfig
from voxyard.trainer.devices.tensorflow_setup import Devices
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.judging.run_validation import RunValidation
from voxyard.trainer.loop import Run
from voxyard.trainer.saving.run_checkpoints import RunCheckpoints
from voxyard.trainer.saving.run_state import RunState
from voxyard.trainer.saving.saver import RunSaver
from voxyard.trainer.step import TrainStep


def saver(directory: Path, loss_at: Callable[[int], float]) -> RunSaver:
    """Of a step of one variable, by these validation losses."""
    config = TrainConfig(training=TrainingConfig(checkpoint_dir=directory))
    step: Any = SimpleNamespace(state=lambda: {"x": np.zeros(1, np.float32)})
    metrics: Any = SimpleNamespace(during=lambda _phase: nullcontext())
    written = RunCheckpoints(directory, keep=3)
    return RunSaver(config, step, run_state(config), written, metrics, loss_at=loss_at, is_first=True)


def run_state(config: TrainConfig) -> RunState:
    """Of a corpus of one speaker."""
    corpora: Any = SimpleNamespace(speakers=("a",), training=SimpleNamespace(fingerprint="f"))
    return RunState(config, corpora, 8)


def test_a_checkpoint_is_not_judged_by_the_validation_of_an_earlier_step(tmp_path: Path) -> None:
    """--validate-every 15 --checkpoint-every 10."""
    validation = RunValidation(TrainConfig(), step_of_nothing(), None, TrainMetrics("run"))
    held_out: Any = SimpleNamespace(run=lambda *_, **__: {"total": 1.0})
    validation.held_out = held_out
    validation.run(15, Mock())
    assert (validation.loss_at(15), validation.loss_at(20)) == (1.0, math.inf)
    saver(tmp_path, validation.loss_at).save(20, must=True)
    assert not (tmp_path / checkpoint.BEST).exists()
    assert checkpoint.load(tmp_path / "step-00000020").meta["best"] is None


def step_of_nothing() -> Any:
    return SimpleNamespace(averaged=nullcontext)


def test_weights_that_are_worse_than_those_being_written_are_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of both is better is known when the first one is on the disk."""
    run, written = saver(tmp_path, {3: 1.0, 6: 2.0}.__getitem__), threading.Event()
    save = checkpoint.save

    def held(*arguments: Any, **more: Any) -> Path:
        assert written.wait(PATIENCE)
        return save(*arguments, **more)

    monkeypatch.setattr(checkpoint, "save", held)
    run.save(3)
    threading.Timer(0.1, written.set).start()
    assert run.checkpoints.best == math.inf
    assert not run.is_best(6)
    assert run.checkpoints.best == 1.0


def test_a_run_from_before_the_mels_edges_were_reflected_says_so_when_it_is_resumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on, but does not end where it would have ended."""
    state = run_state(TrainConfig(training=TrainingConfig(checkpoint_dir=tmp_path)))
    meta = {name: value for name, value in state.meta().items() if name != "mel_edges"}
    checkpoint.save(tmp_path, 1, {"x": np.zeros(1, np.float32)}, meta, keep=3)
    assert state.restore(SimpleNamespace(restore=lambda _state: None))[0] == 1  # type: ignore[arg-type]
    assert caplog.messages == ["The resumed run differs from the run before: mel_edges was None and is now reflect"]


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (
            {"text_units": "characters"},
            {"text_units": "phonemes"},
            r"was characters and is now phonemes; give --text-units characters",
        ),
        ({"mels": 40}, {}, r"mels was 40 and is now 80; give --mels 40"),
        (
            {"text_units": "phonemes", "language": "de"},
            {"text_units": "phonemes", "language": "en-us"},
            r"language was de and is now en-us; give --language de, or start anew with --no-resume",
        ),
        (
            {"language": "en-us", "read_words": False},
            {"language": "en-us", "read_words": True},
            r"read_words was False and is now True; give --no-read-words, or start anew",
        ),
    ],
)
def test_a_resumed_run_with_another_front_end_is_refused_before_its_weights_are_taken(
    tmp_path: Path, was: dict[str, Any], now: dict[str, Any], said: str
) -> None:
    """Weights that learned letters would read phonemes as nonsense, and learn it."""

    def state(model: dict[str, Any]) -> RunState:
        return run_state(TrainConfig(model=ModelConfig(**model), training=TrainingConfig(checkpoint_dir=tmp_path)))

    checkpoint.save(tmp_path, 1, {"x": np.zeros(1, np.float32)}, state(was).meta(), keep=3)
    restored: list[object] = []
    into: Any = SimpleNamespace(restore=restored.append)
    with pytest.raises(TrainerError, match=said) as refused:
        state(now).restore(into)
    assert refused.value.exit_code == 2
    assert restored == []
    assert state(was).restore(into)[0] == 1


CPU = "/device:CPU:0"
DEVICES = Devices(
    kind="cpu", strategy="single", data=CPU, model=CPU, replicas=(CPU,), batch_size=4, description=("one",), limits={},
    threads=None,
)  # fmt: skip


def opened(tones: Path, directory: Path, cards: Any = (), **training: Any) -> Run:
    """A run of the toy model in this process."""
    config = TrainConfig(
        model=ModelConfig(module="toy:make"),
        data=DataConfig(train_data=tones, buckets=1, num_workers=1, model_start_delay=0, validation_share=0),
        training=TrainingConfig(device="cpu", batch_size=4, checkpoint_dir=directory, **training),
        telemetry=TelemetryConfig(tensorboard=False, sample_text=""),
    )
    return open_run(config, devices=replace(DEVICES, cards=cards))


def assert_same_state(one: Path, other: Path) -> None:
    first, second = checkpoint.load(one).state, checkpoint.load(other).state
    assert first.keys() == second.keys()
    assert [name for name in first if first[name].tobytes() != second[name].tobytes()] == []


def test_training_goes_on_while_a_checkpoint_is_written(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of its own step, bit for bit, however far the run is when it reaches the disk."""
    opened(tones, tmp_path / "short", max_steps=4).execute()
    later, save, train = threading.Event(), checkpoint.save, TrainStep.train
    made: list[int] = []
    were_later: list[bool] = []

    def held(directory: Path, step: int, *arguments: Any, **more: Any) -> Path:
        were_later.append(later.wait(PATIENCE) if step == 4 else True)
        return save(directory, step, *arguments, **more)

    def counted(self: TrainStep, staged: Any, step: int = 0) -> Any:
        made.append(1)
        if len(made) == 7:
            later.set()
        return train(self, staged, step)

    monkeypatch.setattr(checkpoint, "save", held)
    monkeypatch.setattr(TrainStep, "train", counted)
    report = opened(tones, tmp_path / "run", max_steps=8, checkpoint_every=4).execute()
    assert were_later == [True, True]
    assert_same_state(tmp_path / "run/step-00000004", tmp_path / "short/step-00000004")
    assert (report.checkpoints_written, report.last_step) == (2, 8)
    assert report.checkpoint_write_seconds is not None


def test_a_signal_ends_the_run_when_the_checkpoints_are_on_the_disk(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM while one is written; the writer is held until the run waits for it."""
    waits, save, settle = threading.Event(), checkpoint.save, RunCheckpoints.settle

    def held(directory: Path, step: int, *arguments: Any, **more: Any) -> Path:
        if step == 4:
            os.kill(os.getpid(), signal.SIGTERM)
            assert waits.wait(PATIENCE)
        return save(directory, step, *arguments, **more)

    def waiting(self: RunCheckpoints, **more: Any) -> None:
        if self.writing:
            waits.set()
        settle(self, **more)

    monkeypatch.setattr(checkpoint, "save", held)
    monkeypatch.setattr(RunCheckpoints, "settle", waiting)
    report = opened(tones, tmp_path / "run", max_steps=100_000, checkpoint_every=4).execute()
    assert report.ended.startswith("SIGTERM")
    assert report.checkpoint == str(tmp_path / f"run/step-{report.last_step:08d}")
    for step in {4, report.last_step}:
        assert checkpoint.load(tmp_path / f"run/step-{step:08d}").step == step


def test_a_gpu_that_goes_out_of_work_ends_the_run_with_a_checkpoint(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's device is a processor that is taken for this GPU; it is marked after the third step."""
    file, gpu = OutOfWork(tmp_path / "out_of_work.json"), Gpu(0, "GPU-0", "H100", "", 81920, 80000, (9, 0))
    monkeypatch.setenv(VARIABLE, str(file.path))
    monkeypatch.setattr("voxyard.trainer.loop.GpuWatch", lambda _cards, **more: GpuWatch((), **more))
    train = TrainStep.train

    def marked(self: TrainStep, staged: Any, step: int = 0) -> Any:
        if step == 3:
            file.put(Mark("GPU-0", 0, "Xid 48: uncorrectable memory error", "reset the GPU"))
        return train(self, staged, step)

    monkeypatch.setattr(TrainStep, "train", marked)
    report = opened(tones, tmp_path / "run", cards=(("model", gpu),), max_steps=100_000).execute()
    assert report.ended.startswith("GPU 0 (GPU-0) is out of work: Xid 48")
    assert report.ended.endswith("saved and stopped")
    assert report.checkpoint == str(tmp_path / f"run/step-{report.last_step:08d}")
    assert checkpoint.load(tmp_path / f"run/step-{report.last_step:08d}").step == report.last_step < 100


def test_a_checkpoint_that_fails_in_mid_run_is_an_error_in_the_log_and_the_last_one_ends_the_run(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What the writer met is in the run's log and in its exit code."""

    def refuse(_: Path) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(durable_files, "sync", refuse)
    run = opened(tones, tmp_path / "run", max_steps=8, checkpoint_every=3)
    with pytest.raises(checkpoint.CheckpointError, match="step-00000008 was not saved, Permission denied") as raised:
        run.execute()
    assert raised.value.exit_code == 1
    assert [each for each in caplog.messages if "was not saved" in each] == [
        f"checkpoint {tmp_path / 'run' / f'step-0000000{step}'} was not saved, Permission denied; "
        "there is no earlier one"
        for step in (3, 6)
    ]


def test_the_best_weights_are_saved_when_they_were_validated(toy: list[object], tmp_path: Path, voxyard: Any) -> None:
    """Whatever --checkpoint-every is."""
    often = ["--validation-share", 0.2, "--validate-every", 3, "--checkpoint-every", 4, "--keep-checkpoints", 1]
    done = voxyard(*toy, *often, "--max-steps", 11, "--learning-rate", 0.01)
    assert done.returncode == 0, done.stderr[-2000:]
    validated = re.findall(r"Validation at step (\d+): total ([\d.]+)", done.stderr)
    assert [int(step) for step, _ in validated] == [3, 6, 9, 11]
    losses = [float(loss) for _, loss in validated]
    better = [int(step) for i, (step, _) in enumerate(validated) if losses[i] == min(losses[: i + 1])]
    assert [int(step) for step in re.findall(r"step-(\d+) \(best so far\)", done.stderr)] == better
    assert len(better) > 1
    meta = checkpoint.open_any(tmp_path / "run").meta
    assert (meta["step"], meta["best"]) == (better[-1], pytest.approx(min(losses), rel=1e-3))


def test_a_state_that_is_not_finite_is_never_saved(toy: list[object], tmp_path: Path, voxyard: Any) -> None:
    """The losses are looked at before each checkpoint, however rarely they are logged."""
    done = voxyard(*toy, "--learning-rate", 1e30, "--log-every", 1000, "--checkpoint-every", 2, "--max-steps", 12)
    assert done.returncode == 1, done.stderr[-2000:]
    assert "the loss is not finite at step" in done.stderr
    for path in (tmp_path / "run").glob("step-*"):
        state = load_file(path / checkpoint.STATE)
        assert all(np.isfinite(value).all() for value in state.values()), path.name
