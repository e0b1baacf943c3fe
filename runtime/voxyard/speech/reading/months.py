"""Dates with a short month or one in capitals, spans of months: 01 Okt 2020, 15-Jan-2020, SEPT. 15, Oct-Dec 2024."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading import roman
from voxyard.speech.reading.dates import month_names, spoken
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import ordinal, year
from voxyard.speech.reading.patterns import ELSEWHERE

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

_MORE = {"en": ("Sept", 9), "de": ("Sep", 9), "es": ("sep", 9), "fr": ("juill", 7), "nl": ("sept", 9)}
_LEAST = 3  # letters of a short month


def patterns(code: str, language: Language) -> list[Reading]:
    """Patterns of such dates; none for a language whose months have cases or no letters."""
    if code not in ("en", "de", "fr", "es", "it", "pt", "nl"):
        return []
    months = _months(code, language)
    names = "|".join(sorted(map(re.escape, months), key=len, reverse=True))
    month = rf"(?P<month>(?i:{names}))\.?"
    day, of_year = r"(?P<day>0?[1-9]|[12]\d|3[01])", r"(?P<year>[12]\d{3})(?![\w/-]|[.,:]\d)"
    joint = r"(?P<joint>[ -]| de )" if code in ("es", "pt") else "(?P<joint>[ -])"
    alone = r"(?<![\w.,:/-])(?<!\d[.\s][–-])(?<!\d[–-])(?<!\d\s[–-]\s)(?<!\d\.\s[–-]\s)"
    dated = re.compile(rf"{alone}{day}\.?{joint}{month}(?P=joint){of_year}")
    found: list[Reading] = [(dated, lambda match: _dated(match, code, language, months))]
    if code == "en":
        found += _american(names, language, months)
    else:  # 22-XII-2010
        roman_month = r"(?P<sign>[-/.])(?P<month>XI{0,2}|I[XV]|VI{0,3}|I{1,3})(?P=sign)"
        in_roman = re.compile(rf"(?<![\w.,:/-]){day}{roman_month}{of_year}")
        found.append((in_roman, lambda match: _in_roman(match, code, language)))
    if language.to:
        found.append(_span(names, language, months))
    return found


def _months(code: str, language: Language) -> dict[str, int]:
    """Numbers of the months by their names in small letters, long and short, without a full stop."""
    from babel.dates import get_month_names

    short = get_month_names("abbreviated", "format", language.locale)
    found = {name.lower(): number for number, name in enumerate(month_names(language), 1)}
    found |= {name.lower().rstrip("."): number for number, name in short.items()}
    found |= {name[:_LEAST].lower(): number for number, name in short.items() if code in ("en", "de")}
    if code in _MORE:
        name, number = _MORE[code]
        found[name.lower()] = number
    return found


def _dated(found: re.Match[str], code: str, language: Language, months: dict[str, int]) -> str | None:
    day, month = int(found["day"]), months[found["month"].lower()]
    if code != "en":
        said = spoken(code, language, int(found["year"]), month, day, found)
        return ELSEWHERE if said is None else said
    name, of = month_names(language)[month - 1], year(int(found["year"]), language)
    the = "" if found.string[: found.start()].rstrip().endswith(("the", "The")) else "the "
    return f"{the}{ordinal(day, language)} of {name}, {of}"


def _in_roman(found: re.Match[str], code: str, language: Language) -> str | None:
    month = roman.value(found["month"])
    return spoken(code, language, int(found["year"]), month, int(found["day"]), found) or ELSEWHERE


def _american(names: str, language: Language, months: dict[str, int]) -> list[Reading]:
    """Jan-15-2020, JAN. 15 2020, SEPT. 15."""
    day, of_year = r"(?P<day>0?[1-9]|[12]\d|3[01])", r"(?P<year>[12]\d{3})(?![\w/-]|[.,:]\d)"
    hyphens = re.compile(rf"(?<![\w.,:/-])(?P<month>(?i:{names}))\.?-{day}-{of_year}")
    capitals = re.compile(
        rf"(?<![\w.,:/-])(?P<month>{names.upper()})\.? {day}(?:st|nd|rd|th|ST|ND|RD|TH)?"
        rf"(?![\w:]|[.,]\d|[–-]\d)(?:,? {of_year})?"
    )

    def words(found: re.Match[str]) -> str:
        name = month_names(language)[months[found["month"].lower()] - 1]
        after = f", {year(int(found['year']), language)}" if found["year"] else ""
        return f"{name} {ordinal(int(found['day']), language)}{after}"

    return [(hyphens, words), (capitals, words)]


def _span(names: str, language: Language, months: dict[str, int]) -> Reading:
    """Oct-Dec 2024, Jan.–März 2024."""
    short = rf"(?i:{names})"
    ahead = r"(?=\s(?:(?:de|of)\s)?(?:[12]\d{3}|['’]\d\d)(?![\w-]))"
    pattern = rf"(?<![\w.,:/-])(?P<first>{short})\.?\s?[–-]\s?(?P<short>{short})\.?{ahead}"

    def words(found: re.Match[str]) -> str:
        of = month_names(language)
        first, last = (of[months[found[each].lower()] - 1] for each in ("first", "short"))
        first = first if found["first"][0].islower() or language.locale in ("de", "en") else first.capitalize()
        return f"{first} {language.to} {last}"

    return re.compile(pattern), words
