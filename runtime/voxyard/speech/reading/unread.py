"""Figures that stay as they are written: doubtful groups, other currencies, times that may be a list."""

from __future__ import annotations

import re

from voxyard.speech.reading.languages import CURRENCIES, Language
from voxyard.speech.reading.patterns import BLANK, BLANKS, bare, guard

_B = f"[{BLANKS}]"
_START = rf"(?<![\w.,:/+^-])(?<!(?<!\d)\d{_B})(?<!(?<!\d)\d\d{_B})(?<!(?<!\d)\d\d\d{_B})"
_END = rf"(?!\d|{_B}\d)"
_GROUPED_BY_BLANKS = ("fr", "it", "ru")  # where nine figures in three groups are no phone number


def before_amounts(language: Language) -> list[re.Pattern[str]]:
    """Patterns that amounts and units must not take apart."""
    signs = "|".join(re.escape(each) for each in CURRENCIES)
    found = [
        re.compile(r"(?<![\w.,:])(?:[01]?\d|2[0-4]): [0-5]\d(?![\w:])"),  # 10: 30, a time or a list's item
        re.compile(r"(?<![\w.,])(?![\d.,]*(?:[cdkm]?m|(?<=/)s|ft|in)\^[23](?!\w))[\w.,]+\^[-−]?[\w.,]+"),  # not 4 m^2
        re.compile(rf"(?<!\w)(?!(?:{signs})\W{{0,2}}\d)(?:[A-Z]{{1,3}}\$|[₠-⃀]){BLANK}{bare(language)}"),  # NT$ 5
        re.compile(rf"{guard(language)}{bare(language)}{BLANK}(?!{signs})[₠-⃀]"),
        re.compile(rf"{_START}\d{{1,3}}(?:{_B}\d{{3}})+(?!{re.escape(language.decimal)})[.,]\d[\d.,]*"),
    ]
    if " " not in language.groups:  # 1,000 000
        found.append(re.compile(rf"(?<![\w.,])\d{{1,3}}(?:[.,]\d{{3}})+(?:{_B}\d{{3}})+(?!\d)"))
    return found


def after_amounts(language: Language) -> list[re.Pattern[str]]:
    """Patterns that are no numbers where no amount and no unit was found."""
    number = r"\d+(?:[.,]\d+)?"
    found = [
        # 51° 30′ 12″, 5'10", 10′
        re.compile(rf"(?<![\w.,]){number} ?[°′](?: ?{number} ?['′’](?: ?{number} ?(?:[\"″”]|''))?)?(?![^\W\d_])"),
        re.compile(rf"(?<![\w.,])\d+['′’] ?{number}(?:[\"″”]|''|\b)"),
        re.compile(rf"(?<![\w.,]){number} ?″"),
    ]
    if " " not in language.groups:  # 1 000: one number, or two
        found.append(re.compile(rf"{_START}\d{{1,3}} \d{{3}}{_END}"))
    if language.locale not in _GROUPED_BY_BLANKS:  # 555 123 456
        found.append(re.compile(rf"{_START}\d{{3}}(?: \d{{3}}){{2}}(?<!000){_END}"))
    return found
