"""Products and quotients of units in words: 12 N/m, 0.9 mPa·s, 0.24 W/(m²·K), 5 m s⁻¹, 5 mg/kg/d."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from voxyard.speech.reading import german
from voxyard.speech.reading.attributive import is_attribute
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import before_range, before_word, decimal, signed
from voxyard.speech.reading.patterns import BLANKS, ELSEWHERE, number_of, range_or_number
from voxyard.speech.reading.si import plural, si
from voxyard.speech.reading.tables import Forms, table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None], str]
UnitName = Callable[[str, int], str | None]

_POWER = r"⁻[¹²³]|[²³]|\^-?[123]|[23](?!\d)"
_RAISED = str.maketrans("¹²³⁻", "123-", "^")
_DOT = r"[·⋅*]"
_SQUARES = {
    "en": ("square ", "cubic "), "de": ("Quadrat", "Kubik"), "nl": ("vierkante ", "kubieke "),
    "fr": (" carré", " cube"), "es": (" cuadrado", " cúbico"), "it": (" quadrato", " cubo"),
    "pt": (" quadrado", " cúbico"),
}  # fmt: skip
_ROMANCE = ("fr", "es", "it", "pt")
_LENGTH = re.compile(r"(?:m[eè]t(?:er|r[eoi])s?|inch(?:es)?|foot|feet|miles?)$")
_AND = {"de": " und ", "fr": " et par ", "es": " y "}  # between units below
_LETTERS = "AJNKFHCTS"  # units alone beside others
_BESIDE = {  # words near a letter that is a unit alone
    "N": r"force|load|tension|thrust|weigh|kraft|kräfte|last|zug|schub|gewicht|kracht|belasting",
    "MN": r"force|load|thrust|kraft|last|schub|kracht|belasting",
    "t": r"displac|mass|load|weigh|cargo|payload|tonn",
    "J": r"energ|work|heat|impact|shock|arbeit|wärme|leistet|arbeid|warmte|schok",
    "T": r"field|magnet|mri|mrt|scanner|feld|veld",
    "C": r"charge|ladung|lading",
    "d": r"\b(?:for|after|within|every|über|für|nach|binnen|innerhalb von|gedurende|na)$"
    r"|period of|half-li|umlauf|halbwert|omloop|halfwaarde",
    "K": r"\bat$|\bbei$|\bbij$|\bt\s?[=≈<>]$|temperat|kelvin|superconduct|supraleit|supergeleid",
}


def patterns(language: Language, symbols: Mapping[str, str], unit_name: UnitName) -> list[Reading]:
    """Patterns of an amount of a product or a quotient of units, their words and what they need.

    A quotient of two units that CLDR knows is left to the rule of units.
    """
    own = table(language.locale)
    if not own.si:
        return []
    names = _names(language, symbols, unit_name)
    below = _below(language, names, unit_name)
    above, under = (f"(?:{'|'.join(sorted(each, key=len, reverse=True))})" for each in (names, below))
    joint = f"(?:{_DOT}|[{BLANKS}])"
    inverse = rf"{above}(?:⁻[¹²³]|\^-[123])"
    product = rf"{above}(?:{_POWER})?(?:(?:{_DOT}|(?<=[²³])){above}(?:{_POWER})?){{0,2}}"
    one = rf"{under}(?:{_POWER})?"
    brackets = rf"\({one}(?:(?:{joint}|(?<=[²³])){one}){{1,2}}\)"
    quotient = rf"{product}(?:/(?:{brackets}|{one}(?:{_DOT}{one})?)){{1,2}}"
    powers = rf"(?:{above}(?:{_POWER})?{joint}){{0,2}}?{inverse}(?:{joint}{inverse}){{0,2}}"
    unit = rf"(?P<unit>{quotient}|{powers}|{product})(?![\w/²³⁻(^]|{_DOT}\w)"
    has_sign = re.compile(r"[/·⋅*⁻]|\^-")
    token = re.compile(rf"({under})({_POWER})?")

    def said(text: str, form: int) -> tuple[str, str]:
        """The unit in words, and the name that the number stands before."""
        head, *rates = text.split("/")
        atoms = [(name, power.translate(_RAISED)) for name, power in token.findall(head)]
        first = [(name, power) for name, power in atoms if not power.startswith("-")]
        of_all, at_first = language.locale == "fr", language.locale in _ROMANCE
        factors = [
            _raised(names[name][form if of_all or at == (1 if at_first else len(first)) else 0], power, language)
            for at, (name, power) in enumerate(first, start=1)
        ]
        per = [[(name, power[1:])] for name, power in atoms if power.startswith("-")]
        per += [[(name, power.translate(_RAISED)) for name, power in token.findall(each)] for each in rates]
        joint = _AND.get(language.locale, " ")
        divisors = [joint.join(_raised(below[name], power, language) for name, power in each) for each in per]
        words = [_product(factors, language)] if factors else []
        noun = names[first[0][0]][0] if factors and at_first else "".join(factors[-1:])
        return " ".join(
            [*words, *(each if each in own.per.values() else f"{own.signs.per} {each}" for each in divisors)]
        ), noun

    def after(found: re.Match[str]) -> str:
        return f" {said(found['unit'], 1)[0]}" if has_sign.search(found["unit"]) else ELSEWHERE

    def words(found: re.Match[str]) -> str | None:
        text = found["unit"]
        first, _, last = text.partition("/")
        if first in symbols and (not last or text in symbols or last in symbols or last in own.per):
            return ELSEWHERE
        if re.fullmatch(r"[A-Z]/[A-JL-Z]", text) or not has_sign.search(text):  # 3 N/A answers
            return ELSEWHERE
        return amount(found, text)

    def alone(found: re.Match[str]) -> str:
        before = re.split("[.!?;] ", found.string[max(0, found.start() - 60) : found.start()])[-1].rstrip()
        near = f"{before}\n{re.split('[.!?;] ', found.string[found.end() : found.end() + 40])[0]}"
        beside = re.search(_BESIDE[found["unit"]], near, re.IGNORECASE | re.MULTILINE)
        return amount(found, found["unit"]) if beside else ELSEWHERE

    def amount(found: re.Match[str], text: str) -> str:
        whole, part = number_of(found)
        one = whole in ("0", "1") if language.locale in ("fr", "pt") else whole == "1" and not part
        unit, noun = said(text, 0 if one or is_attribute(found, language) else 1)
        start = before_range(found, language, noun)
        if start is None:
            return ELSEWHERE
        before = found.string[max(0, found.start() - 40) : found.start()]
        if language.locale == "de" and unit == noun and german.is_dative(before, noun):
            unit += "n"
        number = None if part or language.locale not in _ROMANCE else before_word(whole, unit.split()[0], language)
        return f"{start}{signed(found, language)}{number or decimal(whole, part, language, noun)} {unit}"

    after_power = re.compile(rf"(?<=[⁰¹²³⁴-⁹])[{BLANKS}]{unit}")
    figures = rf"[-−+]?\d[\d.,–{BLANKS}-]{{0,24}}"
    first = rf"{figures}[^\W\d]{{1,4}}[²³]?(?:[{BLANKS}][^\W\d]{{1,4}}[²³]?){{0,2}}"
    found: list[Reading] = [
        (re.compile(rf"(?={first}{re.escape(sign)}){range_or_number(language)}[{BLANKS}]?{unit}"), words, sign)
        for sign in ("/", "·", "⋅", "⁻", "^-")
    ]
    name, end = f"(?:{'|'.join(_BESIDE)})", r"(?![\w°'’/²³⁻(-]|\s(?:an?|per)\b)"
    letter = re.compile(rf"(?={figures}{name}{end}){range_or_number(language)}[{BLANKS}](?P<unit>{name}){end}")
    return [*found, (after_power, after, "10"), _of_noun(language, below), (letter, alone, "")]


def _of_noun(language: Language, below: Mapping[str, str]) -> Reading:
    """12,000 requests/s, 123 g CO2/km."""
    units = r"(?P<name>s|min|h|d|ha|k?m|kg|kWh|[lL])(?P<power>[²³]?)(?![\w/²³'’])"
    counted = re.compile(rf"\d[kM]?[{BLANKS}](?P<unit>[^\W\d_]+\s)?(?P<noun>[^\W\d_]+2?)$")

    def words(found: re.Match[str]) -> str:
        before = counted.search(found.string[max(0, found.start() - 40) : found.start()])
        if before is None or (before["unit"] is None and before["noun"] in below):
            return ELSEWHERE
        unit = _raised(below[found["name"]], found["power"].translate(_RAISED), language)
        return f" {table(language.locale).signs.per} {unit}"

    return re.compile(rf"(?:(?<=[^\W\d_]{{3}})|(?<=O2)|(?<=O₂)|(?<=[gl] [A-Z])|(?<=[\d ]ct))/{units}"), words, "/"


def _names(language: Language, symbols: Mapping[str, str], unit_name: UnitName) -> dict[str, Forms]:
    """Symbols without powers, also those of one letter, and their names of one and of more."""
    own = table(language.locale)
    letters = {each: own.si[each] for each in _LETTERS}
    found = {each: (unit_name(unit, 1) or "", unit_name(unit, 2) or "") for each, unit in symbols.items()}
    found |= {each: (forms[0], forms[-1]) for each, forms in own.counted.items()}
    mega = own.si["M-"] + own.si["N"].lower()
    found["MN"] = (mega, plural(mega, language.locale))
    found["t"] = (unit_name("mass-tonne", 1) or "", unit_name("mass-tonne", 2) or "")
    found["d"] = (unit_name("duration-day", 1) or "", unit_name("duration-day", 2) or "")
    found |= si(language.locale) | {each: (name, plural(name, language.locale)) for each, name in letters.items()}
    return {each: forms for each, forms in found.items() if re.fullmatch(r"[^\W\d]{1,4}", each)}


def _below(language: Language, names: Mapping[str, Forms], unit_name: UnitName) -> dict[str, str]:
    """The same of what stands after "per", with days, years and other words: wk, night."""
    own = table(language.locale)
    years = {"a": unit_name("duration-year", 1) or ""}
    words = {each: said.removeprefix(f"{own.signs.per} ") for each, said in own.per.items() if each.isalpha()}
    return years | words | {each: forms[0] for each, forms in names.items()}


def _raised(name: str, power: str, language: Language) -> str:
    """Square meters, but seconds squared."""
    signs = table(language.locale).signs
    if power in ("", "1"):
        return name
    if language.locale == "de" or _LENGTH.search(name):
        square = _SQUARES[language.locale][int(power) - 2]
        if language.locale not in _ROMANCE:
            return square + name.lower()
        return name + (f"{square[:-1]}i" if name[-1] == "i" else square + "s" * (name[-1] == "s"))
    return f"{name} {(signs.squared, signs.cubed)[int(power) - 2]}"


def _product(names: list[str], language: Language) -> str:
    """Newton meters, Newtonmeter, newtonmeter."""
    if language.locale in ("en", "es", "it", "pt"):
        return " ".join(names)
    if language.locale == "fr":  # newtons-mètres
        return "-".join(names)
    return " ".join(names) if any(" " in each for each in names) else names[0] + "".join(names[1:]).lower()
