"""Fixture `postgres`: one PostgreSQL for all tests of a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server; `postgres.url()` is that of a new schema."""
    from postgres_server import program, running_server

    if program("initdb") is None:
        message = "initdb is missing (apt-get install postgresql)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with running_server() as server:
        yield server
