"""Compiling ahead: what it leaves as it was, what is called again alone, and what ends it."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from voxyard.trainer.steps.ahead import compile_ahead


class ResourceExhaustedError(Exception):
    """As TensorFlow names its own."""


class Step:
    """A step that notes its calls; `fail` raises in a call with others, by the batch."""

    def __init__(self, fail: dict[str, Exception] | None = None, *, always: bool = False) -> None:
        self.fail, self.always = fail or {}, always
        self.timer = SimpleNamespace(beside_next=True)
        self.weights = 0
        self.calls: list[str] = []
        self.lock = threading.Lock()

    def state(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def restore(self, state: dict[str, Any]) -> None:
        self.weights = state["weights"]

    def stage(self, arrays: str) -> str:
        return arrays

    def train(self, staged: str, number: int) -> Any:
        assert not self.timer.beside_next, "what is compiled is not timed"
        with self.lock:
            self.weights += 1
            self.calls.append(f"train {staged} {number}")
            error = self.fail.get(staged) if self.always else self.fail.pop(staged, None)
        if error is not None:
            raise error
        return SimpleNamespace(read=dict)

    def evaluate(self, arrays: str) -> None:
        with self.lock:
            self.calls.append(f"evaluate {arrays}")


def ahead(step: Step, *, validates: bool = True, **more: Any) -> None:
    compile_ahead(step, ["a", "b"], number=7, validates=validates, **more)  # type: ignore[arg-type, list-item]


def test_each_bucket_is_trained_and_validated_once_and_nothing_is_left_of_it(caplog: pytest.LogCaptureFixture) -> None:
    step = Step()
    with caplog.at_level(logging.INFO, "voxyard.trainer"):
        ahead(step)
    assert sorted(step.calls) == ["evaluate a", "evaluate b", "train a 7", "train b 7"]
    assert (step.weights, step.timer.beside_next) == (0, True)
    assert [message.split(",")[0] for message in caplog.messages[1:]] == [
        "Compiled 1 of 2 buckets", "Compiled 2 of 2 buckets",
    ]  # fmt: skip


def test_buckets_without_room_for_both_are_called_again_alone() -> None:
    step = Step({"b": ResourceExhaustedError("OOM")})
    ahead(step, validates=False)
    assert sorted(step.calls) == ["train a 7", "train b 7", "train b 7"]
    assert step.calls[-1] == "train b 7"
    assert step.weights == 0


def test_a_bucket_without_room_alone_ends_the_run_with_the_state_as_it_was() -> None:
    step = Step({"b": ResourceExhaustedError("OOM")}, always=True)
    with pytest.raises(ResourceExhaustedError):
        ahead(step)
    assert (step.weights, step.timer.beside_next) == (0, True)


def test_another_error_is_raised() -> None:
    step = Step({"a": ValueError("no such layer")})
    with pytest.raises(ValueError, match="no such layer"):
        ahead(step)
    assert step.weights == 0


def test_a_signal_ends_it_before_all_are_compiled() -> None:
    step = Step()
    ahead(step, interrupted=lambda: True)
    assert (step.weights, step.timer.beside_next) == (0, True)
