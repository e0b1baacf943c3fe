"""A run does not begin on a GPU that is out of work; one that was reset is tested first."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from voxyard.host import out_of_work
from voxyard.host.nvml import Gpu
from voxyard.host.out_of_work import Mark, OutOfWork
from voxyard.trainer.devices.tensorflow_setup import SickCards

GPU = Gpu(1, "GPU-1", "H100", "", 81920, 80000, (9, 0))
MARK = Mark("GPU-1", 1, "Xid 79: the GPU fell off the bus", "restart the host")


def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Mark) -> tuple[SickCards, OutOfWork]:
    file = OutOfWork(tmp_path / "out_of_work.json")
    file.put(mark)
    monkeypatch.setenv(out_of_work.VARIABLE, str(file.path))
    return SickCards([("data", replace(GPU, index=0, uuid="GPU-0")), ("model", GPU)]), file


def test_it_is_told_which_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = cards(tmp_path, monkeypatch, MARK)
    assert found.why() == found.why(test=True) == str(MARK)


@pytest.mark.parametrize("code", [0, 1])
def test_one_that_was_reset_is_tested_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(out_of_work, "SELF_TEST", (sys.executable, "-c", f"print('tested'); raise SystemExit({code})"))
    found, file = cards(tmp_path, monkeypatch, replace(MARK, state="reset"))
    assert "waits for its self-test" in (found.why() or "")
    assert (found.why(test=True) is None) == (code == 0)
    assert [mark.state for mark in file.marks().values()] == ["out"] * code


def test_without_a_file_every_gpu_may_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(out_of_work.VARIABLE, raising=False)
    assert SickCards([("model", GPU)]).why() is None
