"""NVIDIA's libraries of the tests; a real Prometheus and its promtool."""

from __future__ import annotations

import os
import shutil

import pytest


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        message = f"{name} is missing (apt-get install prometheus)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def promtool() -> str:
    """Path of promtool."""
    return _program("promtool")


@pytest.fixture(scope="session")
def prometheus_program() -> str:
    """Path of Prometheus."""
    return _program("prometheus")
