"""Common fixtures of the corpora's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tones import Corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """An empty corpus."""
    return Corpus(tmp_path / "corpus")
