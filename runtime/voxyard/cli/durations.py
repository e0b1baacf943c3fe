"""Durations in the output of commands."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """Human-readable duration: 9.4 s, 3:07 min, 1:02:09 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"


def counted(count: int, noun: str) -> str:
    """`1 chunk`, `2 chunks`: for nouns with a plural in -s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
