"""Checkpoints of a run: the best is remembered, nothing broken is saved."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from voxyard.trainer import checkpoint
from voxyard.trainer.config import TrainConfig, TrainingConfig
from voxyard.trainer.loop import Run


def saving_run(directory: Path) -> Any:
    """A run of which only the saving is there."""
    run: Any = object.__new__(Run)
    run.config = TrainConfig(training=TrainingConfig(checkpoint_dir=directory))
    run.corpora = SimpleNamespace(speakers=("a",))
    run.metrics = SimpleNamespace(checkpoint=lambda _seconds: None)
    run.step = SimpleNamespace(state=lambda: {"x": np.zeros(1, np.float32)})
    run._identity = dict
    run._best, run._validation, run._validated = math.inf, {}, None
    return run


def best_of(directory: Path, step: int) -> float | None:
    """The best loss up to a checkpoint, as it says itself."""
    found: float | None = json.loads((directory / f"step-{step:08d}" / checkpoint.META).read_text())["best"]
    return found


def test_a_worse_validation_does_not_become_the_best(tmp_path: Path) -> None:
    """Within one run: the loss of the best is kept, and goes into the checkpoints after it."""
    run = saving_run(tmp_path)
    for step, loss in ((1, 3.0), (2, 1.0), (3, 2.0), (4, math.nan)):
        run._validation, run._validated = {"total": loss}, step
        assert run._write_checkpoint(step, must=True) == step
    assert (tmp_path / checkpoint.BEST).resolve().name == "step-00000002"
    assert [best_of(tmp_path, step) for step in (3, 4)] == [1.0, 1.0]


def test_a_checkpoint_is_not_judged_by_the_validation_of_an_earlier_step(tmp_path: Path) -> None:
    """--validate-every 15 --checkpoint-every 10."""
    run = saving_run(tmp_path)
    run._validation, run._validated = {"total": 1.0}, 15
    run._write_checkpoint(20, must=True)
    assert not (tmp_path / checkpoint.BEST).exists()
    assert best_of(tmp_path, 20) is None


def test_a_run_from_before_the_mels_edges_were_reflected_says_so_when_it_is_resumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """T17: it goes on, but does not end where it would have ended."""
    run = saving_run(tmp_path)
    run.corpora, run.rows = SimpleNamespace(speakers=("a",), training=SimpleNamespace(fingerprint="f")), 8
    own = Run._identity(run)
    run._identity = lambda: {name: value for name, value in own.items() if name != "mel_edges"}
    run._write_checkpoint(1, must=True)
    run._identity = lambda: own
    run.step.restore = lambda _state: None
    assert run._restore()[0] == 1
    assert caplog.messages == ["The resumed run differs from the run before: mel_edges was None and is now reflect"]


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
