"""Fixtures of the fleet tests: weights in the layout of a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_model import write_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Weights that look like a model's."""
    return write_model(tmp_path / "weights")
