"""A real Prometheus and its promtool."""

from __future__ import annotations

import pytest
from programs import program


@pytest.fixture(scope="session")
def promtool() -> str:
    """Path of promtool."""
    return program("promtool")


@pytest.fixture(scope="session")
def prometheus_program() -> str:
    """Path of Prometheus."""
    return program("prometheus")
