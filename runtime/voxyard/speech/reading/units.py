"""Quantities with a unit in words: 5 km, 2 oz. of rum, -5 °C, 3–5 %, 60 km/h, a 5 km run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial

from voxyard.speech.reading import german, persian
from voxyard.speech.reading.attributive import is_attribute
from voxyard.speech.reading.languages import NO_LETTERS, Language
from voxyard.speech.reading.number_words import (
    before_range,
    before_word,
    cardinal,
    decimal,
    has_plural_of_millions,
    of_million,
    signed,
    value,
)
from voxyard.speech.reading.numbers import labelled
from voxyard.speech.reading.patterns import (
    BLANK,
    BLANKS,
    ELSEWHERE,
    bare,
    bare_range,
    guard,
    number_of,
    range_or_number,
)
from voxyard.speech.reading.si import si
from voxyard.speech.reading.tables import form_of, table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]


def patterns(language: Language, symbols: Mapping[str, str]) -> list[Reading]:
    """Patterns of quantities with a unit, and their words; `symbols` are the units' names in CLDR by their symbol."""
    own = table(language.locale)
    one_letter = "|".join(
        sorted(re.escape(each) for each in symbols if len(each) == 1 and each.isalpha() and each != "h")
        if language.spaced
        else "mgLlℓ"
    )
    verb = language.locale in ("es", "it")  # il treno 9541 ha
    longer = "|".join(
        r"ha(?=\s(?:de|di|del|y|e)\b|\s?[.,;:)]|\s*$)" if verb and each == "ha" else re.escape(each)
        for each in sorted(symbols, key=len, reverse=True)
        if len(each) > 1 or not each.isalpha() or each == "h"
    )
    apart = f"(?:[{BLANKS}]|(?<=\\d){_glued(language)})" if language.spaced else BLANK
    symbol = rf"(?:{BLANK}(?P<symbol>{longer})|{apart}(?P<letter>{one_letter})(?!\.[^\W\d_]))"
    stop = (
        rf"(?:(?:{'|'.join(rf'(?<=[^a-zA-Z]{re.escape(each)})' for each in own.dotted)})\.(?![\w.]))?"
        if own.dotted
        else ""
    )
    measures = "|".join(
        re.escape(each) for each in sorted({*symbols, *own.per}, key=len, reverse=True) if each[0] not in NO_LETTERS
    )
    after_per = r"(?!\w)" if language.spaced else "(?![A-Za-z0-9²³])"
    dot = (
        rf"(?:(?:{'|'.join(rf'(?<={re.escape(each)})' for each in own.dotted)})\.)?" if own.dotted else ""
    )  # Std./Woche
    word = "[a-zà-ÿąćęłńóśźż]{4,}"  # 2 min/face, 3 g/dobę
    per = rf"(?:{dot}/(?P<per>{measures}|{word}){after_per})?" if own.signs.per else r"(?P<per>(?!))?"
    docket = r"|\s\d{1,4}/\d\d(?!\d)" if language.locale == "de" else ""  # Az. 6 W 12/22
    apostrophe = "'’" if language.locale != "tr" else ""  # 5 km'lik
    pattern = re.compile(
        rf"{range_or_number(language)}{symbol}{per}(?:(?<=[%％])(?![0-9²³/°])|(?![A-Za-z0-9²³/°]))"
        if _ends_are_attached(language)
        else rf"{range_or_number(language)}{symbol}{per}{stop}(?![^\W_]|[²³/°{apostrophe}^]{docket})"
    )

    def words(found: re.Match[str]) -> str | None:
        if found["letter"] and found.end("number") == found.start("letter") and labelled(found, language):
            return ELSEWHERE  # track 5W
        return _measured(found, symbols[found["symbol"] or found["letter"]], symbols, language)

    def described(found: re.Match[str]) -> str | None:
        unit = unit_name(language, symbols[found["symbol"]], 1)
        joint = "-" if language.locale == "de" else " "
        if unit is None or found["sign"]:
            return None
        said = decimal(*number_of(found), language)
        return f"{'ein' if said == 'eins' else said}{joint}{unit}"

    before = re.compile(rf"(?<![\w%])(?<!\d )(?P<before>[-−+](?<![\d)].))?% ?{bare_range(language)}(?![\w%])")

    def percent_before(found: re.Match[str]) -> str | None:
        start = before_range(found, language, "")
        said = signed(found, language) + decimal(*number_of(found), language)
        sign = {"+": f"{own.signs.plus} ", None: ""}.get(found["before"], f"{language.minus} ")
        return None if start is None else f"{sign}yüzde {start}{said}"

    first: list[Reading] = [(before, percent_before)] if language.locale == "tr" else []
    if language.locale == "fa":
        first = persian.percent_before(language)
    english = (
        [
            (re.compile(_described(language, f"{longer}|{one_letter}")), described),
            (_FEET, lambda found: _feet(found, language)),
        ]
        if language.locale == "en"
        else []
    )
    german = [(re.compile(_compound(language, f"{longer}|{one_letter}")), described)] if language.locale == "de" else []
    return [
        *first,
        *_inches(language),
        *_counted(language),
        *english,
        *german,
        _filtration(language),
        (pattern, words),
        *_after_per(language, symbols),
        *_after_myriads(language, symbols),
        *_milestones(language),
        *_amperes(language),
    ]


