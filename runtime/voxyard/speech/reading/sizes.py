"""Sizes of two sides or three: 4x100 m, 50 ft x 100 ft, 12' x 10'; how often: 3x a day, 2 x täglich."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from voxyard.speech.reading import fractions
from voxyard.speech.reading.attributive import is_attribute
from voxyard.speech.reading.languages import NO_LETTERS, Language
from voxyard.speech.reading.number_words import before_word, cardinal, decimal
from voxyard.speech.reading.patterns import BLANK, BLANKS, ELSEWHERE
from voxyard.speech.reading.ranges import near_score
from voxyard.speech.reading.tables import table

Words = Callable[[re.Match[str]], str | None]
UnitName = Callable[[str, int], str | None]

_PRIMES = {"'": "length-foot", "’": "length-foot", "′": "length-foot"} | dict.fromkeys(
    ('"', "”", "″", "''"), "length-inch"
)
_MIXED = r"\d{1,3}(?: [1-9]\d?/[1-9]\d?(?!\d)| ?[¼-¾⅐-⅞])"
_PRIME = "[\"”″]|''|['’′]"
_WORDS_OF_LENGTH = ("length-meter", "length-centimeter", "length-millimeter", "length-foot", "length-inch")
_RATE = (  # after a blank, as in 2 x täglich
    r"(?=\s(?:p\.[dwmj]\.|täglich|tägl\.|tgl\.|wöchentlich|monatlich|jährlich|stündlich|pro|am|im|in|die|a|an|per|daags|daily|weekly|"
    r"monthly|every|each|dziennie|tygodniowo|miesięcznie|rocznie|na|w|al|par|por|ao|à|alla|[àa]o?s?\s(?:dia|día|semana))"
    r"(?!\w))"
)


_TERM = r"(?:[-−√(]|\d|[^\W\d_](?!\w))"
_EQUATED = re.compile(
    rf"\s?[=≠≈<>≤≥]\s?{_TERM}|\s?[+·×÷]\s?{_TERM}|\s[-−]\s[\d(]\S{{0,5}}(?: ?=|\))"
)  # 2x = 10, 2x + 3y
_AFTER_SIGN = re.compile(r"(?:(?<!\w)[^\W\d_]|[)²³]) ?[=≠≈<>≤≥] ?$")  # y = 2x
_AFTER_PLUS = re.compile(r"(?:(?<!\w)[^\W\d_]|[\d)²³]|\d[xyz]) ?[+·×÷−-] ?$")
_EQUATION = re.compile(
    rf"(?<!\w)-?\d*[xyz]\)? ?[=+] ?{_TERM}|(?<!\w)[^\W\d_] ?= ?-?\d*[xyz]\b|(?:(?<!\w)[^\W\d_]|[\d)])\($"
)
_COEFFICIENT = re.compile(
    r"(?<![\w.,−-])(?P<minus>[-−](?=\d))?(?P<n>\d+(?:[.,]\d+)?)(?P<variable>[xyzXYZ])(?P<power>[²³]|\^[23])?(?!\^?[\w'’/-]|\.\w)"
)
_RELAY = re.compile(r"4 ?[xX×] ?[1248]00\b")
_TEAM, _TEAM_AFTER = re.compile(r"[A-ZÀ-Ý][\w-]+\s$"), re.compile(r"\s[A-ZÀ-Ý][a-zà-ÿ-]")  # Flamengo 2 x 1 Santos
_GOALS = re.compile(r"(?!\d0)\d{1,2} ?x ?(?!\d0)\d{1,2}")  # o Santos venceu por 2x0


def patterns(language: Language, units: Mapping[str, str], unit_name: UnitName) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of sizes, which = after them makes products, and of how often; their words."""
    signs = table(language.locale).signs
    if not signs.by:
        return _rates(language, units)
    letters = r"\w" if language.spaced and language.locale != "ko" else "A-Za-z0-9_"  # 4m이다
    number = rf"\d+(?:{re.escape(language.decimal)}\d+)?"
    side = rf"(?:{_MIXED}|{number})"
    measured = ("length-", "mass-", "volume-")
    lengths = {sign: unit for sign, unit in units.items() if unit.startswith(measured) or len(sign) > 1}
    symbols = "|".join(re.escape(each) for each in sorted(lengths, key=len, reverse=True) if each[0] not in NO_LETTERS)
    unit = rf"(?:(?:{_PRIME})|{BLANK}-?(?:{symbols})(?![{letters}]))"
    inches = r"(?: ?\d{1,2}(?:[\"”″]|''))?"
    named = "|".join(filter(None, (_stem(unit_name(each, 2)) for each in _WORDS_OF_LENGTH)))
    named += "|سانت" if language.locale == "fa" else ""
    own = rf"{side}{unit}{inches} ?[xX×] ?{side}{unit}{inches}"  # each side with a unit
    joint = f"(?:{BLANK}|-)" if language.locale == "en" else BLANK  # a 9x13-in. pan
    dotted = "|".join(rf"(?<={each})" for each in table(language.locale).dotted)
    stop = (
        rf"(?P<stop>(?:{dotted})\.(?=\s?[,;:)]|\s[^\W\dA-ZÄÖÜ_]))?" if dotted else "(?P<stop>(?!))?"
    )  # 12 x 90 Min., ab
    last = rf"{side}(?: ?[xX×] ?{side}){{1,3}}(?:{joint}(?:{symbols})(?![{letters}]){stop}|(?=\s(?:{named})))"
    alone = rf"{side}(?: ?[xX] ?{side}){{1,3}}" if language.spaced else r"(?!)"
    begin = rf"(?<![{letters}.,/'’\"“„-])"
    size = rf"{begin}(?:{own}(?: ?[xX×] ?{side}{unit})?|{last}|{alone})(?![{letters}.,/]\d|[{letters}^⁻]| ?[=≈])"
    blank = " " if language.spaced else ""
    of_side = re.compile(
        rf"(?:(?P<mixed>{_MIXED})|(?P<n>{number}))(?P<unit>{unit})?(?: ?(?P<inches>\d{{1,2}})(?:[\"”″]|''))?"
    )

    def words(found: re.Match[str]) -> str | None:
        packed = language.locale == "en" and _PACKED.search(found[0]) is not None and _is_packed(found, units)
        described = packed or is_attribute(found, language) or re.search(r"\d-[a-z]+\.?$", found[0]) is not None
        said, text, part = [], found[0][:-1] if found["stop"] else found[0], None
        if re.search('["”″]$', text) and "'" not in text.replace("''", ""):  # 8.5" x 11"
            text = re.sub("[\"”″](?=.)|''(?=.)", "", text)
        for each in re.split(" ?[xX×] ?", text):
            if (part := of_side.fullmatch(each)) is None or (one := _side(part, described=described)) is None:
                return None
            said.append(one)
        unit_of = part["unit"].strip(" -") if part and part["unit"] else ""
        packs = len(said) == 2 and units.get(unit_of, "").startswith(("mass", "volume"))  # 2 x 500 g
        by = signs.operators.get("×", signs.by) if packs else _joint(found, language)
        if packed:
            return " ".join(said)
        return (f"{blank}{by}{blank}" if by.strip() else by).join(said)

    def _side(part: re.Match[str], *, described: bool) -> str | None:
        if part["unit"] is None:
            return _count(part, language)
        sign = part["unit"].strip(" -")
        many = int(part["n"]) if language.locale == "pl" and (part["n"] or "").isdigit() else 2
        name = unit_name(_PRIMES.get(sign) or units[sign], 1 if described or part["n"] == "1" else many)
        if name is None or (count := _count(part, language, name)) is None:
            return None
        more = ""
        if part["inches"]:
            inch = unit_name("length-inch", 1 if described or part["inches"] == "1" else 2)
            more = f"{blank}{cardinal(part['inches'], language)}{blank}{inch}"
        return f"{count}{blank}{name.replace(' ', '') if not language.spaced else name}{more}"

    return [
        *_algebra(language),
        *_relays(language, units, symbols, begin, unit_name),
        *_threads(language, number, unit_name),
        *_heights(language, unit_name),
        (re.compile(size), words),
        *_of_words(language, symbols, named),
        *_how_often(language, number),
        *_rates(language, units),
    ]


