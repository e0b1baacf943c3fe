"""Outcome of one host in a rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal[
    "deployed", "rolled back", "drained", "unchanged", "skipped", "failed", "interrupted", "not touched", "unlocked"
]
GOOD: frozenset[Result] = frozenset({"deployed", "rolled back", "drained", "unchanged", "unlocked"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one host."""

    host: str
    result: Result
    before: str = ""  # releases
    after: str = ""
    note: str = ""
    limits: tuple[str, ...] = ()  # verified GPU memory limits, as text
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """True where no action is needed."""
        return self.result in GOOD
