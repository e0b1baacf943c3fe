"""What a check has to say of a host: how bad, which check, what was found, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fleet.inventory import Host

Level = Literal["FAIL", "WARN", "INFO"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the preflight. A warning that the inventory acknowledges stays, as acknowledged."""

    level: Level
    check: str
    found: str
    remedy: str
    acknowledged: bool = False


def acknowledged(findings: Iterable[Finding], host: Host) -> tuple[Finding, ...]:
    """The findings, worst first, the warnings that the inventory accepts marked; a failure cannot be accepted."""
    order = ("FAIL", "WARN", "INFO")
    marked = [replace(each, acknowledged=each.level == "WARN" and each.check in host.acknowledged) for each in findings]
    return tuple(sorted(marked, key=lambda each: order.index(each.level)))


def failed(findings: Sequence[Finding], *, strict: bool = False) -> bool:
    """Whether the host must not be deployed to; `strict` counts warnings that nobody acknowledged."""
    return any(each.level == "FAIL" or (strict and each.level == "WARN" and not each.acknowledged) for each in findings)