def _relays(
    language: Language, units: Mapping[str, str], symbols: str, begin: str, unit_name: UnitName
) -> list[tuple[re.Pattern[str], Words]]:
    """4x100-m-Staffel."""
    if language.locale != "de":
        return []
    compound = rf"{begin}(?P<n>\d{{1,2}}) ?[xX×] ?(?P<m>\d{{1,4}})-(?P<symbol>{symbols})(?=-[A-ZÄÖÜ])"

    def words(found: re.Match[str]) -> str:
        unit, by = unit_name(units[found["symbol"]], 1), table("de").signs.by
        return f"{cardinal(found['n'], language)} {by} {cardinal(found['m'], language)}-{unit}"

    return [(re.compile(compound), words)]


_PACKED = re.compile(r"^\d+ ?[xX×] ?[\d.,]+ ?(?P<unit>[^\W\d_]+)$")
_LONG = re.compile(r"\s(?:planks|poles|pipes|rods|cables|ropes|beams|posts|lengths|laps|sprints|repeats|intervals)\b")


def _is_packed(found: re.Match[str], units: Mapping[str, str]) -> bool:
    """True for so many of one measure: 12 x 2.5 m planks, 4 x 100 g packs, but not 2 x 4 m walls."""
    unit = units.get(_PACKED.sub(r"\g<unit>", found[0]), "")
    noun = re.compile(r"\s[a-z]{2,}s\b(?<!ss)") if unit.startswith(("mass", "volume")) else _LONG
    return noun.match(found.string, found.end()) is not None


