"""A small corpus of tones, and `voxyard` in processes that are forks of one with TensorFlow."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import logical_devices  # noqa: F401 (first: it sets TensorFlow up)
import pytest
from async_device import DEVICES, AsyncStep, Open
from forked import run_forked
from runs import environment, write_tones

from voxyard.corpus.cold import ColdSource
from voxyard.trainer import DataConfig, ModelConfig, TelemetryConfig, TrainConfig, TrainingConfig, loop
from voxyard.trainer.api import open_run
from voxyard.trainer.corpora import Corpora, open_corpora


@pytest.fixture(scope="session")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty tones."""
    return write_tones(tmp_path_factory.mktemp("corpus") / "tones", 40)


Train = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def voxyard() -> Train:
    """Runs `voxyard ARGUMENTS` to its end and gives back code, output and messages."""

    def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        return run_forked(*arguments, environment=environment(**variables))

    return run


@pytest.fixture
def toy(tones: Path, tmp_path: Path) -> list[object]:
    """Arguments of a quick split run of the toy model."""
    return [
        "train", "--device", "cpu", "--data-gpu", 0, "--model-gpu", 1, "--train-data", tones,
        "--model-module", "toy:make", "--batch-size", 4, "--model-start-delay", 0.5, "--num-workers", 2,
        "--checkpoint-dir", tmp_path / "run", "--no-tensorboard",
    ]  # fmt: skip


@pytest.fixture
def opened(tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens a run of the toy model on devices that compute after the call has returned."""
    monkeypatch.setattr(loop, "TrainStep", AsyncStep)
    runs: list[loop.Run] = []

    def make(*, step: type[AsyncStep] = AsyncStep, every: int = 10**6, log_every: int = 1, **training: Any) -> loop.Run:
        monkeypatch.setattr(loop, "TrainStep", step)
        config = TrainConfig(
            model=ModelConfig(module="toy:make"),
            data=DataConfig(
                train_data=tones, data_gpu=0, model_gpu=1, buckets=1, num_workers=1, model_start_delay=0.2,
                validation_share=0,
            ),
            training=TrainingConfig(
                device="cpu", batch_size=4, checkpoint_dir=tmp_path / ("run" + "-again" * len(runs)),
                checkpoint_every=every, **training
            ),
            telemetry=TelemetryConfig(tensorboard=False, log_every=log_every, sample_text=""),
        )  # fmt: skip
        corpora = open_corpora(config)
        cold = Corpora(ColdSource(corpora.training), corpora.validation, corpora.coverage)
        runs.append(open_run(config, devices=DEVICES, corpora=cold))
        return runs[-1]

    yield make
    for run in runs:
        run.step.end()  # type: ignore[attr-defined]
