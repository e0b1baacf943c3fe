"""Programs of the tests: Prometheus, Alertmanager, and their tools, as Debian packs them."""

from __future__ import annotations

import os
import shutil

import pytest


def _program(package: str, *names: str) -> str:
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        message = f"{names[0]} is missing (apt-get install {package})"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def promtool() -> str:
    """Path of promtool."""
    return _program("prometheus", "promtool")


@pytest.fixture(scope="session")
def prometheus_program() -> str:
    """Path of Prometheus."""
    return _program("prometheus", "prometheus")


@pytest.fixture(scope="session")
def amtool() -> str:
    """Path of amtool."""
    return _program("prometheus-alertmanager", "amtool")


@pytest.fixture(scope="session")
def alertmanager_program() -> str:
    """Path of Alertmanager; Debian names it after Prometheus."""
    return _program("prometheus-alertmanager", "prometheus-alertmanager", "alertmanager")