def _filtration(language: Language) -> Reading:
    """58 ml/min/1,73 m²: how much the kidneys of a body of that surface filter."""
    point = re.escape(language.decimal)
    number = bare(language).replace("(?![/@_", "(?![@_")
    pattern = rf"(?=\d+(?:{point}\d+)?{BLANK}m[lL]/min/1){guard(language)}{number}"
    pattern += rf"{BLANK}m[lL]/min/1{point}73{BLANK}m[²2](?!\w)"

    def words(found: re.Match[str]) -> str:
        whole, part = number_of(found)
        names = (
            ("volume-milliliter", value(whole, part)),
            ("duration-minute", 1),
            ("area-square-meter", Decimal("1.73")),
        )
        volume, minute, area = (unit_name(language, unit, amount) for unit, amount in names)
        own = table(language.locale)
        if not own.signs.per:
            return ELSEWHERE
        in_minute = own.per.get("min", f"{own.signs.per} {minute}")
        surface = f"{own.signs.per} {decimal('1', '73', language)} {area}"
        return f"{decimal(whole, part, language, volume)} {volume} {in_minute} {surface}"

    return re.compile(pattern), words


_FLAT = re.compile(
    r"m²|(?<!\w)(?:m2|baños?|piso|apartamento|chalet|vivienda|ático|dúplex|sdb|salle de|appartement|appart|maison|"
    r"séjour|[TF][1-6]|balcon|terra\w+|asc\w+)(?!\w)",
    re.IGNORECASE,
)


_ENGINE = re.compile(r"moteur|voiture|fiscaux|diesel|essence", re.IGNORECASE)


def _is_of_a_flat(found: re.Match[str]) -> bool:
    """True where words of a flat stand near, and none of an engine just before or after."""
    text, start, end = found.string, found.start(), found.end()
    near, beside = text[max(0, start - 80) : end + 80], text[max(0, start - 30) : end + 9]
    return _FLAT.search(near) is not None and _ENGINE.search(beside) is None


