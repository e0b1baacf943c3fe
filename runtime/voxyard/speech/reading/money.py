"""Amounts of money in words: $5.50, 5,50 €, €5 million, 10 M€, -$5, a $5 bill."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from voxyard.speech.reading.attributive import is_attribute
from voxyard.speech.reading.languages import CURRENCIES, NO_LETTERS, Language
from voxyard.speech.reading.number_words import (
    around_range,
    cardinal,
    decimal,
    of_million,
    signed,
    singular_scale,
    value,
)
from voxyard.speech.reading.patterns import BLANK, BLANKS, bare, bare_range, guard, number_of
from voxyard.speech.reading.tables import form_of, table

Words = Callable[[re.Match[str]], str | None]
UnitName = Callable[[str, int], str | None]

_SIGNS = "$€£¥￥"
_OF = {"fr": "de ", "es": "de ", "it": "di ", "pt": "de "}
_FINALS = 28  # last consonants of a Korean syllable, of which the first is none
_CENTS_IN_WORDS = 10  # below it English says "and five cents", Polish "pięć centów"


def patterns(language: Language, units: dict[str, str], unit_name: UnitName) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of amounts, the sign before or after the number, with their words."""
    words_of = table(language.locale)
    codes = {**CURRENCIES, **words_of.currencies}
    whole = dict.fromkeys(words_of.currencies, r"(?!['’])")  # TL'ye, whose ending goes with the letters
    signs = "|".join(re.escape(each) + whole.get(each, "") for each in sorted(codes, key=len, reverse=True))
    shorts = [re.escape(each) for each in sorted({*language.scales, *words_of.scales_of_money}, key=len, reverse=True)]
    scales = "|".join(filter(None, [language.magnitudes, *shorts]))
    joint = rf"(?:{BLANK}|-(?=(?:{language.magnitudes})\b))" if language.magnitudes else BLANK  # a $5-million deal
    scale = rf"(?:{joint}(?P<scale>{scales})(?!\w|\.\w|-(?![\d{_SIGNS}])))?" if scales else r"(?P<scale>(?!))?"
    measures = sorted({*units, *words_of.per}, key=len, reverse=True)
    symbols = "|".join(re.escape(each) for each in measures if each[0] not in NO_LETTERS)
    per = (
        rf"(?:/(?P<per>(?:{symbols})(?!\w)|[^\W\d_]{{3,20}}))?"
        if words_of.signs.per and language.spaced
        else r"(?P<per>(?!))?"
    )
    repeated = rf"(?:{signs})?{BLANK}"
    figure, amount = guard(language) + bare_range(language), bare_range(language, repeated)
    amount = amount.replace(r"(?![/@_\d])", r"(?![@_\d])")  # $5/hour
    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    minus = rf"(?P<minus>[-−](?<![{letters})\]%*.][-−]))?"

    none = r"(?:,[–—-]{1,2})?" if language.decimal == "," else ""  # 12,– €

    def words(found: re.Match[str]) -> str | None:
        code = "CNY" if language.locale == "zh" and found["currency"] in "¥￥" else codes[found["currency"]]
        dollars, of = code, found.groupdict().get("of")
        if of and found["currency"] != "$":
            return None
        code = _OF_DOLLARS.get(of or "", code)
        said = _amount(found, code, language)
        if said is not None and of and code == dollars and of not in _OF_DOLLARS:  # $500 pesos
            said = re.sub(rf"{name_of(code, 2, language)}|{name_of(code, 1, language)}", of, said, count=1)
        after = found.groupdict().get("after")
        return of_one(said if said is None or not after else said + _particle(said, after), found["per"])

    def of_one(said: str | None, per: str | None) -> str | None:
        if said is None or not per:
            return said
        if per in words_of.per:
            words = words_of.per[per]
            return f"{said}{'' if words[0] == ',' else ' '}{words}"
        unit = unit_name(units[per], 1) if per in units else per
        return None if unit is None else f"{said} {words_of.signs.per} {unit}"

    of_dollars = "|".join(
        [*(each for each in _OF_DOLLARS if len(each) == 3), name_of("USD", 2, language), "pesos"]
        if language.number_words
        else ["(?!)"]
    )
    named = rf"(?:[{BLANKS}]?(?P<of>{of_dollars})(?!\w))?"
    before = rf"(?<!\w){minus}(?<!\w)(?P<currency>{signs}){BLANK}{amount}{none}(?!%){scale}{per}{named}(?![^\W\d_]|/)"
    after = (
        rf"{figure}{none}{scale}{BLANK}(?P<currency>{signs}){per}{named.replace('USD|', 'USD|US|CA|', 1)}(?![\w/])"
        if language.spaced and language.locale != "ko"
        else rf"{figure}{scale}{BLANK}(?P<currency>{signs})(?P<per>(?!))?(?![A-Za-z0-9/])"
        if language.spaced
        else rf"{figure}(?P<scale>(?!))?{BLANK}(?P<currency>{signs})(?P<per>(?!))?(?![A-Za-z])"
    )
    if language.locale == "ko":  # $5입니다
        before = before.removesuffix(r"(?![^\W\d_]|/)") + _PARTICLE + r"(?![A-Za-z])"
        after = after.removesuffix(r"(?![A-Za-z0-9/])") + _PARTICLE + r"(?![A-Za-z0-9/])"
    if not language.spaced:
        sign = rf"(?<![A-Za-z]){minus}(?P<currency>{signs}){BLANK}"
        before = rf"{sign}{amount}(?P<scale>(?!))?(?P<per>(?!))?(?:[元円]|(?![A-Za-z]))"
    found = [
        *_of_myriads(signs, language),
        *_of_one_language(language),
        (re.compile(before), words),
        (re.compile(after), words),
    ]
    if language.decimal == ",":  # $1,250.75, where two figures after a full stop are cents in any language
        other = replace(language, decimal=".", groups=",")
        cents_after = r"(?=[\d,]*\.\d\d(?!\d|[.,]\d))"
        figures = bare_range(other).replace(r"(?![/@_\d])", r"(?![@_\d])")
        before = rf"(?<!\w){minus}(?<!\w)(?P<currency>{signs}){BLANK}{cents_after}{figures}(?!%){scale}{per}{named}"
        before += r"(?![^\W\d_]|/)"
        after = rf"{guard(other)}{cents_after}{bare_range(other)}{scale}{BLANK}(?P<currency>{signs}){per}(?![\w/])"
        found += [(re.compile(before), words), (re.compile(after), words)]
    if of := _OF.get(language.locale):  # 3 millones de €
        alone = re.compile(rf"(?<=\b{of})(?P<currency>[{_SIGNS}])(?![\w{_SIGNS}])")
        found.append((alone, lambda match: name_of(CURRENCIES[match["currency"]], 1_000_000, language)))
    found += _in_words(language)
    if "USD" in words_of.cents:
        cents = re.compile(rf"{guard(language)}(?P<n>\d{{1,3}}){BLANK}¢{per}(?!\w)")  # 59¢/lb
        found.append((cents, lambda match: of_one(_cents(match["n"], "USD", language), match["per"])))
    return found


