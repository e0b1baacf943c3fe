"""Amounts of money in words: $5.50, 5,50 €, €5 million."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import CURRENCIES, Language
from voxyard.speech.reading.number_words import before_range, cardinal, decimal, of_million, value
from voxyard.speech.reading.patterns import BLANK, bare, number_of, range_or_number

Words = Callable[[re.Match[str]], str | None]

_OF = {"fr": "de ", "es": "de ", "it": "di ", "pt": "de "}


def patterns(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of amounts, the sign before or after the number, with their words."""
    signs = "|".join(re.escape(each) for each in sorted(CURRENCIES, key=len, reverse=True))
    scales = "|".join(filter(None, [language.magnitudes, *(re.escape(each) for each in language.scales)]))
    scale = rf"(?:{BLANK}(?P<scale>{scales})(?!\w))?" if scales else r"(?P<scale>(?!))?"
    figure, amount = range_or_number(language), bare(language)

    def words(found: re.Match[str]) -> str | None:
        return _amount(found, CURRENCIES[found["currency"]], language)

    before = rf"(?<!\w)(?P<currency>{signs}){BLANK}{amount}(?!%){scale}(?![^\W\d_])"
    after = (
        rf"{figure}{scale}{BLANK}(?P<currency>{signs})(?![\w/])"
        if language.spaced and language.locale != "ko"
        else rf"{figure}{scale}{BLANK}(?P<currency>{signs})(?![A-Za-z0-9/])"
        if language.spaced
        else rf"{figure}(?P<scale>(?!))?{BLANK}(?P<currency>{signs})(?![A-Za-z])"
    )
    if language.locale == "ko":  # $5입니다
        before = before.removesuffix(r"(?![^\W\d_])") + r"(?![A-Za-z])"
    if not language.spaced:
        before = rf"(?<![A-Za-z])(?P<currency>{signs}){BLANK}{amount}(?P<scale>(?!))?(?![A-Za-z])"
    return [(re.compile(before), words), (re.compile(after), words)]


def _amount(found: re.Match[str], code: str, language: Language) -> str | None:
    whole, part = number_of(found)
    blank = " " if language.spaced else ""
    sign = f"{language.minus}{blank}" if found["sign"] and language.minus else found["sign"] or ""
    scale, name = found["scale"], _name(code, value(whole, part), language)
    if found.groupdict().get("first") is not None:
        if language.number_words is None or found["first_part"] or (part and scale is None):
            return None
        start = before_range(found, language, language.scales.get(scale, {}).get("one", scale) or name)
        if start is None:
            return None
        sign = start
    if scale is not None:
        return f"{sign}{_scaled(whole, part, scale, language)} {_of(scale, code, language)}"
    if language.number_words is None:
        figures = found[0][found.start("number") - found.start() : found.end("number") - found.start()]
        return f"{figures}{blank}{name}"
    if len(part) != 2:
        return _named(sign + decimal(whole, part, language, name), name, language)
    name = _name(code, int(whole), language)
    start = _named(sign + cardinal(whole, language, name), name, language)
    if part == "00":
        return start
    joint = f"{blank}{language.money_and}{blank}" if language.money_and else blank
    return f"{start}{joint}{cardinal(part, language)}"


def _named(words: str, name: str, language: Language) -> str:
    return f"{words}{' ' if language.spaced else ''}{of_million(words, name, language)}{name}"


def _scaled(whole: str, part: str, scale: str, language: Language) -> str:
    from babel import Locale

    if scale in language.scales:
        scale = language.scales[scale][Locale.parse(language.locale).plural_form(value(whole, part))]
    return f"{decimal(whole, part, language, scale)} {scale}"


def _of(scale: str, code: str, language: Language) -> str:
    name = _name(code, 1_000_000, language)
    of = _OF.get(language.locale, "") if scale not in ("mille", "mil", "mila") else ""
    return ("d'" if of == "de " and language.locale == "fr" and name[0] in "aeiou" else of) + name


def _name(code: str, amount: object, language: Language) -> str:
    """The currency's name after this amount, without its country where the sign alone means it."""
    from babel.numbers import get_currency_name

    name = get_currency_name(code, count=amount, locale=language.locale)  # type: ignore[arg-type]
    if language.locale == "pt":
        name = name[0].lower() + name[1:]
    pattern, replacement = language.names.get(code, ("", ""))
    return re.sub(pattern, replacement, name) if pattern else name