def _counted(language: Language) -> list[Reading]:
    """2 cp, 300 pers., 420 ppm: what is counted, by its short name."""
    shorts, rooms = {**si(language.locale), **table(language.locale).counted}, table(language.locale).rooms
    if not shorts:
        return []
    names = "|".join(re.escape(each) for each in sorted(shorts, key=len, reverse=True))
    end = "(?![A-Za-z])" if _ends_are_attached(language) else r"(?!\w)"
    if language.locale == "pl":
        end += (
            r"(?!\s\d(?!\d*,\d\d(?!\d)|\d?\s?(?:x|×|razy)(?!\w)))"  # ust. 2 pkt 3, but 10 szt. 11,90 zł, 1 tabl. 3 razy
        )
    else:
        end += r"(?!(?:(?<=[^a-z]p\.)|(?<=art\.))\s\d)"  # n° 2 p. 12
    stop = r"(?:\.(?=\s[a-zà-ÿ]))?" if language.scripts == ("LATIN",) and language.locale != "pl" else ""  # 1 cp. de
    pattern = rf"{range_or_number(language)}{BLANK}(?P<short>{names}){stop}{end}"
    blank = " " if language.spaced else ""

    def words(found: re.Match[str]) -> str | None:
        whole, part = number_of(found)
        forms = shorts[found["short"]]
        if len(whole) == 1 and found["short"] in rooms and _is_of_a_flat(found):
            forms = rooms[found["short"]]
        noun = form_of(forms, value(whole, part), language.locale)
        if part and language.locale in ("en", "de", "nl"):
            noun = forms[1]  # 0.5–1.0 ppm
        if is_attribute(found, language):
            noun = forms[0]  # the 11 kV line
        start, first = before_range(found, language, noun), noun.split()[0]
        if start is None:
            return ELSEWHERE
        said = None if part else before_word(whole, first, language)
        if language.locale == "de" and whole == "1" and not part:
            said = german.one(found.string[max(0, found.start() - 40) : found.start()], first) or said
        if language.locale == "de" and german.is_dative(found.string[max(0, found.start() - 40) : found.start()], noun):
            noun += "n"
        return f"{start}{signed(found, language)}{said or decimal(whole, part, language)}{blank}{noun}"

    return [(re.compile(pattern), words)]


def alternatives(language: Language, symbols: Mapping[str, str]) -> list[Reading]:
    """50/60 Hz, 24/48 h: one of two; AC100V, AC100–240V: a voltage with its kind before it."""
    if language.locale == "ru":  # whose library reads them
        return []
    kinds = ("frequency-", "electric-volt", "power-", "digital-", "duration-hour")
    names = sorted((each for each, unit in symbols.items() if unit.startswith(kinds)), key=len, reverse=True)
    letters = r"\w" if language.spaced and language.locale != "ko" else "A-Za-z0-9_"
    number = rf"\d{{1,4}}(?:{re.escape(language.decimal)}\d+)?"
    pattern = (
        rf"(?<![{letters}.,/:-])(?P<kind>[AD]C(?=\d))?(?P<first>{number})(?:(?P<sign>[/~〜～–-])(?P<last>{number}))?"
        rf"{BLANK}(?P<symbol>{'|'.join(map(re.escape, names))})(?![{letters}/²³°])"
    )
    blank = " " if language.spaced else ""
    comma = " " if language.scripts == ("LATIN",) else language.comma if language.spaced else "、"

    def words(found: re.Match[str]) -> str:
        unit, (whole, _, part) = symbols[found["symbol"]], found["first"].partition(language.decimal)
        fraction = int(whole) < _LEAST_ALTERNATIVE and not unit.startswith(("frequency", "digital"))
        if not found["kind"] and (found["sign"] != "/" or fraction or found["first"] == found["last"]):
            return ELSEWHERE
        said = f"{found['kind']}{blank}" if found["kind"] else ""
        said += decimal(whole, part, language)
        if found["last"]:
            to = f"{blank if language.locale != 'ko' else ''}{language.to}{blank}"
            whole, _, part = found["last"].partition(language.decimal)
            used = unit.startswith("digital") and "." in found["first"].replace(",", ".")  # 14.7/16 GB
            over = f" {table(language.locale).signs.out_of} " if used and language.spaced else comma
            said += (over if found["sign"] == "/" else to) + decimal(whole, part, language)
        name = unit_name(language, unit, value(whole, part))
        return ELSEWHERE if name is None else f"{said}{'' if language.locale == 'ko' else blank}{name}"

    return [(re.compile(pattern), words)]


