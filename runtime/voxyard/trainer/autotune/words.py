"""Counts and ages in words, with the right plural."""

from __future__ import annotations


def counted(count: float, noun: str) -> str:
    """`1 step`, `2 steps`, `1.5 minutes`: for nouns with a plural in -s."""
    number = f"{count:g}"
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def ago(seconds: float) -> str:
    """Age in words: minutes below two hours, hours below two days, such as `1 minute ago` or `3 days ago`."""
    for unit, size in (("day", 86400), ("hour", 3600)):
        if seconds >= 2 * size:
            return f"{counted(round(seconds / size), unit)} ago"
    return f"{counted(round(seconds / 60), 'minute')} ago"
