"""Powers, angles, formulas and signs of maths in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from voxyard.speech.reading import money, polish, sizes
from voxyard.speech.reading.digits import one_by_one
from voxyard.speech.reading.languages import CURRENCIES, Language
from voxyard.speech.reading.number_words import cardinal, decimal, ordinal
from voxyard.speech.reading.numbers import labelled
from voxyard.speech.reading.patterns import BLANK, BLANKS, ELSEWHERE
from voxyard.speech.reading.tables import Forms, Signs, table

Words = Callable[[re.Match[str]], str | None]
UnitName = Callable[[str, int], str | None]

_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SUPERSCRIPTS = f"{_RAISED}⁻⁺"
_SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
_FORMULAS = (
    "H2O2|H2O|H2SO4|H2|CO2|CH4|C6H12O6|C2H5OH|CaCO3|CaCl2|Cl2|O2|O3|N2O|N2|NO2|NH3|NaHCO3|Na2CO3|SO2|SO3|SiO2|HNO3|"
    "Fe2O3|Al2O3|TiO2|MgCl2"
)


_JAPANESE = {"2": "ツー", "3": "スリー", "4": "フォー", "5": "ファイブ", "6": "シックス"}  # of a formula


def maths(
    code: str, language: Language, units: Mapping[str, str], unit_name: UnitName
) -> list[tuple[re.Pattern[str], Words]]:
    """Powers, angles, formulas: what stands at a number and belongs to it."""
    signs = table(code).signs
    if not signs.power:
        return sizes.patterns(language, units, unit_name)
    sub = str.maketrans(_SUBSCRIPTS, "0123456789")
    sup = str.maketrans(_SUPERSCRIPTS, "0123456789-+")
    separator = re.escape(language.decimal)
    letters = r"\w" if language.spaced else "A-Za-z0-9_"

    def power(found: re.Match[str]) -> str | None:
        if rated.search(found.string[max(0, found.start() - 12) : found.start()]):
            return ELSEWHERE  # 800 W/m²
        exponent = found["exponent"].translate(sup).replace("−", "-")
        said = _base(found["base"], language)
        if said is None:
            return None
        return _counted(said + _power(exponent, signs, code, language), found["symbol"], language, units, unit_name)

    def formula(found: re.Match[str]) -> str:
        pieces = re.findall(r"[A-Z][a-z]?|\d+|[a-z.]+", found[0].translate(sub))
        return " ".join(
            _JAPANESE.get(each, cardinal(each, language))
            if each.isdigit() and code == "ja"
            else cardinal(each, language)
            if each.isdigit()
            else language.point
            if each == "."
            else each
            for each in pieces
        )

    def angle(found: re.Match[str]) -> str | None:
        if signs.degrees is None or signs.minutes is None or signs.seconds is None:
            return None
        said = [language.minus] if found["sign"] else []
        for figure, names in (("degrees", signs.degrees), ("minutes", signs.minutes), ("seconds", signs.seconds)):
            if found[figure]:
                whole, _, part = found[figure].partition(language.decimal)
                said.append(f"{decimal(whole, part, language, names[0])} {_form(names, whole, part)}")
        return " ".join([*said, *([signs.poles.get(found["pole"], found["pole"])] if found["pole"] else [])])

    def feet(found: re.Match[str]) -> str:
        foot = "foot" if found["inches"] else "feet"
        inches = f" {cardinal(found['inches'], language)}" if found["inches"] else ""
        return f"{cardinal(found['feet'], language)} {foot}{inches}"

    signs_of_money = "".join(each for each in CURRENCIES if len(each) == 1)
    no_price = (
        rf"(?<![{signs_of_money}]/)(?!(?<=\d\d/)[kcd]?m[²³])" if language.spaced else "(?<!/)"
    )  # 14,20 €/m², $1.50/m²
    letter = rf"(?<!m/)(?<!\d[万亿億千])(?<!\d )(?<!\d\N{{NO-BREAK SPACE}}){no_price}[A-Za-z]{{1,2}}"
    base = rf"(?<![{letters}.,])(?P<base>\d[\d.,]{{0,12}}|{letter})"
    symbols = _either(*units, *table(code).counted, *CURRENCIES)
    unit = rf"(?:[  ]?(?P<symbol>{symbols})(?![{letters}⁻]))?"
    rated = _rated(units)
    scientific, exponential = _scientific(code, signs, language, unit)
    figure = rf"\d{{1,4}}(?:{separator}\d+)?"
    # 3° piso and il 3° are ordinals
    no_unit = r"(?! ?[^\W\d_])" if code in ("es", "it", "pt") else r"(?! ?[CFKR]\b)"
    no_unit += r"(?:(?<=\d\d°)|(?<=[-−]\d°))" if code == "it" else ""
    minutes = rf"(?: ?(?P<minutes>{figure}) ?['′’])(?: ?(?P<seconds>{figure}) ?(?:[\"″”]|''))?"
    found: list[tuple[re.Pattern[str], Words]] = [
        _difference(signs, language),
        (scientific, lambda match: _counted(exponential(match), match["symbol"], language, units, unit_name)),
        *sizes.patterns(language, units, unit_name),
        (
            re.compile(rf"{base}\^\((?P<exponent>[^()\n{_SUPERSCRIPTS}]{{1,20}})\)"),
            lambda match: _to_the_power(match, signs, language),
        ),
        *_areas(signs, language, units, unit_name),
        (re.compile(rf"{base}(?P<exponent>[⁻⁺]?[{_RAISED}]+){unit}(?![{letters}{_SUPERSCRIPTS}])"), power),
        (re.compile(rf"{base}\^(?P<exponent>[-−]?(?:\d{{1,3}}|[a-z])){unit}(?![{letters}^]|[.,]\d)"), power),
        (
            re.compile(rf"(?<![{letters}])(?:{_FORMULAS})(?![{letters}])"),
            formula,
        ),
        (
            re.compile(rf"(?<![{letters}])(?=[A-Za-z]*[{_SUBSCRIPTS}])(?:[A-Z][a-z]?[{_SUBSCRIPTS}]*)+(?![{letters}])"),
            formula,
        ),
        (
            re.compile(
                rf"(?<![{letters}.,])(?P<sign>[-−](?<![{letters})\]][-−]))?(?P<degrees>{figure}) ?°"
                rf"(?:{minutes}|(?P<none>){no_unit})(?: ?(?P<pole>[NSEWO])(?![\w'’]))?(?![^\W_])"
            ),
            angle,
        ),
    ]
    if code == "en":
        found.append(
            (
                re.compile(
                    r"(?<![\w.,])(?P<feet>\d{1,2})['′’](?P<inches>)(?=\s(?:tall|high|long|wide|deep|apart|away)\b)"
                ),
                feet,
            )
        )
        found.append(
            (re.compile(r"(?<![\w.,])(?P<feet>\d{1,2})['′’][ -]?(?P<inches>\d{1,2})(?:[\"″”]|''|(?![\w'’]))"), feet)
        )
    return found


def _scientific(
    code: str, signs: Signs, language: Language, unit: str
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], str]]:
    """3e-4; without a sign in languages where 2e is no ordinal: 1.5e6."""
    mark = r"(?:e|E(?=[-−+]))" if code in ("en", "de", "nl") else "[eE](?=[-−])"
    factor = rf"(?P<factor>\d{{1,3}}(?:{re.escape(language.decimal)}\d+)?)"
    pattern = rf"(?<![\w.,-]){factor}{mark}\+?(?P<exponent>[-−]?\d{{1,3}})(?!\d){unit}(?![\w.,-]\d|\w)"

    def words(found: re.Match[str]) -> str:
        ten = cardinal("10", language) + _power(found["exponent"].replace("−", "-"), signs, code, language)
        times = _said(signs, "×") if language.spaced else signs.operators.get("×")
        return ten if found["factor"] == "1" or not times else f"{_base(found['factor'], language)}{times}{ten}"

    return re.compile(pattern), words


def _counted(
    said: str, symbol: str | None, language: Language, units: Mapping[str, str], unit_name: UnitName
) -> str | None:
    """A power and what it counts: 10⁶ m², 10⁶ €, 10⁶ hab.; None where the language has no name for that."""
    if symbol is None:
        return said
    counted = table(language.locale[:2]).counted.get(symbol)
    if symbol in CURRENCIES:
        unit: str | None = money.name_of(CURRENCIES[symbol], 10, language)
    else:
        unit = unit_name(units[symbol], 10) if counted is None else counted[min(2, len(counted) - 1)]
    return None if unit is None else f"{said}{' ' if language.spaced else ''}{unit}"


def stars(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """2**10, which is neither emphasis nor a masked number."""
    signs = table(code).signs
    separator = re.escape(language.decimal)
    pattern = (
        rf"(?<![\w.,*/-])(?P<base>\d{{1,6}}(?:{separator}\d{{1,3}})?)"
        r"(?P<blank> ?)\*\*(?P=blank)(?P<exponent>[-−]?\d{1,3})(?![\w*]|[.,]\d)"
    )

    def words(found: re.Match[str]) -> str | None:
        base = _base(found["base"], language) if signs.power else None
        exponent = found["exponent"].replace("−", "-")
        return None if base is None else base + _power(exponent, signs, code, language)

    return [(re.compile(pattern), words)]


def _to_the_power(found: re.Match[str], signs: Signs, language: Language) -> str | None:
    """2^(n+1): the base to the n plus one."""
    base, blank = _base(found["base"], language), " " if language.spaced else ""
    pieces = [
        cardinal(each, language) if each.isdigit() else signs.operators.get("−" if each == "-" else each, each)
        for each in re.findall(r"\d+|[^\W\d_]|[^\s\w]", found["exponent"])
    ]
    return None if base is None else f"{base}{blank}{signs.power}{blank}{' '.join(pieces)}"


def _difference(signs: Signs, language: Language) -> tuple[re.Pattern[str], Words]:
    """10-5=5."""
    letters, separator = r"\w" if language.spaced else "A-Za-z0-9_", re.escape(language.decimal)
    side = rf"\d+(?:{separator}\d+)?"
    pattern = re.compile(rf"(?<![{letters}.,-])(?P<a>{side}) ?[-−–] ?(?P<b>{side})(?= ?[=＝≈])")

    def words(found: re.Match[str]) -> str:
        blank = " " if language.spaced else ""
        parts = (each.partition(language.decimal) for each in (found["a"], found["b"]))
        sides = [decimal(whole, part, language) for whole, _, part in parts]
        return f"{blank}{signs.operators.get('−', language.minus)}{blank}".join(sides)

    return pattern, words


def _areas(
    signs: Signs, language: Language, units: Mapping[str, str], unit_name: UnitName
) -> list[tuple[re.Pattern[str], Words]]:
    """Miles de m², hab./km²: a unit that has no number before it."""
    squares = "|".join(re.escape(each) for each in sorted(units, key=len, reverse=True) if each[-1] in "²³")
    if not language.spaced:
        return []
    per = rf"(?<=[^\W\d_]|\.)(?<!\d[{BLANKS}][A-Za-z])(?<!\d[A-Za-z])(?P<per>/)"
    area = rf"(?:{per}|(?<![\w/])(?<![\d{_SUPERSCRIPTS}][{BLANKS}]))(?P<symbol>{squares})(?![\w/])"  # not 10⁶ m²

    rated = _rated(units)

    def words(found: re.Match[str]) -> str | None:
        if rated.search(found.string[max(0, found.start() - 12) : found.end("per")]):
            return ELSEWHERE  # 1000 kg/m³
        one = found["per"] or _ONE_OF.search(found.string[max(0, found.start() - 8) : found.start()])
        name = unit_name(units[found["symbol"]], 1 if one else 2)
        if not found["per"] or name is None:
            return name
        return f" {signs.per} {name}" if signs.per else None

    def per_unit(found: re.Match[str]) -> str | None:
        name = unit_name(units[found["per"]], 1)
        return f" {signs.per} {name}" if name and signs.per else None

    after_power = rf"(?<=[{_SUPERSCRIPTS}])(?<![A-Za-z][{_SUPERSCRIPTS}])/(?P<per>{_either(*units)})(?![\w/])"
    return [(re.compile(area), words), (re.compile(after_power), per_unit)]  # 7.4 x 10⁹/L


def _rated(units: Mapping[str, str]) -> re.Pattern[str]:
    """The end of what stands before the area or the power of a rate: 5 l/, 1000 kg/, $3/."""
    return re.compile(rf"(?:\d{BLANK}(?:{_either(*units)})|[$€£]\d[\d.,]*)/$")


def _either(*symbols: str) -> str:
    """Pattern of one of these that begins with a letter or a sign of money."""
    symbols = tuple(each for each in symbols if each[0].isalpha() or each in CURRENCIES)
    return "|".join(re.escape(each) for each in sorted(symbols, key=len, reverse=True))


_ONE_OF = re.compile(r"\b(?:per|pro|je|par|au|le|por|el|al|il|o|ao)\s$")  # le prix au m²


def _base(text: str, language: Language) -> str | None:
    """Words of a power's base; None where its figures are no number of the language."""
    if not text[0].isdigit():
        return text
    grouped = rf"\d{{1,3}}(?:[{re.escape(language.groups)}]\d{{3}})+"
    found = re.fullmatch(rf"(\d+|{grouped})(?:{re.escape(language.decimal)}(\d+))?", text)
    return None if found is None else decimal(re.sub(r"\D", "", found[1]), found[2] or "", language)


