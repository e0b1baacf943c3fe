"""Figures that stay as they are written: versions, addresses, phone numbers, powers, angles, doubtful groups."""

from __future__ import annotations

import re

from voxyard.speech.reading.languages import CURRENCIES, Language
from voxyard.speech.reading.patterns import BLANK, BLANKS, DASH, MOST_GROUPS, bare, guard, range_or_number

_B = f"[{BLANKS}]"
_START = rf"(?<![\w.,:/+^-])(?<!(?<!\d)\d{_B})(?<!(?<!\d)\d\d{_B})(?<!(?<!\d)\d\d\d{_B})"
_END = rf"(?!\d|{_B}\d)"
_GROUPED_BY_BLANKS = ("fr", "it", "ru")  # where nine figures in three groups are no phone number
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"


def before_amounts(language: Language) -> list[re.Pattern[str]]:
    """Patterns that amounts and units must not take apart."""
    number = r"\d{1,3}(?:\.\d{3})+(?!\.?\w)"
    grouped = f"(?!{number})" if "." in language.groups else ""
    signs = "|".join(re.escape(each) for each in CURRENCIES)
    found = [
        re.compile(rf"(?<![\w.,:]){grouped}[vV]?\d+(?:\.\d+){{2,}}\b"),
        re.compile(r"(?<![\w-])\+\d[\d\s()/-]{4,}\d(?![\w-])"),
        # (555) 123-4567, (030) 1234567
        re.compile(
            r"(?<![\w.,])(?:\d{1,3} ?)?\((?:\d{2,5}\) ?(?:\d{2,5}(?:[ -]\d{2,})+|\d{5,})|0\d{1,4}\) ?\d{3,4})(?![\w-])"
        ),
        re.compile(rf"(?<![\w.,:/+-])(?<!\d{_B})0\d+(?:{_B}\d{{3,}})+(?!\d)"),  # 0800 123 456
        # 555 123 4567, 12 34 567: figures of which some look like a group of thousands
        re.compile(
            rf"{_START}(?!\d{{1,3}}(?:{_B}\d{{3}}){{1,{MOST_GROUPS}}}{_END})"
            rf"\d{{1,3}}(?:{_B}\d{{1,3}}(?!\d))*{_B}\d{{3}}(?!\d)(?:{_B}\d+)*"
        ),
        re.compile(r"(?<![\w.,:])(?:[01]?\d|2[0-4]): [0-5]\d(?![\w:])"),  # 10: 30, a time or a list's item
        re.compile(r"(?<![\w.,])(?:[\d.,]{1,20} ?[×·*x] ?)?[\w.,]+\^[-−]?[\w.,]+"),
        re.compile(rf"(?<!\w)(?!(?:{signs})\W?\d)(?:[A-Z]{{1,3}}\$|[₠-⃀]){BLANK}{bare(language)}"),  # C$ 5
        re.compile(rf"{guard(language)}{bare(language)}{BLANK}(?!{signs})[₠-⃀]"),
        re.compile(rf"(?<!\w)(?:{signs}){BLANK}\d[\d.,]*{DASH}\d"),  # $ 3–5
        re.compile(rf"{_START}\d{{1,3}}(?:{_B}\d{{3}})+(?!{re.escape(language.decimal)})[.,]\d[\d.,]*"),
        re.compile(rf"(?<![\w.,])\d{{4}}(?:{_B}\d{{4}}){{3,}}(?!\d)(?:{_B}\d+)*"),  # of a card
    ]
    if " " not in language.groups:  # 1,000 000
        found.append(re.compile(rf"(?<![\w.,])\d{{1,3}}(?:[.,]\d{{3}})+(?:{_B}\d{{3}})+(?!\d)"))
    return found


def after_amounts(language: Language, symbols: str) -> list[re.Pattern[str]]:
    """Patterns that are no numbers where no amount and no unit was found; `symbols` are those of units, with bars."""
    number = r"\d+(?:[.,]\d+)?"
    found = [
        re.compile(rf"(?<![\w.,:]){_OCTET}(?:\.{_OCTET}){{3}}(?![\w.,]\d)(?!\w)"),
        re.compile(r"(?<![\w-])\d+(?:-\d+)+(?![\w-])"),  # 555-1234
        # 51° 30′ 12″, 5'10", 10′
        re.compile(rf"(?<![\w.,]){number} ?[°′](?: ?{number} ?['′’](?: ?{number} ?(?:[\"″”]|''))?)?(?![^\W\d_])"),
        re.compile(rf"(?<![\w.,])\d+['′’] ?{number}(?:[\"″”]|''|\b)"),
        re.compile(rf"(?<![\w.,]){number} ?″"),
        re.compile(rf"{range_or_number(language)}{BLANK}(?:{symbols})[²³/]"),  # 5 km/s
    ]
    if " " not in language.groups:  # 1 000: one number, or two
        found.append(re.compile(rf"{_START}\d{{1,3}} \d{{3}}{_END}"))
    if language.locale not in _GROUPED_BY_BLANKS:  # 555 123 456
        found.append(re.compile(rf"{_START}\d{{3}}(?: \d{{3}}){{2}}(?<!000){_END}"))
    return found