def slashed(language: Language, symbols: Mapping[str, str]) -> list[Reading]:
    """23kg/50lb, 12 V/2 A: two quantities; 72/min: so many in a unit of time."""
    if language.locale not in ("en", "de", "nl"):
        return []
    units = {**symbols, "A": "electric-ampere"}
    names = "|".join(re.escape(each) for each in sorted(units, key=len, reverse=True))
    groups = rf"\d{{1,3}}(?:[{re.escape(language.groups)}]\d{{3}})+(?!\d)"
    number = rf"(?:{groups}|\d{{1,5}})(?:{re.escape(language.decimal)}\d+)?"
    pattern = rf"(?<![\w.,:/-])(?P<a>{number}){BLANK}(?P<first>{names})\s?/\s?"
    pattern += rf"(?P<b>{number}){BLANK}(?P<last>{names})(?![\w/²³°])"
    per = re.compile(rf"(?<![\w.,:/-])(?P<n>{number})/(?P<per>min|h|s)(?![\w/])")

    def one(found: re.Match[str], figure: str, unit: str) -> str:
        whole, _, part = found[figure].partition(language.decimal)
        whole = re.sub(r"\D", "", whole)
        name = unit_name(language, unit, 1 if is_attribute(found, language) else value(whole, part)) or ""
        return f"{decimal(whole, part, language, name)} {name}"

    def both(found: re.Match[str]) -> str:
        if f"{found['b']} {found['last']}" in table(language.locale).per:
            return ELSEWHERE  # 6 l/100 km
        rate = units[found["last"]].startswith("duration") and not units[found["first"]].startswith("duration")
        joint = f" {table(language.locale).signs.per}" if rate else ","  # 15 ml/24 h
        if re.match(r"\s?[=≈]", found.string[found.end() :]):  # 12 V / 4 Ω = 3 A
            joint = f" {table(language.locale).signs.operators['÷']}"
        return f"{one(found, 'a', units[found['first']])}{joint} {one(found, 'b', units[found['last']])}"

    def rate(found: re.Match[str]) -> str:
        whole, _, part = found["n"].partition(language.decimal)
        name = unit_name(language, symbols[found["per"]], 1)
        return f"{decimal(re.sub(r'[^0-9]', '', whole), part, language)} {table(language.locale).signs.per} {name}"

    def stop(found: re.Match[str]) -> str:
        whole, _, part = found["n"].partition(language.decimal)
        return f"f {decimal(whole, part, language)}"

    f_stop = re.compile(rf"(?<![\w/])[fF]/(?P<n>\d{{1,2}}(?:{re.escape(language.decimal)}\d)?)(?![\w/]|[.,]\d)")
    share = re.compile(rf"(?<=[^\W\d_])\s?/\s?(?P<n>\d{{1,3}}){BLANK}%(?![\w%])")  # 60% cotton/40% polyester

    def percent(found: re.Match[str]) -> str:
        return f", {cardinal(found['n'], language)} {unit_name(language, 'concentr-percent', 2)}"

    hours = "|".join(re.escape(each) for each in units if units[each].startswith("duration") and len(each) < 6)
    dose = re.compile(rf"(?<=[a-z]{{3}})/(?P<n>\d{{1,2}}){BLANK}(?P<unit>{hours})(?!\w)")  # 4 doses/24 h

    def within(found: re.Match[str]) -> str:
        name = unit_name(language, units[found["unit"]], value(found["n"], ""))
        return f" {table(language.locale).signs.per} {cardinal(found['n'], language)} {name}"

    return [
        (re.compile(pattern), both),
        (per, rate),
        (f_stop, stop),
        (share, percent),
        (dose, within),
    ]


_LEAST_ALTERNATIVE = 10  # below it 1/4 W is a part of one


_PER = {
    "en": "per|[Pp]rice per",
    "de": "pro|je",
    "fr": "par|au|le",
    "es": "por|el|al",
    "it": "al|per|il",
    "pt": "por|o|ao",
    "nl": "per",
    "ru": "за",
}


_THOUSANDS = ("mil", "mila", "mille")  # after which is no preposition


