"""Fixtures of the rollout tests: a host in a directory, its services, and a site in which nothing trains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rollout_steps import deploy, everything, rollout_context
from shell_host import FakeServices, ShellHost

from fleet.rollout.context import RolloutContext


@pytest.fixture
def fake_services() -> Iterator[FakeServices]:
    """Address of the services."""
    found = FakeServices()
    yield found
    found.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ShellHost]:
    """A host that has nothing yet."""
    found = ShellHost(tmp_path / "host")
    yield found
    found.close()


@pytest.fixture
def context(tmp_path: Path) -> RolloutContext:
    """Surroundings in which nothing trains."""
    return rollout_context(tmp_path)


@pytest.fixture
def deployed(host: ShellHost, fake_services: FakeServices, context: RolloutContext, tmp_path: Path) -> ShellHost:
    """A host on which everything is as it should be."""
    deploy(host, everything(tmp_path / "a", fake_services.port), context)
    host.reconnect()
    return host