def _form(names: Forms, whole: str, part: str) -> str:
    return names[0] if whole == "1" and not part else names[1]


def _power(exponent: str, signs: Signs, code: str, language: Language) -> str:
    blank = " " if language.spaced else ""
    if exponent == "2":
        return blank + signs.squared
    if exponent == "3":
        return blank + signs.cubed
    negative = exponent.startswith("-")
    figures = exponent.lstrip("+-")
    if not figures.isdigit():
        return f"{blank}{signs.power}{blank}{figures}"
    minus = f"{language.minus}{blank}" if negative else ""
    match code:
        case "en":
            return f" {signs.power} {minus}{ordinal(int(figures), language)}"
        case "ja":
            return f"の{minus}{cardinal(figures, language)}乗"
        case "pl":
            return f" do {minus}{polish.inflected(int(figures), 'ej', language)}"
        case "zh":
            return f"的{minus}{cardinal(figures, language)}次方"
        case _:
            return f" {signs.power} {minus}{cardinal(figures, language)}"


_ARGUMENT = r"(?:[a-zA-Z]{1,3}|\d+(?:[.,]\d+)?)[²³]?"
_FUNCTION = re.compile(rf"(?<![\w.(])[OPFTfgtp](?=\({_ARGUMENT}(?:[ ,+*/|²³^−-]+{_ARGUMENT}){{0,4}}\))")  # O(n log n)
_ASCII = {">=": "≥", "<=": "≤", "!=": "≠", "==": "="}
_IS = re.compile(
    r"(?:\b(?:is|be|of)|(?<![^\s(])[a-zA-Z]?[a-z]{2,}\.?|\b(?:with|met)\s(?:(?:an?|een)\s)?[A-Z][\w-]+)\s?$|,$"
)  # no letter of a formula


