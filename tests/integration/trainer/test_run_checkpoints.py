"""Checkpoints of a run: the best is remembered, nothing broken is saved."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from voxyard.trainer import checkpoint
from voxyard.trainer.config import TrainConfig, TrainingConfig
from voxyard.trainer.loop import Run


def test_a_worse_validation_does_not_become_the_best(tmp_path: Path) -> None:
    """Within one run: the loss of the best is kept, and goes into the checkpoints after it."""
    run: Any = object.__new__(Run)
    run.config = TrainConfig(training=TrainingConfig(checkpoint_dir=tmp_path))
    run.corpora = SimpleNamespace(speakers=("a",))
    run.metrics = SimpleNamespace(checkpoint=lambda _seconds: None)
    run.step = SimpleNamespace(state=lambda: {"x": np.zeros(1, np.float32)})
    run._identity = dict
    run._best = math.inf
    for step, loss in ((1, 3.0), (2, 1.0), (3, 2.0)):
        run._validation = {"total": loss}
        assert run._write_checkpoint(step, must=True) == step
    assert (tmp_path / checkpoint.BEST).resolve().name == "step-00000002"
    assert json.loads((tmp_path / "step-00000003" / checkpoint.META).read_text())["best"] == 1.0


def test_a_state_that_is_not_finite_is_never_saved(toy: list[object], tmp_path: Path, voxyard: Any) -> None:
    """The losses are looked at before each checkpoint, however rarely they are logged."""
    done = voxyard(*toy, "--learning-rate", 1e30, "--log-every", 1000, "--checkpoint-every", 2, "--max-steps", 12)
    assert done.returncode == 1, done.stderr[-2000:]
    assert "the loss is not finite at step" in done.stderr
    for path in (tmp_path / "run").glob("step-*"):
        state = load_file(path / checkpoint.STATE)
        assert all(np.isfinite(value).all() for value in state.values()), path.name
