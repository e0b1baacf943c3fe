"""Patterns of figures that several rules of the reading share."""

from __future__ import annotations

import re

from voxyard.speech.reading.languages import Language

BLANKS = " \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"
"""Blanks that part groups of three figures, and a figure from its unit."""

BLANK = f"[{BLANKS}]?"
MOST_GROUPS = 6
"""Groups of three figures after the first ones of a number; figures in more groups are no number and stay."""

DASH = r"(?: – |–|-|~(?=\d))"
WIDE_DASH = "(?: – |–|-|〜|~|～)"
"""The same between figures of a language without blanks."""

UNREAD = rf"(?!\^|{BLANK}[%‰¢€$£¥₽₺₩₹°′″](?!\d))"
"""Looks ahead of a figure: no sign follows without which it would be read in part."""


_COUNTED = "年月日時时分点人円元歳岁個个号周週回章頁页"
"""Letters after a number, with which a sign before the next one is no minus: 9時-17時."""


NEXT_WORD = re.compile(r"[\s-](?:[^\S\n])?(?![^\W\d_]\.)([^\W\d_]+)")
"""The word after a number, which is no short form: no d. C."""


def guard(language: Language) -> str:
    """Looks behind a figure: it does not go on a word, a number, a version or an address."""
    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    return rf"(?<![{letters}/@#^$€£¥₽₺₩₹])(?<![\d{letters}][.,:\-–])(?<!(?<![^\s(\[\"'“„«$€£+−-])[.,])"


def number(language: Language) -> str:
    """A whole or decimal number as the language writes it: groups `number`, `sign`, `whole` and `part`."""
    return guard(language) + bare(language)


def bare(language: Language) -> str:
    """The same without a look behind it."""
    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    return (
        rf"(?P<number>(?P<sign>[-−+](?<![{letters}{_COUNTED if not language.spaced else ''})\]%*][-−+])(?=\d))?"
        rf"(?P<whole>{_whole(language)})(?:{re.escape(language.decimal)}(?P<part>\d+))?)"
        rf"(?![/@_\d])(?![.,:\-–]\d)"
    )


def range_or_number(language: Language) -> str:
    """A number, or two with a dash between them; the first has the groups `first` and `first_part`."""
    return guard(language) + bare_range(language)


def bare_range(language: Language, repeated: str = "") -> str:
    """The same without a look behind it; `repeated` is a pattern that may stand before the last number too."""
    separator, dash = re.escape(language.decimal), DASH if language.spaced and language.locale != "ko" else WIDE_DASH
    first = rf"(?<![-−])(?P<first>{_whole(language)})(?:{separator}(?P<first_part>\d+))?%?{dash}{repeated}(?=\d)"
    return rf"(?:{first})?{bare(language)}"


def _whole(language: Language) -> str:
    groups = re.escape(language.groups)
    end = rf"(?!\d|[{BLANKS}]\d)"
    indian = r"\d{1,2}(?:,\d\d)+,\d{3}(?!\d)|" if language.locale == "hi" else ""  # 1,00,000
    most = f"{{1,{MOST_GROUPS}}}"  # so that a long table takes time in proportion to its length
    return indian + rf"\d{{1,3}}(?:[{groups}]\d{{3}}){most}(?!\d)|\d{{1,3}}(?:[{BLANKS}]\d{{3}}){most}{end}|\d+"


def number_of(found: re.Match[str]) -> tuple[str, str]:
    """Digits before and after the decimal sign."""
    return re.sub(r"\D", "", found["whole"]), found["part"] or ""


ELSEWHERE = "\0"
"""Words of what a rule leaves to the rules that follow."""


def stays(_: re.Match[str]) -> None:
    """Words of what is left as it is written."""
    return