def operators(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Signs between numbers and letters of a formula, and signs beside blanks."""
    signs = table(code).signs

    def spoken(found: re.Match[str]) -> str | None:
        sign = found[0].strip()
        if sign == ">" and found.string[: found.start()][-1:] in ("", "\n"):
            return None  # of a quoted line
        words = signs.operators.get(_ASCII.get(sign, sign))
        if not words:
            return None
        if not language.spaced:
            return words
        text, (start, end) = found.string, found.span()
        if words.startswith("is ") and _IS.search(text[max(0, start - 16) : start]):
            words = words[3:]  # was < 0.001, aged ≥65
        before = " " if start and (text[start - 1].isalnum() or text[start - 1] in ",;") else ""  # >=3.11,<4
        return before + words + ("" if text[end : end + 1].isspace() else " ")

    def about(_: re.Match[str]) -> str | None:
        words = signs.operators.get("≈")
        return None if not words else words + " " * language.spaced

    def numbered(found: re.Match[str]) -> str | None:
        words = signs.operators.get("№")
        digits = found["number"]
        said = cardinal(digits, language) if len(digits) < 7 else one_by_one(digits, language)
        return None if not words else f"{words} {said}"

    figure = r"[\d)\]²³½¼¾\w%€$£¥]"
    found: list[tuple[re.Pattern[str], Words]] = []
    if signs.operators:
        found = [
            *_wide_dashes(language),
            (re.compile(r"(?:(?<=\d V)|(?<=\dV)) ?~ ?(?=\d+(?:[/–-]\d+)? ?Hz)"), lambda _: ", "),  # 230 V ~ 50 Hz
            (
                re.compile(r"(?<=[\d)\]²³）]) ?(?P<sign>[×÷·*=+]) ?(?=[\d(√−-])"),
                lambda match: _between(match, signs, language),
            ),
            (
                re.compile(r"(?<=[49][05]e)(?P<sign>\+)(?=\d)"),
                lambda match: _between(match, signs, language),
            ),  # la 90e+3
            (
                re.compile(rf"(?<={figure}) (?P<sign>[=+×÷≈≠≤≥<>→]|>=|<=|!=|==) (?=[\w(√−±$€£¥-]|\.\d)"),
                lambda match: _between(match, signs, language),
            ),
            (
                re.compile(r"(?<=[\w)]) [−–-] (?=[\w()]{1,12}(?: [+×÷·−–-] [\w()]{1,12}){0,4} [=≈])"),
                lambda _: _said(signs, "−"),
            ),
            (re.compile(r"(?<=\d[xyz]) [−–-] (?=\d{1,5}[a-z]?(?:\)| ?=))"), lambda _: _said(signs, "−")),
            (
                re.compile(r"(?<=\d[%€]| [%€]) : (?=[\d.,]+ ?[%€])"),
                lambda _: f" {signs.ratio} " if signs.ratio else None,
            ),
            (re.compile(r"(?<=\d) : (?=\d+(?:[.,]\d+)? ?[=≈])"), lambda _: _said(signs, "÷")),
            (re.compile(r"(?<=\d) x (?=[$€£]\d)"), lambda _: _said(signs, "×")),
            (re.compile(r"(?<=\d) / (?=\d+(?:[.,]\d+)? ?[=≈])"), lambda _: _said(signs, "÷")),
            (
                re.compile(r"(?<=\d) x (?=\d+(?:[.,]\d+)?(?: x \d+(?:[.,]\d+)?){0,4} ?[=≈])"),
                lambda _: _said(signs, "×"),
            ),
            (re.compile(r"(?<=[²³]) ?(?P<sign>[+=−-]) ?(?=[A-Za-z])"), lambda match: _between(match, signs, language)),
            (  # χ²
                re.compile(r"(?<=[α-ωΑ-Ω])[²³](?![\w⁰-⁹])"),
                lambda match: (signs.squared if match[0] == "²" else signs.cubed) or None,
            ),
            (  # F = m·a
                re.compile(r"(?<=[A-Za-zα-ωΑ-Ω²³½\d])(?P<sign>[·*]|(?<!\d)/)(?=[A-Za-zα-ωΑ-Ω](?![A-Za-zα-ωΑ-Ω]))"),
                lambda match: _product(match, signs, language),
            ),
            (
                re.compile(r"(?<=[^\W\d_]\. )\+(?= [^\W\d_])"),
                lambda _: signs.operators.get("+"),
            ),  # 900 zł/mies. + media
            (re.compile(r"(?<=[A-Za-z])×(?=[一-龥][一-龥ぁ-ん]{0,3}\d)"), lambda _: signs.by or None),  # 50cm×横30cm
            (
                re.compile(r"(?<=(?<!\w)[A-Za-z])(?P<sign>=)(?=-?\d)"),
                lambda match: _between(match, signs, language),
            ),  # n=48
            (re.compile(r"(?<=\d) ?[xX] ?(?=10(?:\^|[⁻⁰-⁹¹²³]))"), lambda _: _said(signs, "×")),
            *_beside_numbers(language, signs),
            (re.compile(r"(?P<sign>(?:(?<![<>=!])(?:>=|<=|!=|==)|[±≈≤≥<>])) ?(?=[\d$€£]|\.\d)"), spoken),
            (re.compile(r"(?<![\w.,/])~ ?(?=[\d$€£])"), about),
            (re.compile(r"(?<![\w#&])#(?P<number>\d{1,14})(?![\w.,]\d)(?!\w)"), numbered),
            (re.compile(r"(?<=[²³])/(?P<n>\d{1,3})(?![\w/]|[.,]\d)"), lambda match: _divided(match, signs, language)),
            (
                re.compile(r"(?:(?<=[=≈] [A-Za-z])|(?<=[=≈] [A-Za-zρμ][A-Za-z]))/(?=[A-Za-zρμ](?!\w))"),
                lambda _: _said(signs, "÷"),
            ),
            (_FUNCTION, lambda match: _function(match, signs, language)),
            (re.compile(r"√\(?(?=[\w(])"), lambda _: signs.root + " " if signs.root else None),
            (re.compile(r"(?<=\s)(?P<sign>&)(?=\s)"), spoken),
            (re.compile(r"[∑∫∞]|(?<=\b[A-Ga-g])[♯♭♮]"), spoken),
            (re.compile(r"§§(?=\s?\d)"), lambda match: _sections(match, signs)),
            (re.compile(r"(?P<sign>[§№])(?=\s?\d)"), spoken),
        ]
    return found


def _wide_dashes(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """1964年〜1970年, from one to the other."""
    if language.spaced or not language.to:
        return []
    return [
        (
            re.compile(
                r"(?<=[年月日時时分点人円元歳岁個个号周週%％℃]|\d(?=[〜~～]午))[〜~～–-](?=[\d$¥€午])|(?<=℃)[〜~～](?=[-−]\d)"
            ),
            lambda _: language.to,
        ),
        (re.compile(r"(?<=\d)[〜~～](?=[-−+]?\d)"), lambda _: language.to),
        (re.compile(r"(?<=[月火水木金土日祝][)）])[〜~～](?=\d)"), lambda _: language.to),  # 1日(月)〜3日
    ]


_BRACKET = re.compile(r"< ?[^\W\d_]{2}[^<>\d]{0,40}>")  # < name >
_LONGEST_BRACKET = 44


def _is_bracket(found: re.Match[str]) -> bool:
    """True for a sign around a word, which compares nothing."""
    at = found.start("sign")
    near = _BRACKET.finditer(found.string, max(0, at - _LONGEST_BRACKET), at + _LONGEST_BRACKET)
    return any(at in (each.start(), each.end() - 1) for each in near)


def _between(found: re.Match[str], signs: Signs, language: Language) -> str | None:
    words = signs.operators.get(_ASCII.get(found["sign"], found["sign"]))
    if not words or (found["sign"] in "<>" and _is_bracket(found)):
        return None
    if words.startswith("is ") and _IS.search(found.string[max(0, found.start() - 16) : found.start()]):
        words = words[3:]  # was < 0.001
    return f" {words} " if language.spaced else words


def _product(found: re.Match[str], signs: Signs, language: Language) -> str | None:
    """F = m·a, R = ρ·l/S: a product of letters, or a quotient, after an equals sign."""
    if _EQUATED.search(found.string[max(0, found.start() - 20) : found.start()]) is None:
        return ELSEWHERE
    return _said(signs, "÷") if found["sign"] == "/" else _between(found, signs, language)


_EQUATED = re.compile(r"[=≈]\s?(?:[A-Za-zα-ωΑ-Ω](?![A-Za-zα-ωΑ-Ω])|[\d·*/+−²³½ ()])*$")


def _function(found: re.Match[str], signs: Signs, language: Language) -> str | None:
    """O(n log n), but Table F(3)."""
    return f"{found[0]} {signs.of} " if signs.of and not labelled(found, language) else None


def _divided(found: re.Match[str], signs: Signs, language: Language) -> str | None:
    """The rest of qL²/8."""
    by = _said(signs, "÷")
    return None if by is None else by + cardinal(found["n"], language)


def _said(signs: Signs, sign: str) -> str | None:
    words = signs.operators.get(sign)
    return f" {words} " if words else None


def _beside_numbers(language: Language, signs: Signs) -> list[tuple[re.Pattern[str], Words]]:
    """100+ users, $5M–$10M."""
    if not language.spaced:
        return []
    found: list[tuple[re.Pattern[str], Words]] = []
    if plus := signs.operators.get("+"):
        after = r"(?:(?<=\d)|(?<=\d[KMBk\"″])|(?<=\dbn)|(?<=M(?:io|rd)\.)|(?<=\b(?:mln|mld))|(?<=km|kg|GB)|(?<=[€%]))"
        found.append((re.compile(rf"{after}\+(?=\s(?![\d(])|[.,;:!?)]|$)"), lambda _: f" {plus}"))
    if language.to:
        found.append((re.compile(r"(?<=\d)~(?=\d)"), lambda match: f" {language.to} " if _is_range(match) else None))
        found.append((re.compile(r"(?<=[\dMKBkmn])[–-](?=[$€£]\d)"), lambda _: f" {language.to} "))
    return found


_BEFORE_WAVE = re.compile(r"(?:^|[^\w.,^~-])\d{1,3}(?:[.,]?\d{3})*$")


def _is_range(wave: re.Match[str]) -> bool:
    """10~20, no version such as 2.3~4 or 3.0-rc0~41."""
    return _BEFORE_WAVE.search(wave.string[max(0, wave.start() - 20) : wave.start()]) is not None


def _sections(found: re.Match[str], signs: Signs) -> str | None:
    blank = "" if found.string[found.end() : found.end() + 1].isspace() else " "
    return signs.sections + blank if signs.sections else None
