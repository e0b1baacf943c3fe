"""Programs of the tests: Prometheus, Alertmanager and their tools from Debian packages."""

from __future__ import annotations

import pytest
from monitoring_programs import program


@pytest.fixture(scope="session")
def promtool() -> str:
    """Path of promtool."""
    return program("prometheus", "promtool")


@pytest.fixture(scope="session")
def prometheus_program() -> str:
    """Path of Prometheus."""
    return program("prometheus", "prometheus")


@pytest.fixture(scope="session")
def amtool() -> str:
    """Path of amtool."""
    return program("prometheus-alertmanager", "amtool")


@pytest.fixture(scope="session")
def alertmanager_program() -> str:
    """Path of Alertmanager; Debian names it after Prometheus."""
    return program("prometheus-alertmanager", "prometheus-alertmanager", "alertmanager")
