"""Rules of a language: patterns of dates, times, amounts, units, ordinals and numbers, and their words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from voxyard.speech.reading import dates, money, times, unread
from voxyard.speech.reading.abbreviations import ABBREVIATIONS, AND, TITLES
from voxyard.speech.reading.languages import LANGUAGES, UNITS, Language
from voxyard.speech.reading.number_words import (
    ELIDED,
    before_range,
    before_word,
    cardinal,
    decimal,
    has_plural_of_millions,
    is_year,
    of_million,
    ordinal,
    value,
    year,
)
from voxyard.speech.reading.patterns import BLANK, BLANKS, UNREAD, bare, guard, number, number_of, range_or_number

Kind = Literal["numbers", "ordinals", "currency", "dates", "times", "units", "abbreviations"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_YEAR = r"((?:1[1-9]|20)\d\d)"
_NEXT_WORD = re.compile(r"[\s-](?:[^\S\n])?([^\W\d_]+)")

Words = Callable[[re.Match[str]], str | None]


@dataclass(frozen=True)
class Rule:
    """A pattern and its words. `words` returns None where what was found stays as it is, for all rules that follow."""

    kind: Kind
    pattern: re.Pattern[str]
    words: Words


@lru_cache(maxsize=64)
def rules(code: str, region: str = "") -> tuple[Rule, ...]:
    """Rules of a language, those first that others must not take apart; none for an unknown language."""
    language = LANGUAGES.get(code)
    if language is None:
        return ()
    found: list[Rule] = []
    if language.number_words is not None:
        found += [Rule("dates", pattern, words) for pattern, words in dates.patterns(code, region, language)]
        found += [Rule("numbers", pattern, _stays) for pattern in unread.before_amounts(language)]
        found += [Rule("times", pattern, words) for pattern, words in times.patterns(code, language)]
    found += [Rule("currency", pattern, words) for pattern, words in money.patterns(language)]
    found += _units(language)
    if language.number_words is not None:
        symbols = "|".join(re.escape(each) for each in {**UNITS, **language.units})
        found += [Rule("numbers", pattern, _stays) for pattern in unread.after_amounts(language, symbols)]
        found += _ordinals(code, language)
        found += _numbers(code, language)
    return (*found, *_abbreviations(code))


def _stays(_: re.Match[str]) -> None:
    return None


def _units(language: Language) -> list[Rule]:
    symbols = {**UNITS, **language.units}
    one_letter = "|".join(sorted(re.escape(each) for each in symbols if len(each) == 1 and each.isalpha()))
    longer = "|".join(
        re.escape(each) for each in sorted(symbols, key=len, reverse=True) if len(each) > 1 or not each.isalpha()
    )
    # a letter needs a blank before it: the 1980s are no seconds
    symbol = rf"(?:{BLANK}(?P<symbol>{longer})|[{BLANKS}](?P<letter>{one_letter}))"
    pattern = re.compile(
        rf"{range_or_number(language)}{symbol}(?![A-Za-z0-9²³/°])"
        if _ends_are_attached(language)
        else rf"{range_or_number(language)}{symbol}(?![^\W_]|[²³/°'’])"
    )

    def words(found: re.Match[str]) -> str | None:
        return _measured(found, symbols[found["symbol"] or found["letter"]], language)

    before = re.compile(rf"(?<![\w%])%{bare(language)}(?![\w%])")

    def percent_before(found: re.Match[str]) -> str:
        return f"yüzde {decimal(*number_of(found), language)}"

    turkish = [Rule("units", before, percent_before)] if language.locale == "tr" else []
    return [*turkish, Rule("units", pattern, words)]


def _ends_are_attached(language: Language) -> bool:
    """True where letters of the language go on directly after a unit: 5%입니다."""
    return language.number_words is not None and (not language.spaced or language.locale == "ko")


def _measured(found: re.Match[str], unit: str, language: Language) -> str | None:
    """A quantity with the unit's name in the right plural; None where the language has no name for it."""
    from babel.numbers import format_decimal
    from babel.units import UnknownUnitError, format_unit

    whole, part = number_of(found)
    amount = value(whole, part)
    if not part and has_plural_of_millions(language) and amount >= 1_000_000:
        amount = 2  # Babel lacks that plural of some units; it is the one of 2 after "de"
    try:
        form = format_unit(amount, unit, "long", locale=language.locale)
    except UnknownUnitError:
        return None
    figures = format_decimal(amount, locale=language.locale)
    if unit in form or "/" in form or form.count(figures) != 1:
        if unit != "concentr-percent" or language.locale != "ko":
            return None
        form = f"{figures} 퍼센트"  # which Babel does not have
    if not language.spaced:
        form = form.replace(" ", "")
    noun = form.replace(figures, "").strip()
    sign = f"{language.minus}{' ' if language.spaced else ''}" if found["sign"] else ""
    if language.number_words is None:
        return None if found["first"] else form.replace(figures, found[0][: found.end("number") - found.start()])
    start = before_range(found, language, noun)
    if start is None:
        return None
    spoken = start + sign + decimal(whole, part, language, noun)
    if unit != "concentr-percent" and (of := of_million(spoken, noun, language)):
        return f"{spoken} {of}{noun}"
    return form.replace(figures, spoken)


