"""Programs of the tests: Prometheus, Alertmanager and their tools from Debian packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import program

HERE = Path(__file__).parent


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


EACH_ALONE = {"test_rules", "test_planted_faults", "test_healthy_day"}  # files whose tests share nothing that is costly


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of several processes one takes a whole file, one all of the proof, whose tests share a Prometheus."""
    for item in items:
        if HERE in item.path.parents and item.path.stem not in EACH_ALONE:
            group = "proof" if item.path.parent.name == "proof" else item.path.stem
            item.add_marker(pytest.mark.xdist_group(group))
