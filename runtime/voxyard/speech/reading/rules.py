"""Rules of a language: patterns of figures and short forms of all kinds, in the order of their reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial

from voxyard.speech.reading import (
    abbreviations,
    addresses,
    american,
    chapters,
    chess,
    dates,
    digits,
    dutch,
    emoji,
    formulas,
    fractions,
    german,
    korean,
    laps,
    marks,
    money,
    months,
    names,
    numbers,
    ordinals,
    phones,
    polish,
    polish_hours,
    ranges,
    rates,
    roman,
    streets,
    symbols,
    times,
    units,
    unread,
    verses,
    weekdays,
    zones,
)
from voxyard.speech.reading.languages import LANGUAGES, UNITS
from voxyard.speech.reading.options import Kind
from voxyard.speech.reading.patterns import stays
from voxyard.speech.reading.tables import table

Words = Callable[[re.Match[str]], str | None]


@dataclass(frozen=True)
class Rule:
    """A pattern and its words.

    `words` returns None where what was found stays as it is, for all rules that follow, ELSEWHERE where one of them may
    read it.
    """

    kind: Kind
    pattern: re.Pattern[str]
    words: Words
    needs: str = ""  # letters without which a text has no match, which is found out sooner


@lru_cache(maxsize=64)
def rules(code: str, region: str = "") -> tuple[Rule, ...]:
    """Rules of a language, those first that others must not take apart; none for an unknown language."""
    language = LANGUAGES.get(code)
    if language is None:
        return ()
    scales = table(code).scales_of_numbers  # 3 mi are millions in Portuguese
    symbol_units = {
        sign: unit for sign, unit in {**UNITS, **language.units, **table(code).units}.items() if sign not in scales
    }
    unit_name = partial(units.unit_name, language)
    amounts = [
        *_of("currency", money.two_prices(language)),
        *_of("currency", money.patterns(language, symbol_units, unit_name)),
        *_of("units", units.patterns(language, symbol_units)),
    ]
    first = [
        *_of("symbols", formulas.typeset(code, language)),
        *_of("symbols", marks.patterns()),
        *_of("symbols", [*symbols.stars(code, language), *addresses.patterns(code, language)]),
    ]
    if language.number_words is None:
        return (*first, *amounts, *_of("abbreviations", abbreviations.patterns(code)))
    return (
        *first,
        *_of("symbols", formulas.glued(code, language)),
        *_of("numbers", emoji.keycaps(language)),
        *_of("numbers", names.in_english(language)),
        *_of("numbers", verses.patterns(language)),
        *_of("numbers", chess.patterns(language)),
        *_of("numbers", ranges.scales_of_maps(language) if code != "pl" else ()),
        *(Rule("numbers", *each, "/") for each in ranges.beside_years(language)),
        *(Rule("numbers", *each, "(") for each in ranges.bracketed(language)),
        *_of("times", zones.patterns(language)),
        *_of("numbers", phones.patterns(language)),
        *_of("numbers", fractions.pressures(code, language, unit_name)),
        *_of("units", units.alternatives(language, symbol_units)),
        *_of("units", rates.patterns(language, symbol_units, unit_name)),
        *(Rule("units", *each, "/") for each in units.slashed(language, symbol_units)),
        *_of("abbreviations", weekdays.patterns(language)),
        *_of("numbers", american.patterns(language) if code == "en" else ()),
        *_of("abbreviations", streets.ways() if code == "en" else ()),
        *_of("times", polish_hours.timetables(language) if code == "pl" else ()),
        *_of("dates", polish.days(language) if code == "pl" else ()),
        *_of("numbers", chapters.patterns(code, language)),
        *_of("dates", months.patterns(code, language)),
        *_of("dates", dates.patterns(code, region, language)),
        *_of("numbers", polish.patterns(language) if code == "pl" else ()),
        *_of("numbers", dutch.patterns(language) if code == "nl" else ()),
        *_of("numbers", german.compounds() if code == "de" else ()),
        *_of("times", laps.hundredths(language)),
        *_of("numbers", korean.patterns(language) if code == "ko" else ()),
        *_of("numbers", digits.papers(language)),
        *_of("numbers", digits.patterns(language)),
        *_of("times", times.patterns(code, language)),
        *_of("currency", money.per_area(language, symbol_units, unit_name)),
        *_of("symbols", symbols.maths(code, language, symbol_units, unit_name)),
        *_of("numbers", ((pattern, stays) for pattern in unread.before_amounts(language))),
        *_of("numbers", roman.patterns(code, language)),
        *_of("numbers", fractions.patterns(code, language, symbol_units, unit_name)),
        *amounts,
        *_of("ordinals", ordinals.patterns(code, language)),
        *_of("numbers", ((pattern, stays) for pattern in unread.after_amounts(language))),
        *_of("numbers", numbers.patterns(code, language)),
        *_of("numbers", names.patterns(code, language)),
        *_of("abbreviations", abbreviations.patterns(code)),
        *_of("symbols", symbols.operators(code, language)),
        *_of("emoji", emoji.patterns(code)),
        *_of("symbols", emoji.silent()),
    )


def _of(
    kind: Kind, readings: Iterable[tuple[re.Pattern[str], Words] | tuple[re.Pattern[str], Words, str]]
) -> list[Rule]:
    return [Rule(kind, *reading) for reading in readings]
