"""The stubs of NVIDIA's libraries, compiled once for these tests."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.nvml.fake_driver import FakeDriver

sys.path.insert(0, str(Path(__file__).parents[2] / "nvml"))


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    """A compiled fake driver; without a C compiler these tests cannot run."""
    if shutil.which("gcc") is None:
        message = "gcc is missing (apt-get install gcc): the fake NVIDIA libraries cannot be compiled"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    made: FakeDriver = importlib.import_module("fake_driver").FakeDriver(tmp_path_factory.mktemp("driver"))
    return made