def _after_per(language: Language, symbols: Mapping[str, str]) -> list[Reading]:
    """Per lb, pro kg, al kg: a unit without a number."""
    before = "|".join(rf"(?<=\b{each}\s)" for each in _PER.get(language.locale, "").split("|") if each)
    if not before or not language.spaced:
        return []
    of = {"fr": " d[e']", "es": " de", "it": " di", "pt": " de"}.get(language.locale, "")
    before += "".join(
        rf"|(?<=\b{each}{of * (each not in _THOUSANDS)}\s)" for each in language.magnitudes.split("|") if each
    )
    names = "|".join(
        re.escape(each)
        for each in sorted(symbols, key=len, reverse=True)
        if len(each) > 1 and each[0].isalpha() and each not in ("in.", "min") and (each != "ha" or not of)
    )
    pattern = re.compile(rf"(?:{before})(?P<symbol>{names})(?![\w/²³'’-])")
    return [(pattern, lambda found: unit_name(language, symbols[found["symbol"]], _after(found, language)))]


_MILESTONES = {
    "es": ("el|del|al|un", "los|unos|entre|y"),
    "it": ("il|del|al|dal|sul", "i|dei|ai|tra i"),
    "pt": ("o|do|ao|no", "os|dos|aos|nos|entre"),
    "fr": ("le|du|au", "les|des|aux|entre"),
    "de": ("[Bb]ei|[Aa]b|[Bb]is|[Zz]wischen|[Vv]on|und|am|zu",),
    "nl": ("[Bb]ij|[Vv]anaf|tot|[Tt]ussen|[Vv]an|en|op|ter hoogte van",),
}


def _milestones(language: Language) -> list[Reading]:
    """Al km 4, entre los km 4 y 5: a unit before its number."""
    found = list[Reading]()
    for before, amount in zip(_MILESTONES.get(language.locale, ()), (1, 2), strict=False):
        behind = "|".join(rf"(?<=\b{each} )" for each in before.split("|"))
        pattern = re.compile(rf"(?i:{behind})km(?=\s\d)")
        name = unit_name(language, "length-kilometer", amount)
        found.append((pattern, partial(_named, name)))
    return found


_CURRENT = {  # words beside a current, for Gleis 16 A is none
    "en": r"\d\s?V(?:AC|DC)?\b|[Cc]urrent|[Ff]use|[Cc]ircuit|[Bb]reaker|[Cc]harger|[Aa]dapter|\b[Dd]raws?\b|\brated\b",
    "de": r"\d[\s-]?V\b|[Ss]trom|[Ss]icherung|[Ss]tecker|[Nn]etzteil|Ladegerät|Volt|\bzieht\b",
    "fr": r"\d\s?V\b|mm²|[Cc]ourant|[Ff]usible|[Dd]isjoncteur|[Pp]rise|[Cc]hargeur|[Vv]olt",
    "es": r"\d\s?V\b|mm²|[Cc]orriente|[Ff]usible|[Dd]iferencial|[Ee]nchufe|[Cc]argador|[Vv]oltio",
    "it": r"\d\s?V\b|mm²|[Cc]orrente|[Ff]usibile|[Ss]alvavita|[Pp]resa|[Cc]aricatore|[Vv]olt|[Aa]ssorb",
    "pt": r"\d\s?V\b|mm²|[Cc]orrente|[Ff]usível|[Dd]isjuntor|[Tt]omada|[Cc]arregador|[Vv]olt",
    "nl": r"\d\s?V\b|[Ss]troom|[Zz]ekering|[Ss]tekker|[Ll]ader|[Vv]olt",
    "pl": r"\d\s?V\b|[Pp]rąd|[Bb]ezpiecznik|[Nn]atężeni|[Zz]asilacz|[Łł]adowark|[Gg]niazd",
}


_AFTER_AMPERES = (  # section 5.1 A control file
    "at|and|or|for|to|in|is|per|with|from|on|of|during|when|while|than|through|bei|und|oder|für|bis|mit|aus|von|über|"
    "bij|en|voor|tot|met|van|door"
)


