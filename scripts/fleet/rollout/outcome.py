"""Outcome of one host in a rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal[
    "deployed", "rolled back", "drained", "unchanged", "skipped", "unfit", "failed", "interrupted", "not touched",
    "unlocked",
]  # fmt: skip
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
    withheld: tuple[str, ...] = ()  # services that the preflight kept from the release
    hook_failure: str = ""  # of a command after the host was out of work

    @property
    def good(self) -> bool:
        """True where no action is needed."""
        return self.result in GOOD and not self.withheld and not self.hook_failure

    @property
    def failed(self) -> bool:
        """True where the host counts as failed: its change failed, or it may still be out of work."""
        return self.result == "failed" or bool(self.hook_failure)