def _of_words(language: Language, symbols: str, named: str) -> list[tuple[re.Pattern[str], Words]]:
    """The sign between 4 Meter x 5 Meter, 3m × 세로 4m, 5 ft 6 in x 3 ft."""
    signs = table(language.locale).signs
    width = r"(?:(?:세로|높이|폭|두께|깊이)\s?)?" if language.locale == "ko" else ""
    number = rf"\d+(?:{re.escape(language.decimal)}\d+)?"
    length = rf"(?:(?:{symbols})(?![A-Za-z0-9])|{named})"
    before = re.compile(rf"\d ?(?:(?:{symbols})|(?:{named})[^\W\d_]{{0,3}})$")
    pattern = rf"(?<=[^\W\d_]|[㍱-㏟]) ?[xX×] ?(?={width}{number}{BLANK}{length})"

    def words(found: re.Match[str]) -> str:
        if before.search(found.string[max(0, found.start() - 24) : found.start()]) is None:
            return ELSEWHERE
        blank = " " if language.spaced else ""
        return f"{blank}{signs.by.strip()}{blank}"

    return [(re.compile(pattern), words)]


def _threads(language: Language, number: str, unit_name: UnitName) -> list[tuple[re.Pattern[str], Words]]:
    """A screw M6 x 20, M8x1.25 mm."""
    by, blank = table(language.locale).signs.by.strip(), " " if language.spaced else ""
    letters = "A-Za-z0-9_" if not language.spaced or language.locale == "ko" else r"\w"
    sides = rf"(?P<sides>(?: ?[xX×] ?{number}){{1,2}})(?P<mm>{BLANK}mm)?(?![{letters}]|[.,]\d)"

    def words(found: re.Match[str]) -> str:
        said = [f"M{'-' if language.spaced else ''}{cardinal(found['n'], language)}"]
        for each in re.findall(number, found["sides"]):
            whole, _, part = each.partition(language.decimal)
            said.append(decimal(whole, part, language))
        last = re.findall(number, found["sides"])[-1]
        many = int(last) if language.locale == "pl" and last.isdigit() else 2
        unit = unit_name("length-millimeter", many) if found["mm"] else None
        return f"{blank}{by}{blank}".join(said) + (f"{blank}{unit}" if unit else "")

    return [(re.compile(rf"(?<![A-Za-z0-9_])M(?P<n>\d{{1,2}}){sides}"), words)]


_BEFORE_HUNDREDTHS = {"fr": " ", "es": " ", "it": " e ", "pt": " e ", "ja": "", "zh": ""}


def _heights(language: Language, unit_name: UnitName) -> list[tuple[re.Pattern[str], Words]]:
    """1m80, 2 m 05: meters with their hundredths after the unit."""
    joint = _BEFORE_HUNDREDTHS.get(language.locale)
    if joint is None:
        return []
    letters, meter = (r"\w", "m") if language.spaced else ("A-Za-z0-9_", "[m米]")
    noun = r"(?![的はでもがのとだ])[^\W\d_]"
    if language.spaced:
        noun = rf"(?(apart)\s(?!(?:{language.alone})\b)[^\W\d_]|(?!))"
    pattern = rf"(?<![{letters}.,:/-])(?P<n>\d{{1,2}}){BLANK}{meter}(?P<apart>[{BLANKS}])?(?P<cm>\d\d)"
    pattern += rf"(?![{letters}]|[.,:/–-]\d|{BLANK}[%‰€$£°'’′\"″x×]|{noun})"

    def words(found: re.Match[str]) -> str:
        name, cm = str(unit_name("length-meter", int(found["n"]))), found["cm"]
        count = "两" if (language.locale, found["n"]) == ("zh", "2") else cardinal(found["n"], language, name)
        said = f"{count}{' ' if language.spaced else ''}{name}"
        if cm == "00":
            return said
        if language.locale == "zh":  # 一米八
            return said + "".join(cardinal(digit, language) for digit in cm.removesuffix("0"))
        return f"{said}{joint}{cardinal(str(int(cm)), language)}"

    return [(re.compile(pattern), words)]


