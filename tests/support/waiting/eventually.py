"""Waiting in tests: for a condition, with a deadline that only a machine that stands still can miss.

VOXYARD_TEST_PATIENCE=3 makes every deadline three times as long, for a machine that does much else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 120.0 * float(os.environ.get("VOXYARD_TEST_PATIENCE", "1"))
"""Seconds."""


def eventually(
    true: Callable[[], Found | None],
    what: str | Callable[[], object] = "it is so",
    seconds: float = PATIENCE,
    every: float = 0.02,
) -> Found:
    """What `true` answers as soon as that counts as true. Raises AssertionError, with `what`, after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > deadline:
            told = what() if callable(what) else f"it never came to be that {what}"
            raise AssertionError(f"{told}, within {seconds:g} s")
        time.sleep(every)
    return found