def _amperes(language: Language) -> list[Reading]:
    """230 V and 16 A."""
    words = _CURRENT.get(language.locale)
    if words is None:
        return []
    beside = re.compile(rf"(?:{words})[^!?]{{0,60}}$")

    def amperes(found: re.Match[str]) -> str | None:
        before, after = found.string[max(0, found.start() - 80) : found.start()], found.string[found.end() :][:12]
        noun = re.match(rf" (?!(?:{_AFTER_AMPERES})\b)[a-z]", after)
        sure = found["part"] and language.locale in ("en", "de", "nl") and not noun and not labelled(found, language)
        return _measured(found, "electric-ampere", {}, language) if sure or beside.search(before) else ELSEWHERE

    return [(re.compile(rf"{range_or_number(language)}{BLANK}A(?P<per>(?!))?(?![\w°])"), amperes)]


def _named(name: str | None, _: re.Match[str]) -> str | None:
    return name


def _after_myriads(language: Language, symbols: Mapping[str, str]) -> list[Reading]:
    """30万km/s, 5万kg: a unit after a number whose last letter is a word."""
    if language.spaced or not language.number_words:
        return []
    names = "|".join(
        re.escape(each)
        for each in sorted(symbols, key=len, reverse=True)
        if re.fullmatch("[A-Za-z]{2,3}[²³]?|[mgLl][²³]?", each)
    )
    pattern = re.compile(rf"(?<=\d[万亿億千])(?P<symbol>{names})(?:/(?P<per>{names}|[hs]))?(?![A-Za-z0-9²³/])")

    def words(found: re.Match[str]) -> str | None:
        name = unit_name(language, symbols[found["symbol"]], 1_000_000)
        said = None if name is None else name.replace(" ", "")
        return _rate(said, found["per"], symbols, language) if said and found["per"] else said

    return [(pattern, words)]


def _after(found: re.Match[str], language: Language) -> int:
    """One of a unit, after "per"; many after a million."""
    word = found.string[: found.start()].split()[-1]
    magnitudes = {*language.magnitudes.split("|"), "de", "di"} - {*_PER.get(language.locale, "").split("|")}
    return 1_000_000 if word in magnitudes else 1


def _glued(language: Language) -> str:
    """Looks at a letter that is a unit without a blank before it: 200g, 9.58s; 1980s and 5m people are none."""
    if language.number_words is None:
        return "(?!)"
    tenths = "|".join(rf"(?<=[.,]{digits})" for digits in (r"\d", r"\d\d", r"\d\d\d"))
    seconds = rf"(?:{tenths})(?=s(?!\w))"
    if language.locale != "en":
        letters = r"\w" if language.locale != "ko" else "A-Za-z0-9"  # 100m를
        return rf"(?:(?=[mglℓLWV](?![{letters}'’]))|{seconds})"
    race = r"race|sprint|dash|run|relay|freestyle|backstroke|breaststroke|butterfly|hurdles|final|record|pool|in\s\d"
    race += r"|deep|high|tall|long|wide|away|ahead|behind|apart|above|below|further|farther"
    run = "|".join(
        rf"(?<=\b{word}\s\d{digits})"
        for word in ("ran", "swam", "the", "run", "swim", "above", "below")
        for digits in ("", r"\d", r"\d\d", r"\d\d\d")
    )
    millions = r"(?!\s(?:people|users|dollars|pounds|euros|homes|jobs))"
    metres = rf"(?=m\s(?:(?:{race})\b|\(\d))|(?<=[\d,]\d\d\d)(?=m(?![\w'’])){millions}"
    return rf"(?:(?=[glℓLWV](?![\w'’]))|{seconds}|{metres}|(?:{run})(?=m(?![\w'’]){millions}))"