def _ordinals(code: str, language: Language) -> list[Rule]:
    def feminine(words: str) -> str:
        return re.sub(r"o\b", "a", words)

    patterns: dict[str, list[tuple[str, Words]]] = {
        "en": [(r"(?P<n>\d{1,6})(?:st|nd|rd|th)\b", lambda found: ordinal(int(found["n"]), language))],
        "fr": [
            (r"1(?:re|ère)\b", lambda _: "première"),
            (r"(?P<n>\d{1,6})(?:er|e|ème)\b", lambda found: ordinal(int(found["n"]), language)),
        ],
        "nl": [(r"(?P<n>\d{1,6})(?:e|de|ste)\b", lambda found: ordinal(int(found["n"]), language))],
        "ru": [
            (rf"(?P<n>\d{{1,4}})-{ending}\b", _with_forms(language, case=case, gender=gender))
            for ending, case, gender in (("й", "n", "m"), ("я", "n", "f"), ("е", "n", "n"), ("го", "g", "m"))
        ],
        "de": [
            (r"(?P<n>\d{1,4})\.(?=\s+[A-ZÄÖÜ])", lambda found: dates.german_ordinal(found, only_after_article=True))
        ],
    }
    for each in ("es", "it", "pt"):
        patterns[each] = [
            (r"(?P<n>(?!0)\d{1,4})\.?º", lambda found: ordinal(int(found["n"]), language)),
            (r"(?P<n>(?!0)\d{1,4})\.?ª", lambda found: feminine(ordinal(int(found["n"]), language))),
        ]
    return [Rule("ordinals", re.compile(guard(language) + pattern), words) for pattern, words in patterns.get(code, [])]


def _with_forms(language: Language, **forms: str) -> Words:
    return lambda found: ordinal(int(found["n"]), language, **forms)


def _numbers(code: str, language: Language) -> list[Rule]:
    found: list[Rule] = []
    if code == "en":
        found.append(Rule("numbers", re.compile(r"(?<![\w.,:/$-])(?P<n>(?:1[1-9]|20)\d0)s\b"), _decade))
    if code in ("de", "pl", "tr"):  # an ordinal whose ending its sentence decides, unless a line begins with it
        found.append(Rule("numbers", re.compile(r"(?<=[^\s\d][ \t])\d{1,4}\.(?=\s+\w)"), _stays))
    if language.scales:
        found.append(_scaled(language))
    if code == "fr":
        found.append(_french_millions(language))
    if language.to:
        found += _ranges(language)
    after = r"(?![^\W\d_])" if language.spaced else r"(?![A-Za-z])"
    if code == "ko":
        after = r"(?=\s|$|[^\w\s]|년|월|일|원|분|초|층|번|호|위|도|세기|만|억|조|퍼센트|미터|킬로)"
    pattern = re.compile(number(language) + after + UNREAD)

    def words(match: re.Match[str]) -> str | None:
        whole, part = number_of(match)
        sign = f"{language.minus}{' ' if language.spaced else ''}" if match["sign"] else ""
        if not part and match["whole"].isdigit() and not sign and is_year(whole) and language.counts_years:
            return year(int(whole), language)
        word = _NEXT_WORD.match(match.string, match.end())
        if part or word is None:
            return sign + decimal(whole, part, language)
        said = before_word(whole, word[1], language)
        if said is None or re.fullmatch(language.alone, word[1], re.IGNORECASE):
            return None if said is None else sign + said
        return sign + f"{said} {of_million(said, word[1], language)}".rstrip()

    return [*found, Rule("numbers", pattern, words)]


