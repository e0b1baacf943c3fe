"""Rules of reading that break at a text: the log tells it, and here it fails the test."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


class _Told(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture(autouse=True)
def broken_rules() -> Iterator[list[str]]:
    """What rules broke at, nothing at the end of a test."""
    told, logger = _Told(), logging.getLogger("voxyard.speech.reading.reader")
    logger.addHandler(told)
    yield told.said
    logger.removeHandler(told)
    assert told.said == []
