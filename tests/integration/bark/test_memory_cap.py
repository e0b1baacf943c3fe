"""The cap on GPU memory comes into force before anything is loaded, and through torch's own function."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from voxyard.bark import engine
from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.memory_cap import MIB


def test_torch_has_the_function_that_caps() -> None:
    parameters = list(inspect.signature(torch.cuda.set_per_process_memory_fraction).parameters)
    assert parameters[:2] == ["fraction", "device"]


def test_the_cap_is_in_force_before_the_model_is_loaded(monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> None:
    done: list[Any] = []

    class LoadedError(BarkError):
        pass

    def load(*_: object) -> None:
        done.append("load")
        raise LoadedError("loaded")

    monkeypatch.setattr(engine, "choose_device", lambda _: ("cuda", "float32"))
    monkeypatch.setattr(engine, "load", load)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=8000 * MIB))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *told: done.append(told))

    with pytest.raises(LoadedError):
        engine.BarkEngine(BarkConfig(model=tiny_model, gpu_memory="2000")).prepare()

    assert done == [(0.25, 0), "load"]


def test_on_a_cpu_there_is_nothing_to_cap(monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> None:
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", pytest.fail)
    speaking = engine.BarkEngine(BarkConfig(model=tiny_model, device="cpu", gpu_memory="2000"))
    assert speaking.prepare().facts["device"] == "cpu"
