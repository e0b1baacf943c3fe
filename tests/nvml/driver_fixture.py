"""The fixture `driver`: NVIDIA's libraries of the tests, compiled once a run."""

from __future__ import annotations

import os
import shutil

import pytest
from fake_driver import FakeDriver


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    """A compiled fake driver; without a C compiler these tests cannot run."""
    if shutil.which("gcc") is None:
        message = "gcc is missing (apt-get install gcc): the fake NVIDIA libraries cannot be compiled"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return FakeDriver(tmp_path_factory.mktemp("driver"))
