"""Fixtures of the fleet tests: weights in the layout of a model, a machine without a journal, `fab` on the PATH."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_model import write_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Weights that look like a model's."""
    return write_model(tmp_path / "weights")


@pytest.fixture(autouse=True, scope="session")
def _no_journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hosts that are directories write nothing into the journal of the machine that runs the tests."""
    folder = tmp_path_factory.mktemp("no-journal")
    for name in ("systemd-cat", "logger", "journalctl"):
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        yield


@pytest.fixture(autouse=True)
def _fab_on_the_path(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Messages say `fab`, wherever the tests are started."""
    if request.module.__name__.rpartition(".")[2] != "test_command_line":
        monkeypatch.setattr("fleet.command_line.typed", lambda *_: "fab")