def _ranges(language: Language) -> list[Rule]:
    """Two numbers with a dash between them: 3–5, and 1914 – 1918, which is no subtraction."""
    blank = " " if language.spaced else ""

    def between(match: re.Match[str]) -> str | None:
        word = _NEXT_WORD.match(match.string, match.end())
        said = [_whole(match[n], language, word and word[1]) for n in (1, 2)]
        return None if None in said else f"{blank}{language.to}{blank}".join(filter(None, said))

    def years(match: re.Match[str]) -> str | None:
        return between(match) if match[1] < match[2] else None

    end = rf"(?![\w.,:/–-]*\d)(?!\w){UNREAD}"
    return [
        Rule("numbers", re.compile(rf"{guard(language)}(\d{{1,6}})–(\d{{1,6}}){end}"), between),
        Rule("numbers", re.compile(rf"{guard(language)}{_YEAR} – {_YEAR}{end}"), years),
    ]


def _french_millions(language: Language) -> Rule:
    """1 000 000 habitants: un million d'habitants; the blank before the noun goes with the vowel of "de"."""
    figures = rf"(?=[\d{BLANKS}]{{0,20}}?(?:[{BLANKS}]?000){{2}}[{BLANKS}](?!\d))\d[\d{BLANKS}]{{4,20}}\d"
    pattern = rf"{guard(language)}(?P<n>{figures})[{BLANKS}](?!(?:{language.alone})\b)(?={ELIDED})"
    return Rule("numbers", re.compile(pattern), lambda found: cardinal(re.sub(r"\D", "", found["n"]), language) + " d'")


def _whole(digits: str, language: Language, word: str | None) -> str | None:
    if is_year(digits) and language.counts_years:
        return year(int(digits), language)
    return before_word(digits, word, language) if word else cardinal(digits, language)


def _decade(found: re.Match[str]) -> str:
    words = year(int(found["n"]), LANGUAGES["en"])
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def _scaled(language: Language) -> Rule:
    """5 млн: the number and the plural of its scale."""
    from babel import Locale

    plural = Locale.parse(language.locale).plural_form
    scales = "|".join(re.escape(each) for each in language.scales)

    def words(found: re.Match[str]) -> str:
        whole, part = number_of(found)
        noun = language.scales[found["scale"]][plural(value(whole, part))]
        return f"{decimal(whole, part, language, noun)} {noun}"

    return Rule("numbers", re.compile(rf"{number(language)}{BLANK}(?P<scale>{scales})(?!\w)"), words)


def _abbreviations(code: str) -> list[Rule]:
    short = ABBREVIATIONS.get(code, {})
    titles = "|".join(map(re.escape, [*TITLES.get(code, ()), *(key[:-1] for key in short if key[-1] == "^")]))
    another = re.compile(rf"(?:{AND.get(code, '&')}|&)\s+(?:{titles})(?!\w)", re.IGNORECASE)
    return [_abbreviation(key, words, another) for key, words in short.items()]


def _abbreviation(key: str, words: str, another: re.Pattern[str]) -> Rule:
    """The words of an abbreviation; before a capital letter those with `^`, or before `another` title with "and"."""
    short = key.rstrip("#^$")
    how = key[len(short) :]
    first = (
        f"[{short[0].lower()}{short[0].upper()}]" if how in ("", "$") and short[0].isalpha() else re.escape(short[0])
    )
    inside = re.escape(short[1:]).replace(r"\.", r"\.\s?").replace(r"\ ", r"\s?")
    inside = inside.removesuffix(r"\s?")
    last = {"#": r"(?=\s?\d)", "^": r"(?=\s+(?:[^\W\d_]|&))"}.get(how, r"(?!\w)")

    def spoken(found: re.Match[str]) -> str | None:
        after = found.string[found.end() :][:40].lstrip()
        if how == "^" and not after[:1].isupper() and another.match(after) is None:
            return None
        said = words[0].upper() + words[1:] if found[0][0].isupper() else words
        if how == "#" and not found.string[found.end()].isspace():
            return said + " "
        ends = how == "$" and found[0].endswith(".") and (not after or after[0].isupper())
        return said + "." if ends else said

    return Rule("abbreviations", re.compile(rf"(?<![\w.]){first}{inside}{last}"), spoken)
