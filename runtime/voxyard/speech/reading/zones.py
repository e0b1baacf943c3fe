"""Zones of time by their distance from Greenwich: UTC+01:00, GMT-5."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.tables import table

Words = Callable[[re.Match[str]], str | None]

_ZONE = re.compile(
    r"(?<=(?<![A-Za-z0-9_])(?:UTC|GMT))(?P<blank>\s?)(?P<sign>[+−±-])0?(?P<hours>\d|1[0-4])(?::?(?P<minutes>[03]0|[14]5))?"
    r"(?![\dA-Za-z:]|[.,]\d)"
)


def patterns(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """A pattern of what stands after the name of the zone, with its words."""
    signs = table(language.locale).signs
    operators = signs.operators
    plus = operators.get("+") if language.locale == "zh" else signs.positive or operators.get("+")
    names = {"+": plus, "-": language.minus, "−": language.minus, "±": operators.get("±")}
    blank = " " if language.spaced else ""

    def words(found: re.Match[str]) -> str | None:
        sign, minutes = names[found["sign"]], found["minutes"]
        if not sign:
            return None
        half = f"{blank or '点'}{cardinal(minutes, language)}" if minutes and minutes != "00" else ""
        return f"{blank}{sign}{blank}{cardinal(found['hours'], language)}{half}"

    return [(_ZONE, words)]
