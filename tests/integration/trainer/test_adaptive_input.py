"""Adaptive input in a run: its threads and buffer change with every batch, and its weights do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from async_device import Open

from voxyard.trainer import pipeline
from voxyard.trainer.adaptive_input import InputSize


class Restless:
    """Another size after every batch."""

    changes = 0

    def __init__(self, begin: InputSize, *_: Any) -> None:
        self.size = begin

    def taken(self, _: float) -> InputSize:
        type(self).changes += 1
        return InputSize(1 + self.changes % 4, 1 + self.changes * 7 % 9)


def test_a_run_whose_input_changes_all_the_time_ends_with_the_same_weights(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit; the metric follows the threads."""
    steady = opened(max_steps=12)
    steady.execute()
    monkeypatch.setattr(pipeline, "AdaptiveInput", Restless)
    restless = opened(max_steps=12)
    threads: list[int] = []
    monkeypatch.setattr(restless.metrics.input, "threads", threads.append)
    restless.execute()
    assert Restless.changes >= 12
    assert {1, 2, 3, 4} <= set(threads)
    for one, other in zip(steady.step.model.get_weights(), restless.step.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