def _joint(found: re.Match[str], language: Language) -> str:
    """The word between two sides, or two scores: 4 m x 5 m, 4 × 100 m in a relay, o Santos venceu por 2x0."""
    signs = table(language.locale).signs
    before = found.string[max(0, found.start() - 60) : found.start()]
    if language.locale == "pt" and _GOALS.fullmatch(found[0]):
        teams = _TEAM.search(before) and _TEAM_AFTER.match(found.string, found.end())
        if teams or near_score(before, "pt") or "0" in found[0]:
            return signs.score
    if language.locale == "fr" and found[0] == "4x4":
        return "\N{SPACE}"
    return signs.times if language.locale in ("fr", "pl") and _RELAY.match(found[0]) else signs.by


def _count(side: re.Match[str], language: Language, noun: str | None = None) -> str | None:
    """The number of a side, before its unit's name."""
    if side["mixed"]:
        return fractions.mixed(side["mixed"], language, side)
    if language.locale == "zh" and side["n"] == "2" and noun:
        return "两"
    whole, _, part = side["n"].partition(language.decimal)
    return decimal(whole, part, language, noun)


def _algebra(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """2x = 10."""
    return [(_COEFFICIENT, lambda found: _of_algebra(found, language))] if language.spaced else []


def _of_algebra(found: re.Match[str], language: Language) -> str | None:
    """The 2x of an equation or a term; what else stands so is read by the rules that follow: 2x daily."""
    text, (start, end) = found.string, found.span()
    before = text[max(0, start - 80) : start].rpartition("\n")[2]
    equation, no_word = _EQUATION.search(before) is not None, _NO_WORD.match(text, end) is not None
    if not (
        found["power"]
        or _EQUATED.match(text, end)
        or (_AFTER_SIGN.search(before) and not _A_RATE.match(text, end))
        or (_AFTER_PLUS.search(before) and (equation or (no_word and not before.rstrip().endswith("-"))))
        or (equation and no_word)
    ):
        return ELSEWHERE
    whole, _, part = found["n"].partition(language.decimal)
    if not whole.isdigit():
        return ELSEWHERE
    minus = f"{language.minus} " if found["minus"] else ""
    signs = table(language.locale).signs
    power = "" if not found["power"] else f" {signs.squared if found['power'] in ('²', '^2') else signs.cubed}"
    return f"{minus}{decimal(whole, part, language)} {found['variable']}{power}"


_A_RATE = re.compile(_RATE)
_NO_WORD = re.compile(r"\s*(?:[^\w\s]|$)|\s(?:and|or|und|oder|et|ou|y|o|e|ed)\s")


def _rates(language: Language, units: Mapping[str, str]) -> list[tuple[re.Pattern[str], Words]]:
    """3 veces/día: what stands after the slash of a rate; that of a unit, 24 hrs/day, is read with it."""
    own = table(language.locale)
    known = "|".join(re.escape(each) for each in own.per if each.isalpha() and len(each) > 1)
    if not known:
        return []
    pattern = rf"(?:(?<=[^\W\d_]{{3}})|(?<=[^\W\d_]{{2}}\.))/(?P<per>{known})(?!\w)"

    def words(found: re.Match[str]) -> str:
        word = re.search(r"\S+$", found.string[max(0, found.start() - 20) : found.start()])
        known = word is not None and (word[0] in units or word[0] + found[0] in own.counted)  # obr./min
        return ELSEWHERE if known else f" {own.per[found['per']]}"

    return [(re.compile(pattern), words)]


def _stem(name: str | None) -> str:
    """The beginning of a unit's name that its plurals share."""
    return "" if name is None else re.escape(re.sub(r"[^\W\d_]{1,2}$", "", name) if len(name) > 4 else name)


def _how_often(language: Language, number: str) -> list[tuple[re.Pattern[str], Words]]:
    """3x, 3x/day, 2 x täglich."""
    signs = table(language.locale).signs
    if not signs.times or not language.spaced:
        return []
    noun = r"|(?=\s[^\W\d_]{3})" if language.locale == "de" else ""  # 2 x Milch
    rate = r"(?:/(?P<per>[^\W\d_]{2,12}))?(?![\w-])"
    fold = rf"(?<![\w.,-])(?P<n>(?!0[xX]){number})(?:(?:[x×]|(?<!\d\d)X){rate}|\s[xX×](?:{_RATE}{noun}))"

    def words(found: re.Match[str]) -> str:
        of = table(language.locale).per.get(found["per"], f"{signs.per} {found['per']}")
        per = f" {of}" if found["per"] else ""  # 3x/day
        whole, _, part = found["n"].partition(language.decimal)
        if found["n"] == "1" and signs.once:
            return signs.once + per
        said = (None if part else before_word(whole, signs.times, language)) or decimal(whole, part, language)
        return f"{said}{'' if signs.times == 'mal' else ' '}{signs.times}{per}"

    return [(re.compile(fold), words)]
