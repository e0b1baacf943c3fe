"""Figures in words, as reports, profiles and their advice have them, and columns of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

NOT_MEASURED: Final = "not measured"


def took(seconds: float | None) -> str:
    """Milliseconds below one second, with three digits that count."""
    if seconds is None:
        return NOT_MEASURED
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def sized(size: float) -> str:
    """Bytes as GiB, or as MiB below one."""
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def share(value: float | None, missing: str = NOT_MEASURED) -> str:
    """A share of 1 in percent."""
    return missing if value is None else f"{value:.0%}"


def counted(count: float, noun: str) -> str:
    """`1 step`, `2 steps`, `1.5 minutes`: for nouns with a plural in -s."""
    number = str(count) if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def ago(seconds: float) -> str:
    """Age in words: minutes below two hours, hours below two days, such as `1 minute ago` or `3 days ago`."""
    for unit, size in (("day", 86400), ("hour", 3600)):
        if seconds >= 2 * size:
            return f"{counted(round(seconds / size), unit)} ago"
    return f"{counted(round(seconds / 60), 'minute')} ago"


def columns(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> list[str]:
    """Rows in columns of even width, never cut to a terminal's; `numbers` stand to the right, after the first one."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if numbers and place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
