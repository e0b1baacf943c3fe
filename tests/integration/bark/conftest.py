"""A tiny random Bark model, written once, and histories for it. Importing this needs no torch."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_bark import ServedBark

from voxyard.bark.voices import VoicePrompt
from voxyard.bark.weights import tiny
from voxyard.bark.weights.checkpoint import BarkCheckpoint, load


class History(VoicePrompt):
    """A voice of random codes."""

    @classmethod
    def random(cls, semantic: int, frames: int, seed: int = 0) -> History:
        draw = np.random.default_rng(seed)
        fine = draw.integers(0, 1024, (8, frames))
        return cls("random", None, draw.integers(0, 10_000, semantic), fine[:2], fine)

    def for_transformers(self) -> dict[str, Any]:
        import torch

        parts = ("semantic_prompt", "coarse_prompt", "fine_prompt")
        return {name: torch.as_tensor(getattr(self, name)) for name in parts}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint whose coarse head holds codes alone: where it holds more, transformers takes them."""
    directory = tmp_path_factory.mktemp("bark") / "tiny"
    tiny.write(directory, tiny.TinyShape(spare_coarse_outputs=0, end_after=20, fine_window=256))
    return directory


@pytest.fixture(scope="session")
def checkpoint(tiny_model: Path) -> BarkCheckpoint:
    """The tiny checkpoint, loaded."""
    return load(tiny_model)


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> BarkCheckpoint:
    """A tiny checkpoint in which the end is a token like any other, for greedy choices."""
    directory = tmp_path_factory.mktemp("bark") / "endless"
    tiny.write(directory, tiny.TinyShape(spare_coarse_outputs=0, end_after=0, fine_window=256), seed=1)
    return load(directory)


@pytest.fixture
def history() -> type[History]:
    """Makes voices."""
    return History


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One CPU thread and no gradients, as in a worker."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(before)


@pytest.fixture
def start(tiny_model: Path, tmp_path: Path) -> Iterator[Callable[[], ServedBark]]:
    """Starts the service on one data directory, again and again."""
    started: list[ServedBark] = []

    def run() -> ServedBark:
        started.append(ServedBark(tiny_model, tmp_path / "data"))
        return started[-1]

    yield run
    for each in started:
        if each.process.poll() is None:
            each.end(signal.SIGKILL)
