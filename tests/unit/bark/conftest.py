"""Presets of the installed wheel, whose list of files a process reads once: tests have wheels of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from voxyard.bark import voices


@pytest.fixture(autouse=True)
def no_wheel_of_another_test() -> Iterator[None]:
    """Each test finds the wheel that it has, and leaves none behind."""
    voices._presets.cache_clear()
    yield
    voices._presets.cache_clear()
