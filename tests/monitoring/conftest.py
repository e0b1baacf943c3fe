"""Programs of the tests: Prometheus, Alertmanager and their tools from Debian packages."""

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


@pytest.fixture(scope="session")
def amtool() -> str:
    """Path of amtool."""
    return program("amtool")


@pytest.fixture(scope="session")
def alertmanager_program() -> str:
    """Path of Alertmanager; Debian names it after Prometheus."""
    return program("alertmanager")
