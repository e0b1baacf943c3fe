"""Targets of the devices beside their use: power of each GPU against its limit, and stable memory."""

from __future__ import annotations

from typing import Final

from voxyard.telemetry.gpu_watch import CardPower

HIGH_POWER: Final = 0.60
"""Share of the power limit in force from which on a GPU's power is high."""
STABLE: Final = 0.05
"""Growth of memory under which it counts as stable."""


def power_standing(card: CardPower, ceiling: float | None = None) -> str:
    """high, low, or what its work allows: `ceiling` is the most of the time that this GPU can be busy."""
    if card.share is None:
        return ""
    if card.share >= HIGH_POWER:
        return "high"
    if ceiling is not None and card.share >= HIGH_POWER * ceiling:
        return f"as high as its work allows, which is {ceiling:.0%} of the time at most"
    return "low"


def memory_standing(growth: float | None) -> str:
    """stable, not stable, or nothing where it was not measured."""
    return "" if growth is None else "stable" if abs(growth) < STABLE else "not stable"
