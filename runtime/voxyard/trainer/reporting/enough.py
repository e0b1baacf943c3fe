"""Rule for the figures of a run: how many timed steps each needs, below which it counts as not measured."""

from __future__ import annotations

from typing import Final

STEPS_NEEDED: Final = 10  # timed, beside those that were traced (compiled)
ALONE_NEEDED: Final = 1  # where a stage is timed alone, between barriers: such a time has nothing else in it


def too_few(timed: int, needed: int = STEPS_NEEDED) -> str:
    """The reason why a figure of so many timed steps is none."""
    return f"too few steps to measure ({timed} of {needed})"


def too_few_to_be_sure(timed: float | None) -> str:
    """Caveat behind a figure that so many timed steps gave; empty where they are enough, or not known (None)."""
    return "" if timed is None or timed >= STEPS_NEEDED else f"; too few steps to be sure ({timed:g} of {STEPS_NEEDED})"
