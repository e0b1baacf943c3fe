"""Reads of a profile: the share of the clips in the page cache before each measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

from voxyard.host.page_cache import NOTHING, Pages


@dataclass(frozen=True)
class Reads:
    """Pages of the clips that each measurement read, by its name."""

    measurements: Mapping[str, Pages] = field(default_factory=dict)

    @property
    def pages(self) -> Pages:
        """Pages of all measurements together."""
        return reduce(add, self.measurements.values(), NOTHING)

    @property
    def withheld(self) -> str:
        """Reason why no threads, shards or caches are advised; "" where they may be."""
        warm = [f"{name} {pages}" for name, pages in self.measurements.items() if not pages.trusted]
        if not warm:
            return ""
        return (
            "threads, shards and caches are not judged, since clips came from memory and not from the disk: "
            + "; ".join(warm)
        )

    def lines(self) -> list[str]:
        """A line for each measurement."""
        return [f"reads, {name}: {pages}" for name, pages in self.measurements.items()]

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        looks = {name: pages.document() for name, pages in self.measurements.items()}
        return self.pages.document() | {"looks": looks}