def _inches(language: Language) -> list[Reading]:
    """A 27" monitor, 8.5" x 11", where the sign ends no quotation."""
    if language.number_words is None or language.locale == "ko":
        return []
    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    number, sign = r"\d{1,3}(?:[.,]\d{1,2})?", r"[\"″”]|''"
    pattern = (
        rf"(?<![{letters}.,:/'’\"“„-])(?:(?P<first>\d{{1,3}})[–-])?(?P<n>{number})(?P<sign>{sign})"
        rf"(?:(?P<by> ?[x×] ?)(?P<m>{number})(?P=sign)?)?(?![{letters}\"”])"
    )

    def said(text: str) -> str:
        whole, _, part = text.replace(",", ".").partition(".")
        return decimal(whole, part, language)

    def words(found: re.Match[str]) -> str | None:
        if found["sign"] != "″" and is_quoted(found.string, found.start()):
            return ELSEWHERE
        whole, _, part = (found["m"] or found["n"]).replace(",", ".").partition(".")
        one = language.locale == "en" and _is_described(found)
        unit = unit_name(language, "length-inch", 1 if one else value(whole, part))
        if unit is None:
            return ELSEWHERE
        by = table(language.locale).signs.by
        number = f"{said(found['n'])} {by} {said(found['m'])}" if found["m"] and by else said(found["n"])
        if found["first"] and (
            found["m"] or not language.to or int(found["first"]) >= float(found["n"].replace(",", "."))
        ):
            return ELSEWHERE
        if found["first"]:
            blank = " " if language.spaced else ""
            number = f"{said(found['first'])}{blank}{language.to}{blank}{number}"
        return f"{number}{' ' if language.spaced else ''}{unit}"

    return [(re.compile(pattern), words)]


def _is_described(found: re.Match[str]) -> bool:
    """True for a 14" laptop, but not 14" apart."""
    noun = re.match(r"[\s-](?:\dK )?([a-z]+|[A-Z]{2,})", found.string[found.end() : found.end() + 40])
    return noun is not None and noun[1] not in table("en").no_attribute


def is_quoted(text: str, at: int) -> bool:
    """True where a quotation is open at this place, in the same paragraph."""
    start = text.rfind("\n\n", 0, at) + 1
    before = text[max(start, at - 2000) : at]
    open_ = False
    for mark in re.finditer(r"(?P<after>[\d¼-¾⅐-⅞])?(?P<mark>[\"“„”])", before):
        open_ = (mark["mark"] in "“„") or (not open_ and mark["mark"] == '"' and not mark["after"])
    return open_


_FEET = re.compile(r"(?<![\w.,/-])(?P<feet>\d{1,2}) ?(?:ft\.?|feet) (?P<inches>\d{1,2}) ?in\b(?:\.(?!\w))?(?! the\b)")


def _feet(found: re.Match[str], language: Language) -> str:
    """6 ft 2 in, which is no preposition there."""
    described = is_attribute(found, language)
    foot = "foot" if described or found["feet"] == "1" else "feet"
    inch = "inch" if described or found["inches"] == "1" else "inches"
    return f"{cardinal(found['feet'], language)} {foot} {cardinal(found['inches'], language)} {inch}"


def _compound(language: Language, symbols: str) -> str:
    """Pattern of a quantity in a German compound: 50-km-Lauf."""
    number_before_hyphen = bare(language).replace(r"(?![.,:\-–]\d)", r"(?![.,:–]\d)")
    return rf"{guard(language)}{number_before_hyphen}-(?P<symbol>{symbols})(?=-[A-ZÄÖÜ])"


def _described(language: Language, symbols: str) -> str:
    """Pattern of a quantity that describes a noun: a 5-km run."""
    number_before_hyphen = bare(language).replace(r"(?![.,:\-–]\d)", r"(?![.,:–]\d)")
    return rf"{guard(language)}{number_before_hyphen}-(?P<symbol>{symbols})\.?(?=\)?\s[a-z])"


def unit_name(language: Language, unit: str, amount: Decimal | int) -> str | None:
    """The unit's name after so many; None where the language has no name for it."""
    from babel.numbers import format_decimal
    from babel.units import UnknownUnitError, format_unit

    if language.locale == "nl" and unit == "length-inch":
        amount = 1  # 27 inch
    try:
        form = format_unit(amount, unit, "long", locale=language.locale)
    except UnknownUnitError:
        return None
    name = form.replace(format_decimal(amount, locale=language.locale), "").strip().replace("-kwikdruk", " kwik")
    if not language.spaced:  # 每秒米, 秒速メートル, whose number stands elsewhere
        name = re.sub(r"^每 ?(秒|小时) ?(.+)", r"\2每\1", name)
        name = re.sub(r"^([秒時])速 ?(.+)", r"\2毎\1", name)
    return None if unit in form else name


