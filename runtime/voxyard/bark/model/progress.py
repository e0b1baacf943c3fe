"""Progress reports of the model's loops: a device that hangs is known by their absence."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[], None]


def unwatched() -> None:
    """Report to nobody."""