_PARTICLE = r"(?P<after>(?:으로|[을은이과])(?![가-힣]))?"


def _particle(name: str, after: str) -> str:
    """The particle after a name: 달러를, 원을."""
    if (ord(name[-1]) - ord("가")) % _FINALS:
        return after
    return {"을": "를", "은": "는", "이": "가", "과": "와", "으로": "로"}[after]


def _of_myriads(signs: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """¥3億, $1.5万, $3억."""
    if language.locale not in ("ja", "ko", "zh"):
        return []
    number = rf"(?<![A-Za-z])(?P<minus>[-−](?<![\w)][-−]))?(?P<currency>{signs}){BLANK}{bare(language)}"
    after = rf"(?:[元円원]|\s?달러)?{_PARTICLE}(?!\d)"
    pattern = re.compile(rf"{number}(?P<scale>[千百천백]?[万萬亿億兆만억조]){after}")

    def words(found: re.Match[str]) -> str:
        yuan = language.locale == "zh" and found["currency"] in "¥￥"
        name = name_of("CNY" if yuan else CURRENCIES[found["currency"]], 2, language)
        blank = " " * language.spaced
        minus = f"{language.minus}{blank}" if found["minus"] else ""
        after = found["after"] or ""
        after = _particle(name, after) if after else ""  # 삼억 달러를
        return f"{minus}{decimal(*number_of(found), language)}{found['scale']}{blank}{name}{after}"

    return [(pattern, words)]


def _in_words(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """41,20 Euro: two figures after the decimal sign are cents."""
    if language.number_words is None or not language.spaced or language.locale not in _WITH_CENTS:
        return []
    names = {name_of(code, 2, language): code for code in _WITH_CENTS[language.locale]}
    cents = rf"(?<={re.escape(language.decimal)}\d\d)"
    pattern = rf"{guard(language)}{bare(language)}{cents}{BLANK}(?P<name>{'|'.join(map(re.escape, names))})(?!\w)"

    def words(found: re.Match[str]) -> str:
        return signed(found, language) + _plain(*number_of(found), names[found["name"]], found["name"], language)

    return [(re.compile(pattern), words)]


_WITH_CENTS = {"pt": ("EUR", "USD", "BRL")} | dict.fromkeys(("en", "de", "fr", "es", "it"), ("EUR", "USD"))


def per_area(language: Language, units: dict[str, str], unit_name: UnitName) -> list[tuple[re.Pattern[str], Words]]:
    """What stands after an amount in a language without blanks: 元/m², 円/月, 元/m²/天."""
    if language.spaced or not language.number_words:
        return []
    symbols = "|".join(re.escape(each) for each in sorted(units, key=len, reverse=True) if each[0].isalpha())
    per = "每" if language.locale == "zh" else "パー"
    one = rf"[/／](?:{symbols}|m2|公[斤里]|[月天日年人次晚个個件本枚斤時时分秒小㎡平升克杯张瓶套盒]{{1,4}}(?:方米|米)?)"

    def words(found: re.Match[str]) -> str | None:
        said = []
        for sign in re.split("[/／]", found[0])[1:]:
            unit = {"m2": "m²", "㎡": "m²", "h": "h"}.get(sign, sign)
            name = (unit_name(units[unit], 1) or sign).replace(" ", "") if unit in units else sign
            said.append(per + name)
        return "".join(said)

    return [(re.compile(rf"(?:(?<=[元円块圆銭￥¥$€次人])|(?<=\d[万亿億]))(?:{one})+(?![A-Za-z²³])"), words)]


_OF_DOLLARS = {code: code for code in ("USD", "CAD", "AUD", "NZD", "MXN", "SGD", "HKD", "ARS", "CLP", "COP")}
_OF_DOLLARS |= {"US": "USD", "CA": "CAD", "CAN": "CAD"}


def _of_one_language(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """50-€-Schein, 80$00."""
    if language.locale == "de":
        compound = re.compile(rf"{guard(language)}(?P<n>\d{{1,4}})-(?P<currency>[{_SIGNS}])(?=-[A-ZÄÖÜ])")
        return [(compound, lambda match: _compound(match, language))]
    if language.locale == "pt":
        escudos = rf"{guard(language)}(?P<n>\d{{1,3}}(?:[. ]\d{{3}})+|\d+)\$(?P<cents>\d\d)(?![\w$]|[.,]\d)"
        return [(re.compile(escudos), lambda match: _escudos(match, language))]
    return []


def two_prices(language: Language) -> list[tuple[re.Pattern[str], Words, str]]:
    """$12/$8, 11,50 €/8,50 €, € 5,50/4,-: one price and another; patterns, their words and what they need."""
    if language.locale not in (*_WITH_CENTS, "nl"):
        return []
    cents = rf"{re.escape(language.decimal)}\d\d"
    even = ",[–-]" if language.decimal == "," else "(?!)"
    figure, end = rf"\d{{1,4}}(?:{cents}|{even})?", r"(?![\w/%€$£]|[.,]\d)"
    sign = f"(?P<currency>[{_SIGNS}])"
    before = rf"(?<![\w.,/-]){sign}{BLANK}(?P<a>{figure})\s?/\s?(?:(?P=currency){BLANK}(?P<b>{figure})|"
    before += rf"(?P<c>\d{{1,4}}(?:{cents}|{even}))){end}(?!\s?(?:{language.magnitudes or '(?!)'})\b|[kKmMb]\b)"
    after = rf"{guard(language)}(?P<a>{figure}){BLANK}{sign}\s?/\s?(?P<b>{figure}){BLANK}(?P=currency)(?P<c>(?!))?{end}"

    def words(found: re.Match[str]) -> str:
        code = CURRENCIES[found["currency"]]
        said = []
        for price in (found["a"], found["b"] or found["c"]):
            whole, _, part = price.partition(language.decimal)
            cents = part if part.isdigit() else ""
            said.append(_plain(whole, cents, code, name_of(code, value(whole, cents), language), language))
        return ", ".join(said)

    return [(re.compile(before), words, "/"), (re.compile(after), words, "/")]


def _escudos(found: re.Match[str], language: Language) -> str:
    whole, cents = re.sub(r"\D", "", found["n"]), found["cents"]
    said = _named(cardinal(whole, language, "escudo"), "escudo" if whole == "1" else "escudos", language)
    return said if cents == "00" else f"{said} e {cardinal(str(int(cents)), language)}"


def _compound(found: re.Match[str], language: Language) -> str:
    return f"{cardinal(found['n'], language)}-{name_of(CURRENCIES[found['currency']], 1, language)}"


def _amount(found: re.Match[str], code: str, language: Language) -> str | None:
    whole, part = number_of(found)
    blank = " " if language.spaced else ""
    sign = signed(found, language)
    if found.groupdict().get("minus") and language.minus:
        sign = f"{language.minus}{blank}"
    elif found.groupdict().get("minus"):
        sign = found["minus"]
    scale, name = found["scale"], name_of(code, value(whole, part), language)
    if found["first"] is not None:
        return _range(found, whole, part, code, language) if not sign else None
    if scale is not None:
        return f"{sign}{_scaled(whole, part, scale, language)} {_of(scale, code, language, found)}"
    if language.number_words is None:
        figures = found[0][found.start("number") - found.start() : found.end("number") - found.start()]
        return f"{sign}{figures.lstrip('-−+')}{blank}{name}"
    if is_attribute(found, language):
        name = name_of(code, 1, language)
    return sign + _plain(whole, part, code, name, language)


def _plain(whole: str, part: str, code: str, name: str, language: Language) -> str:
    blank = " " if language.spaced else ""
    if not language.spaced and len(part) == 2:
        part = part.rstrip("0")  # ￥3.50
    if len(part) != 2 or not language.spaced:
        return _named(decimal(whole, part, language, name), name, language)
    if int(whole) == 0 and int(part) and (said := _cents(part, code, language)):
        return said
    name = name if name == name_of(code, 1, language) else name_of(code, int(whole), language)
    start = _named(cardinal(whole, language, name), name, language)
    if part == "00":
        return start
    if language.locale == "en" and int(part) < _CENTS_IN_WORDS and (said := _cents(part, code, language)):
        return f"{start} and {said}"
    joint = f"{blank}{language.money_and}{blank}" if language.money_and else blank
    if (language.locale in ("fa", "tr") or (language.locale == "pl" and int(part) < _CENTS_IN_WORDS)) and (
        said := _cents(part, code, language)
    ):
        return f"{start}{joint}{said}"
    known = table(language.locale).cents.get(code) is not None
    return f"{start}{joint}{cardinal(str(int(part)) if known else part, language)}"


def _cents(part: str, code: str, language: Language) -> str | None:
    forms = table(language.locale).cents.get(code)
    if forms is None:
        return None
    noun = form_of(forms, int(part), language.locale)
    return f"{cardinal(str(int(part)), language, noun)}{' ' if language.spaced else ''}{noun}"


def _range(found: re.Match[str], whole: str, part: str, code: str, language: Language) -> str | None:
    """Three to five dollars; None where the first is not the smaller one, or the language has no word between them."""
    first, first_part = re.sub(r"\D", "", found["first"]), found["first_part"] or ""
    if not language.to or value(first, first_part) >= value(whole, part):
        return None
    blank = " " if language.spaced else ""
    before, joint = around_range(found, language)
    to = f"{blank}{joint}{blank * bool(joint)}"
    if found["scale"] is not None:
        scale = _scale(found["scale"], value(whole, part), language)
        start = before + decimal(first, first_part, language, scale)
        return f"{start}{to}{_scaled(whole, part, found['scale'], language)} {_of(found['scale'], code, language)}"
    name = name_of(code, value(whole, part), language)
    if len(first_part) == len(part) == 2:
        names = (name_of(code, int(first), language), name_of(code, int(whole), language))
        last = _plain(whole, part, code, names[1], language)
        return before + _plain(first, first_part, code, names[0], language) + to + last
    start = before + decimal(first, first_part, language, name)
    if is_attribute(found, language):
        name = name_of(code, 1, language)
    return start + to + _plain(whole, part, code, name, language)


def _named(words: str, name: str, language: Language) -> str:
    return f"{words}{' ' if language.spaced else ''}{of_million(words, name, language)}{name}"


def _scaled(whole: str, part: str, scale: str, language: Language) -> str:
    scale = _scale(scale, value(whole, part), language)
    return f"{decimal(whole, part, language, scale)} {scale}"


def _scale(scale: str, amount: Decimal | int, language: Language) -> str:
    from babel import Locale

    if scale in language.scales:
        return language.scales[scale][Locale.parse(language.locale).plural_form(amount)]
    if (words := table(language.locale).scales_of_money.get(scale)) is None:
        return scale  # is a word already
    return singular_scale(words, amount, language)


def _of(scale: str, code: str, language: Language, found: re.Match[str] | None = None) -> str:
    scale = table(language.locale).scales_of_money.get(scale, scale)
    name = name_of(code, 1 if found is not None and is_attribute(found, language) else 1_000_000, language)
    of = _OF.get(language.locale, "") if scale not in ("mille", "mil", "mila") else ""
    return ("d'" if of == "de " and language.locale == "fr" and name[0] in "aeiou" else of) + name


def name_of(code: str, amount: object, language: Language) -> str:
    """The currency's name after this amount, without its country where the sign alone means it."""
    from babel.numbers import get_currency_name

    name = get_currency_name(code, count=amount, locale=language.locale)  # type: ignore[arg-type]
    if language.locale == "pt":
        name = name[0].lower() + name[1:]
    pattern, replacement = language.names.get(code, ("", ""))
    return re.sub(pattern, replacement, name) if pattern else name
