"""Result of `voxyard validate`: the numbered checks with their figures, or what was wrong and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from voxyard.diagnose.errors import DiagnoseError


@dataclass(frozen=True)
class Found:
    """Findings of a passed check: a line a figure for people, and the same as plain data."""

    figures: tuple[str, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)


class CheckError(DiagnoseError):
    """Failure of a check: the message has what was found and expected, `advice` what to do."""

    def __init__(self, message: str, *, advice: str = "", found: Found | None = None) -> None:
        super().__init__(message, exit_code=1)
        self.advice, self.found = advice, found or Found()


@dataclass(frozen=True)
class Check:
    """One numbered check. `ran` is False where an earlier one did not pass, and this one cannot pass without it."""

    number: int
    name: str
    passed: bool
    figures: tuple[str, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    advice: str = ""
    ran: bool = True

    def lines(self) -> list[str]:
        """The check for a terminal."""
        told = [*self.figures, *self.problem.splitlines()]
        told += [f"→ {line}" for line in self.advice.splitlines()]
        return [f"{self.number}. {'✅' if self.passed else '❌'} {self.name}", *(f"     {line}" for line in told)]


@dataclass(frozen=True)
class ValidationReport:
    """The checks in their order."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """True where all of them passed."""
        return all(check.passed for check in self.checks)

    @property
    def exit_code(self) -> int:
        """0 only if all checks passed."""
        return 0 if self.passed else 1

    def document(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {"passed": self.passed, "checks": [asdict(check) for check in self.checks]}

    def text(self) -> str:
        """The checks for a terminal."""
        lines = [line for check in self.checks for line in check.lines()]
        good = sum(check.passed for check in self.checks)
        return "\n".join([*lines, "", f"{good} of {len(self.checks)} checks passed"])
