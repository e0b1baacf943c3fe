"""A small corpus of tones, and `voxyard` in processes that are forks of one with TensorFlow."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import logical_devices  # noqa: F401 (first: it sets TensorFlow up)
import pytest
from forked import run_forked
from runs import environment, write_tones


@pytest.fixture(scope="session")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty tones."""
    return write_tones(tmp_path_factory.mktemp("corpus") / "tones", 40)


Train = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def voxyard() -> Train:
    """Runs `voxyard ARGUMENTS` to its end and gives back code, output and messages."""

    def run(*arguments: object, timeout: float = 240, **variables: str) -> subprocess.CompletedProcess[str]:
        return run_forked(*arguments, environment=environment(**variables), timeout=timeout)

    return run


@pytest.fixture
def toy(tones: Path, tmp_path: Path) -> list[object]:
    """Arguments of a quick split run of the toy model."""
    return [
        "train", "--device", "cpu", "--data-gpu", 0, "--model-gpu", 1, "--train-data", tones,
        "--model-module", "toy:make", "--batch-size", 4, "--model-start-delay", 0.5, "--num-workers", 2,
        "--checkpoint-dir", tmp_path / "run", "--no-tensorboard",
    ]  # fmt: skip
