"""Patterns of figures that several rules of the reading share."""

from __future__ import annotations

import re

from voxyard.speech.reading.languages import Language

BLANK = r"[ \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}]?"


def guard(language: Language) -> str:
    """Looks behind a figure: it does not go on a word, a number, a version or an address."""
    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    return rf"(?<![{letters}/@#+$€£¥₽₺₩₹])(?<![\d{letters}][.,:\-–])"


def number(language: Language) -> str:
    """A whole or decimal number as the language writes it: groups `number`, `sign`, `whole` and `part`."""
    groups, separator = re.escape(language.groups), re.escape(language.decimal)
    letters = "/@_" if not language.spaced else "@_/"
    return (
        rf"{guard(language)}(?P<number>(?P<sign>[-−](?<![\w)\]][-−])(?=\d))?"
        rf"(?P<whole>\d{{1,3}}(?:[{groups}]\d{{3}})+(?!\d)|\d+)(?:{separator}(?P<part>\d+))?)"
        rf"(?![{letters}\d])(?![.,:\-–]\d)"
    )


def number_of(found: re.Match[str]) -> tuple[str, str]:
    """Digits before and after the decimal sign."""
    return re.sub(r"\D", "", found["whole"]), found["part"] or ""