def _ends_are_attached(language: Language) -> bool:
    """True where letters of the language go on directly after a unit: 5%입니다."""
    return language.number_words is not None and (not language.spaced or language.locale == "ko")


def _measured(found: re.Match[str], unit: str, symbols: Mapping[str, str], language: Language) -> str | None:
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
    if language.locale == "zh":
        said = _chinese_measured(found, unit, form.replace(" ", ""), figures, language)
        return _rate(said, found["per"], symbols, language) if said and found["per"] else said
    form = _eastern(form, figures, unit, language, bool(found["sign"]))
    if unit in form or "/" in form or "%" in form or form.count(figures) != 1:
        return None
    noun = form.replace(figures, "").strip()
    sign = signed(found, language)
    start = before_range(found, language, noun)
    if language.number_words is None:
        return None if start is None else start + form.replace(figures, sign + found["number"].lstrip("-−+"))
    if start is None and unit == "concentr-percent" and language.to and "%" in found[0][:-1] and not sign:
        first, first_part = re.sub(r"\D", "", found["first"]), found["first_part"] or ""
        start = f"{decimal(first, first_part, language)} {noun} {language.to} "  # of a vote: 52%–48%
    if start is None:
        return None
    spoken = start + sign + decimal(whole, part, language, noun)
    if language.locale == "it" and spoken.endswith("una") and whole == "1" and noun[0] in "aeiou":
        return f"{spoken[:-1]}'{noun}"  # un'ora
    if found["per"]:
        return _rate(form.replace(figures, spoken), found["per"], symbols, language)
    if unit != "concentr-percent" and is_attribute(found, language):
        return f"{spoken} {unit_name(language, unit, 1)}"
    if unit != "concentr-percent" and (of := of_million(spoken, noun, language)):
        return f"{spoken} {of}{noun}"
    return form.replace(figures, spoken)


def _rate(said: str, per: str, symbols: Mapping[str, str], language: Language) -> str | None:
    """A quantity and that of which it is so much; None where the language has no name for that."""
    own, blank = table(language.locale), " " if language.spaced else ""
    if per in own.per:
        words = own.per[per] if language.locale != "pl" else own.per[per].replace("za ", "na ", 1)  # 10 mg/kg
        return f"{said}{blank}{words}"
    name = unit_name(language, symbols[per], 1) if per in symbols else per
    if name is None:
        return None
    return blank.join((said, own.signs.per, name.replace(" ", blank).replace("秒钟", "秒").replace("時間", "時")))


def _eastern(form: str, figures: str, unit: str, language: Language, signed_number: bool) -> str:
    """Babel's form without its blanks in Japanese, where degrees below zero stand alone; the Korean percent."""
    if language.locale == "ko" and unit == "concentr-percent":
        return f"{figures} 퍼센트"  # which Babel does not have
    if language.spaced:
        return form
    form = form.replace(" ", "")
    degrees = re.fullmatch(rf"(?:摂氏|華氏)({re.escape(figures)}度)", form)
    return degrees[1] if degrees and signed_number else form


def _chinese_measured(found: re.Match[str], unit: str, form: str, figures: str, language: Language) -> str | None:
    """百分之五, 零下五摄氏度, 两公里."""
    whole, part = number_of(found)
    if unit in form:
        return None
    percent = unit == "concentr-percent"
    first = "" if found["first"] is None else before_range(found, language, "")
    if first is None:
        return None
    if percent:
        minus = signed(found, language)
        before = f"百分之{first.removesuffix(language.to)}{language.to}" if first else ""
        full = whole == "100" and not part and not first
        return f"{before}{minus}百分之{'百' if full else decimal(whole, part, language)}"
    if unit == "speed-kilometer-per-hour" and found.string[: found.start()].endswith("时速"):
        form = f"{figures}公里"
    cold = unit.startswith("temperature") and found["sign"] in ("-", "−")
    sign = "零下" if cold else signed(found, language)
    number = "两" if whole == "2" and not part and unit != "mass-gram" else decimal(whole, part, language)
    return form.replace(figures, f"{first}{sign}{number}")
