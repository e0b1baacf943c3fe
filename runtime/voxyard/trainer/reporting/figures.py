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
