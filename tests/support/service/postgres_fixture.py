"""Fixture `postgres`: one PostgreSQL for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server; `postgres.url()` is that of a new schema."""
    from postgres_server import running_server

    with running_server() as server:
        yield server
