"""Fractions in words: 3/4, 1 1/2, 2½, with the unit after them; two numbers with a slash that are none: 24/7."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

from voxyard.speech.reading import german, persian
from voxyard.speech.reading.attributive import is_attribute
from voxyard.speech.reading.languages import NO_LETTERS, Language
from voxyard.speech.reading.number_words import before_word, cardinal, decimal, ordinal
from voxyard.speech.reading.patterns import BLANK, ELSEWHERE
from voxyard.speech.reading.tables import table
from voxyard.speech.reading.units import is_quoted

Words = Callable[[re.Match[str]], str | None]
UnitName = Callable[[str, int], str | None]  # a unit's name after so many

_GLYPHS = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"
_SHARES = ("%", "％", "‰")
_USUAL = frozenset({*range(2, 11), 12, 16, 20, 25, 32, 50, 64, 100, 125, 250, 500, 1000})
_OF = {"fr": "de ", "es": "de ", "it": "di ", "pt": "de "}


def patterns(
    code: str, language: Language, units: Mapping[str, str], unit_name: UnitName
) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of fractions with their words; none where the language has no words for them."""
    if not table(code).fractions and language.spaced:
        return _decimal_marks(code, language)
    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    symbols = "|".join(
        re.escape(each) for each in sorted(units, key=len, reverse=True) if each[0] not in NO_LETTERS or each in _SHARES
    )
    inch = r"[\"″”](?!\w)"
    unit = (
        rf"(?:{BLANK}(?P<symbol>{symbols})(?!\w)(?:\.(?=\s*[,;:a-zäöü]))?|(?P<inch>{inch}))"
        if language.spaced
        else f"(?:{BLANK}(?P<symbol>{'|'.join(_SHARES)}))"
    )
    before = rf"(?<![{letters}/@#^$€£])(?<![\d{letters}][.,:/–-])(?P<sign>(?<=[^\n][\s(=])[-−])?"
    whole = rf"(?:(?P<whole>\d{{1,3}})(?:[ -]|{BLANK}))?"
    if code in _HALVES:  # 2½ tazas, 2½ cdas.
        own = (key[:-1] for key in table(code).abbreviations if re.fullmatch(r"[a-zà-ÿœ]{3,}\.", key))
        shorts = "|".join(own) or "(?!)"
        noun = rf"(?P<noun>(?:{shorts})\.(?=\s[a-z])|[a-zà-ÿœ]{{3,}}(?!\w))"
        unit = rf"(?:{unit}|(?(whole)\s(?!(?:{language.alone}|d[aeiou]l?)\b){noun}|(?!)))"
    unit = f"{unit}?" if unit else ""
    after = rf"(?![{letters}/])(?![.,]\d)" if language.spaced else r"(?![A-Za-z0-9/])"

    def words(found: re.Match[str]) -> str | None:
        if found["glyph"]:
            above, _, below = unicodedata.normalize("NFKC", found["glyph"]).partition("\N{FRACTION SLASH}")
        else:
            above, below = found["above"], found["below"]
        symbol = found.groupdict().get("symbol")
        name = _noun(found, code)
        if found.groupdict().get("inch"):
            quoted = found["inch"] != "″" and is_quoted(found.string, found.start())
            many = 2 if found["whole"] and not is_attribute(found, language) else 1
            inch = None if quoted else unit_name("length-inch", many)
            said = _fraction(code, language, found["whole"], int(above), int(below), inch, found)
            return said if said is None or not quoted else said + found["inch"]
        if not (found["whole"] or name or symbol) and (said := _marked(code, language, above, below, found)):
            return said
        if symbol:
            name = unit_name(units[symbol], 2 if found["whole"] else 1)
            if name is None:
                return None
        if symbol in _SHARES and code not in ("de", "nl"):
            return _share(code, language, name or "", int(above), int(below), found)
        return _fraction(code, language, found["whole"], int(above), int(below), name, found)

    glyph = re.compile(rf"{before}{whole}(?P<glyph>[{_GLYPHS}])(?P<above>)(?P<below>)(?!\d){unit}")
    slashed = re.compile(
        rf"{before}{whole.replace(BLANK, '(?!)')}(?P<above>[1-9]\d{{0,2}})[/⁄](?P<below>[1-9]\d{{0,3}})(?P<glyph>)"
        rf"(?!\d){unit}{after}"
    )
    if code == "fa":
        return [*_decimal_marks(code, language), (glyph, words), *persian.decimals(language)]
    first = [
        *_laws(code, language),
        *_labelled(code, language),
        *_spoonfuls(code, language),
        *_decimal_marks(code, language),
        *_points(code, language),
    ]
    with_sign = _with_sign(words, code, language)
    return [*first, *_of_all(language), (glyph, with_sign), (slashed, with_sign)]


