"""The fixture `driver`: NVIDIA's libraries of the tests, compiled once a run."""

from __future__ import annotations

import pytest
from fake_driver import FakeDriver


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    """A compiled fake driver; tests that take it need gcc (tests/conftest.py)."""
    return FakeDriver(tmp_path_factory.mktemp("driver"))