def _with_sign(words: Words, code: str, language: Language) -> Words:
    """Those words after a minus, where the fraction has one; then it is a number, and no date or mark: -5/18."""

    def signed(found: re.Match[str]) -> str | None:
        said = words(found)
        if said is None or not found["sign"]:
            return said
        above, below = found["above"], found["below"]
        if above and code in _SIGNED and int(above) < int(below) and said == _pair(language, int(above), int(below)):
            said = parts_of(code, language, int(above), int(below))
        return f"{language.minus}{' ' * language.spaced}{said}"

    return signed


def _of_all(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """(n = 124/150): so many of all."""
    if language.locale not in ("en", "de", "nl"):
        return []
    pattern = re.compile(r"(?<=[(= ;])(?P<a>\d{1,6})/(?P<b>\d{2,6})(?=\))")

    def words(found: re.Match[str]) -> str:
        before = found.string[max(0, found.start() - 6) : found.start()]
        if int(found["a"]) > int(found["b"]) or not re.search(r"(?:[nN]\s?=\s?|%\s?\(|%;\s)$", before):
            return ELSEWHERE
        return (
            f"{cardinal(found['a'], language)} {table(language.locale).signs.out_of} {cardinal(found['b'], language)}"
        )

    return [(pattern, words)]


def _share(code: str, language: Language, name: str, above: int, below: int, found: re.Match[str]) -> str | None:
    """33⅓ %, whose name has no half after it."""
    said = _fraction(code, language, found["whole"], above, below, None, found)
    if said is None:
        return None
    if code == "zh":
        return f"{'千' if found['symbol'] == '‰' else '百'}分之{said}"
    return f"{said}{' ' if language.spaced else ''}{name}"


def pressures(code: str, language: Language, unit_name: UnitName) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of a pressure of the blood, with their words: 120/80 mmHg; 120/80 after the word for it."""
    own = table(code)
    if not own.signs.over:
        return []
    letters = r"\w" if language.spaced and code != "ko" else "A-Za-z0-9_"
    blank = " " if language.spaced else ""
    told = re.compile(rf"(?:{'|'.join(own.pressure) or '(?!)'})[^.!?。！？]{{0,40}}$", re.IGNORECASE)
    pattern = rf"(?<![{letters}.,/-])(?P<above>\d{{2,3}})/(?P<below>\d{{1,3}})"
    pattern += rf"(?:{BLANK}(?P<unit>mmHg|㎜Hg))?(?![{letters}/]|[.,-]\d)"

    def words(found: re.Match[str]) -> str | None:
        before = found.string[max(0, found.start() - 60) : found.start()]
        likely = int(found["above"]) >= _LEAST_PRESSURE or code in _IN_CENTIMETRES
        pair = _TO_PRESSURE.match(found.string, found.end())  # fell from 150/95 to 132/84 mmHg
        if not found["unit"] and not pair and not (likely and told.search(before)):
            return ELSEWHERE
        above, below = (cardinal(found[each], language) for each in ("above", "below"))
        over = own.signs.over if code == "ko" else f"{blank}{own.signs.over}"  # a particle
        many = int(found["below"]) if code == "pl" else 2
        unit = f"{blank}{unit_name('pressure-millimeter-ofhg', many)}" if found["unit"] else ""
        return f"{above}{over}{blank}{below}{unit}"

    return [(re.compile(pattern), words)]


_TO_PRESSURE = re.compile(r"\s[^\W\d_]{1,5}\s\d{2,3}/\d{2,3}\s?mmHg")
_LEAST_PRESSURE = 60
_IN_CENTIMETRES = ("pt", "fa")  # 12/8


_LABELLED = re.compile(
    r"(?<![\w.,/-])(?:(?<=\b[Ff]lat )|(?<=\b[Aa]pt )|(?<=\b[Aa]pt\. )|(?<=\b[Uu]nit )|(?<=\b[Dd]ate: ))"
    r"(?P<above>[1-9]\d?)/(?P<below>[1-9]\d?)(?![\w/]|[.,]\d)"
)


def _labelled(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Flat 3/5, which is not a part of a whole."""
    if code != "en":
        return []
    return [(_LABELLED, lambda found: _pair(language, int(found["above"]), int(found["below"])))]


def mixed(text: str, language: Language, found: re.Match[str]) -> str | None:
    """A whole number and a fraction, 8 1/2 or 8½, without a noun; None where the language has no words for it."""
    whole, above, below = re.findall(r"\d+", re.sub(f"(?=[{_GLYPHS}])", " ", text).translate(_AS_FIGURES))
    if not table(language.locale).fractions and language.spaced:
        return None
    return _fraction(language.locale, language, whole, int(above), int(below), None, found)


_AS_FIGURES = {ord(each): unicodedata.normalize("NFKC", each) for each in _GLYPHS}


def _noun(found: re.Match[str], code: str) -> str | None:
    """The noun after a number and a half, in the singular after one."""
    name = found.groupdict().get("noun")
    if name:  # cdas. de sal
        name = table(code).abbreviations.get(f"{name.rstrip('.')}.", name)
    if not name or found["whole"] != "1":
        return name
    if name.endswith(("as", "os")):
        return str(name[:-1])  # una taza y media
    if code == "it" and name[-1] in "ei":
        return str(name[:-1]) + {"e": "a", "i": "o"}[name[-1]]  # una tazza e mezza
    return name


def _decimal_marks(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """4.5/5."""
    out_of = _FULL_MARKS.get(code) or table(code).signs.out_of
    if not out_of:
        return []
    letters = r"\w" if language.spaced and code != "ko" else "A-Za-z0-9_"
    separator = re.escape(language.decimal)
    mark = rf"(?<![{letters}.,:/-])(?P<whole>\d{{1,3}}){separator}(?P<part>\d)/(?P<best>5|10|20|100)(?:{separator}0)?"

    def words(found: re.Match[str]) -> str:
        said, best = decimal(found["whole"], found["part"], language), cardinal(found["best"], language)
        return f"{best}{out_of}{said}" if code in _FULL_MARKS else f"{said} {out_of} {best}"

    return [(re.compile(rf"{mark}(?![{letters}/]|[.,]\d)"), words)]


_FULL_MARKS = {"ja": "点中", "zh": "分里", "ko": "점 만점에 "}


def _points(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """18/20点, 95/100分."""
    if code not in ("ja", "zh"):
        return []
    joint, noun = _FULL_MARKS[code], {"ja": "点", "zh": "分"}[code]
    pattern = re.compile(rf"(?<![A-Za-z0-9_.,:/-])(?P<n>\d{{1,3}})/(?P<best>\d{{1,3}})(?={noun}(?![之钟]))")
    return [(pattern, lambda found: f"{cardinal(found['best'], language)}{joint}{cardinal(found['n'], language)}")]


_BEST_MARKS = (10, 20, 30, 40, 50, 60, 100, 110)
_SIZE = re.compile(  # of clothes
    r"(?<!\w)(?:sizes?|größen?|ma(?:at|ten)|tailles?|tallas?|tagli[ae]|tamanhos?)\s$", re.IGNORECASE
)
_PAGE = re.compile(r"\b[Pp](?:age|ágina|agina)\s$")  # page 1/12
_OF_A_WHOLE = re.compile(
    r"\s?(?:[\"″”'′]|(?:of|de|di|der|des|do|da|von|dei|dell|delle|degli|des|du|inch|in\.|mile|cup|Liter)\b|d['’])"
)


def _marked(code: str, language: Language, above: str, below: str, found: re.Match[str]) -> str | None:
    """18/20 on a test; None for a part of a whole."""
    out_of = table(code).signs.out_of
    if out_of and _PAGE.search(found.string[max(0, found.start() - 8) : found.start()]):
        return f"{cardinal(above, language)} {out_of} {cardinal(below, language)}"
    if not out_of or int(below) not in _BEST_MARKS or not 1 < int(above) <= int(below):
        return None
    if above == below and below not in ("10", "100", "110"):
        return None
    if _OF_A_WHOLE.match(found.string, found.end()):
        return None
    if _SIZE.search(found.string[max(0, found.start() - 12) : found.start()]):
        return f"{cardinal(above, language)}, {cardinal(below, language)}"
    return f"{cardinal(above, language)} {out_of} {cardinal(below, language)}"


def _spoonfuls(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """1/2 c. à c., 1 c. à s., 3/4 cuil. à café: of a noun that is feminine."""
    if code != "fr":
        return []
    names = {"s": "soupe", "c": "café"}
    fraction = rf"(?P<above>[1-9])/(?P<below>[1-9])|(?P<glyph>[{_GLYPHS}])"
    pattern = (
        rf"(?<![\w.,/–-])(?:(?P<whole>\d{{1,2}})(?:\s|(?=[{_GLYPHS}c])))?(?:{fraction})?(?(whole)|(?(above)|(?(glyph)|(?!))))"
        r"\s?(?:de\s)?c(?:uill?)?\.?\s?à\.?\s?(?P<what>[sc]\b\.?|soupe\b|café\b)"
    )

    def words(found: re.Match[str]) -> str | None:
        what = found["what"].rstrip(".")
        spoon = f"cuillère à {names.get(what, what)}"
        figures = found["glyph"].translate(_AS_FIGURES) if found["glyph"] else f"{found['above']}⁄{found['below']}"
        above, _, below = figures.partition("⁄")
        half = (above, below) == ("1", "2")
        if not found["whole"] and half:
            return f"une demi-{spoon}"
        if not found["whole"]:
            return _fraction(code, language, None, int(above), int(below), spoon, found)
        count = before_word(found["whole"], "cuillère", language) or cardinal(found["whole"], language)
        said = f"{count} {spoon if found['whole'] == '1' else spoon.replace('cuillère', 'cuillères')}"
        if not (found["above"] or found["glyph"]):
            return said
        return f"{said} et {'demie' if half else parts_of(code, language, int(above), int(below))}"

    return [(re.compile(pattern), words)]


def _laws(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """The number of a law and its year: ley 123/2020; CF/88."""
    slash = table(code).signs.slash
    if code not in ("es", "it", "pt") or not slash:
        return []
    whole = rf"\d{{1,5}}|\d{{1,3}}{re.escape(language.groups[0])}\d{{3}}"
    grouped = rf"(?<=\d{re.escape(language.groups[0])}\d\d\d/)\d\d"  # Lei nº 8.112/90
    law = rf"(?<![\w.,:/-])(?P<n>{whole})/(?P<year>(?:19|20)\d\d|{grouped})(?![\w/-]|[.,]\d)"

    def words(found: re.Match[str]) -> str:
        number = cardinal(re.sub(r"\D", "", found["n"]), language)
        return f"{number} {slash} {cardinal(found['year'], language)}"

    acronym = r"(?<![\w/])(?:CF|CC|CP[CP]?|CDC|CLT|CTN|CTB|ECA)(?P<n>)/(?P<year>(?:19|20)\d\d|\d\d)(?![\w/-]|[.,]\d)"
    acts = [(re.compile(acronym), lambda found: f"{found[0].partition('/')[0]} de {cardinal(found['year'], language)}")]
    house = re.compile(r"(?<![\w.,:/-])(?P<n>\d{1,4})/(?P<letter>[A-Z])(?![\w/-])")  # via Roma 12/B
    houses = [(house, lambda found: f"{cardinal(found['n'], language)} {slash} {found['letter']}")]
    return [(re.compile(law), words), *houses, *(acts if code == "pt" else [])]


def _fraction(
    code: str, language: Language, whole: str | None, above: int, below: int, unit: str | None, found: re.Match[str]
) -> str | None:
    if above >= below or below not in _USUAL or (below == 12 and above not in (1, 5, 7, 11)):
        return None if whole or unit or below > 99 else _pair(language, above, below)
    blank = " " if language.spaced else ""
    if not language.spaced:
        parts = f"{cardinal(str(below), language)}{'分の' if code == 'ja' else '分之'}{cardinal(str(above), language)}"
        return f"{cardinal(whole, language)}{'と' if code == 'ja' else '又'}{parts}" if whole else parts
    said = parts_of(code, language, above, below)
    if whole is None:
        if code in ("es", "it", "pt") and (above, below) == (1, 2):
            noun = _before(found) or _after(found)
            short = f"{noun}."
            named = table(code).abbreviations.get(short) or table(code).counted.get(short, (noun,))[0]
            said = _half(code, named if unit is None else unit)
            return said if unit is None else f"{said} {unit}"
        if below == 2 and (code == "nl" or (unit is None and code in ("de", "fr"))):
            return _half_alone(code, language, said, unit, found)
        if unit is None and code in ("es", "pt") and _after(found).startswith("parte"):
            return _of_parts(said, found)
        if unit is None:
            measured = code in _OF and below > 2 and _MEASURE.match(found.string, found.end()) is not None
            return f"{said} {_OF[code].rstrip()}" if measured else said
        if below == 2 and code == "de":
            return f"{_german_half(found, unit)} {unit}"
        of = "" if below == 2 or code not in _OF else _OF[code]
        return f"{said}{blank}{of}{unit}"
    if (above, below) == (1, 2) and code in _HALVES and unit is not None:
        return _and_half(code, language, whole, unit)
    if (above, below) == (1, 2):
        words = _with_half(code, language, whole, said, unit or _after(found))
    elif code == "de":
        words = f"{cardinal(whole, language)} {said.replace(' ', '').lower()}"
    else:
        joint = {"en": "and", "nl": "en", "fr": "et", "es": "y", "it": "e", "pt": "e", "fa": "و", "tr": "tam"}[code]
        words = f"{cardinal(whole, language)} {joint} {said}"
    return words if unit is None else f"{words} {unit}"


def _of_parts(said: str, found: re.Match[str]) -> str:
    """Una doceava parte, tres cuartas partes, la tercera parte."""
    count, _, name = re.sub(r"o(s?)$", r"a\1", said.replace("tercio", "tercero")).partition(" ")
    if count not in _ONE_PART:
        return f"{count} {name}"
    article = re.search(r"\b(?:la|a|da|na)\s$", found.string[: found.start()][-4:], re.IGNORECASE)
    return name if article else f"{_ONE_PART[count]} {name}"


_ONE_PART = {"un": "una", "um": "uma"}


def _is_neutral(noun: str) -> bool:
    return table("nl").gender(noun) == "neutral"


def _with_half(code: str, language: Language, whole: str, said: str, noun: str) -> str:
    """Two and a half, zweieinhalb, anderhalve liter, anderhalf uur, tweeënhalf uur."""
    if code == "de":
        return f"{'ein' if whole == '1' else cardinal(whole, language)}einhalb"
    if code != "nl":
        return f"{cardinal(whole, language)} {_WITH_A_HALF.get(code, said)}"
    if whole == "1":
        return "anderhalf" if not noun or _is_neutral(noun) else "anderhalve"
    said = cardinal(whole, language)
    return f"{said}{'ë' if said.endswith('e') else 'e'}nhalf"


def _half_alone(code: str, language: Language, said: str, unit: str | None, found: re.Match[str]) -> str:
    """Half of the noun that follows: ein halbes Brot, une demi baguette, een halve liter; um halb acht."""
    if code == "nl":
        noun_of = unit or _after(found)
        half = "een half" if not noun_of or _is_neutral(noun_of) else "een halve"
        return half if unit is None else f"{half} {unit}"
    if code == "de" and _HALF_HOUR.search(found.string[: found.start()][-8:]):
        return "halb"
    if code == "de":
        noun = re.match(r"\s([A-ZÄÖÜ][^\W\d_]+)", found.string[found.end() : found.end() + 40])
        return _german_half(found, noun[1]) if noun else "einhalb"
    noun_of = _after(found)
    feminine = noun_of and (language.is_feminine(noun_of) or table(code).gender(noun_of) == "feminine")
    return "une demi" if feminine else said


def _german_half(found: re.Match[str], noun: str) -> str:
    """Ein halber Liter, eine halbe Tasse, mit einem halben Pfund; einhalb, where the noun's gender is not known."""
    article = german.one(found.string[max(0, found.start() - 40) : found.start()], noun, measured=False)
    ends = {"masculine": "r", "neutral": "s", "feminine": ""}.get(table("de").gender(noun) or "")
    if ends is None:
        return "einhalb"
    if article in ("einem", "einer", "einen"):
        return f"{article} halben"
    return "einen halben" if article is None else f"{article} halbe{ends}"


_WITH_A_HALF = {
    "en": "and a half",
    "fr": "et demi",
    "es": "y medio",
    "it": "e mezzo",
    "pt": "e meio",
    "fa": "و نیم",
    "tr": "buçuk",
}
_HALVES = {
    "fr": ("et demi", "et demie"),
    "es": ("y medio", "y media"),
    "it": ("e mezzo", "e mezza"),
    "pt": ("e meio", "e meia"),
}


def _and_half(code: str, language: Language, whole: str, noun: str) -> str:
    """Una taza y media: the half comes after the noun, with its gender."""
    ends = re.search(f"(?:{language.feminine_ends or '(?!)'})$", noun) is not None
    feminine = language.is_feminine(noun) or (table(code).gender(noun) or ("feminine" if ends else "")) == "feminine"
    count = before_word(whole, noun, language) or cardinal(whole, language)
    return f"{count} {noun} {_HALVES[code][feminine]}"


def parts_of(code: str, language: Language, above: int, below: int) -> str:
    """Three quarters, drei Viertel, trois quarts."""
    if code == "fa":
        return persian.fraction(above, below, language)
    forms = table(code).fractions.get(below)
    if code == "tr" and forms is not None:  # yarım, dörtte üç
        return forms[0] if below == 2 else f"{forms[0]} {cardinal(str(above), language)}"
    many = above > 1
    if forms is None:
        number = ordinal(below, language)
        if code == "nl":
            name = number
        elif code == "de":
            name = cardinal(str(below), language).capitalize() + "stel"
        elif code in ("es", "pt"):
            name = cardinal(str(below), language).replace(" y ", "i") + (
                " avos" if code == "pt" else "avos"[: 4 if many else 3]
            )
        elif code == "it":
            name = re.sub("o$", "i", number) if many else number
        else:
            name = number + "s" * many
    else:
        name = forms[many]
    count = {"en": "one", "de": "ein", "nl": "een", "fr": "un", "es": "un", "it": "un", "pt": "um"}[code]
    return f"{cardinal(str(above), language) if many else count} {name}"


_SIGNED = ("en", "de", "fr", "nl")
_HALF_HOUR = re.compile(r"\b(?:[Uu]m|[Gg]egen|[Bb]is|[Aa]b|[Nn]ach|[Vv]or)\s$")
_MEASURE = re.compile(  # 1/4 cdta.
    r"\s(?:cdtas?\b|cdas?\b|cucharad|tazas?\b|vasos?\b|kilos?\b|litros?\b|libras?\b|xícaras?\b|xícs?\b|cucchia|tazz[ae]\b|bicchier|litr[oi]\b|colher|copos?\b|tasses?\b|"
    r"verres?\b|cuill|litres?\b|kg\b)"
)


def _before(found: re.Match[str]) -> str:
    """The noun of dos tazas y 1/2."""
    noun = re.search(r"\d\s([^\W\d_]+)\s[ye]\s$", found.string[max(0, found.start() - 30) : found.start()])
    return "" if noun is None else noun[1].removesuffix("s")


def _after(found: re.Match[str]) -> str:
    word = re.match(r"\s(?:d[eio]\s)?([^\W\d_]+)", found.string[found.end() : found.end() + 40])
    return "" if word is None else word[1]


def _half(code: str, noun: str) -> str:
    """Medio litro, media taza: with the noun's gender, in its neutral form where that is not known."""
    masculine, feminine = {"es": ("medio", "media"), "it": ("mezzo", "mezza"), "pt": ("meio", "meia")}[code]
    gender = table(code).gender(noun) if noun else None
    ends = "a" if code != "it" else "ae"
    return feminine if gender == "feminine" or (gender is None and noun[-1:] in ends and noun) else masculine


def _pair(language: Language, above: int, below: int) -> str | None:
    if not language.spaced:
        return None
    return f"{cardinal(str(above), language)} {cardinal(str(below), language)}"
