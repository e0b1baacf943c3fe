"""Numbers in words: 1,234,567 and 3.14, years, decades, ranges, scores and ratios, 100K."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

from voxyard.speech.reading import chinese, german, ranges
from voxyard.speech.reading.languages import LANGUAGES, Language
from voxyard.speech.reading.number_words import (
    ELIDED,
    before_word,
    cardinal,
    decimal,
    is_year,
    of_million,
    signed,
    singular_scale,
    value,
    year,
)
from voxyard.speech.reading.patterns import (
    BLANK,
    BLANKS,
    ELSEWHERE,
    NEXT_WORD,
    UNREAD,
    guard,
    number,
    number_of,
    stays,
)
from voxyard.speech.reading.tables import table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

_ROW = re.compile(r"\s(?:oder|bis|ou|o|u|ed?|e|y|a|à)\s\d{1,3}\s([^\W\d_]{3,})")  # 2 ou 3 vezes


def patterns(code: str, language: Language) -> list[Reading]:
    """Patterns of numbers, those first that others must not take apart, with their words."""
    found = _decades(code, language)
    if code in ("pl", "tr"):  # an ordinal whose ending its sentence decides, unless a line begins with it
        found.append((re.compile(r"(?<=[^\s\d][ \t])\d{1,4}\.(?=\s+\w)"), stays))
    if code == "zh":
        found += chinese.patterns(language)
    if code in ("es", "pt"):  # 1 de cada 3 mujeres
        share = re.compile(rf"{guard(language)}(?P<n>\d{{0,2}}1)(?=\s(?:de|em) cada \d+ (?P<noun>[^\W\d_]+))")
        found.append((share, lambda match: _share(match, language)))
    found += [*_short_scales(code, language), *_of_models(code, language)]
    if language.scales:
        found.append(_scaled(language))
    if code == "fr":
        found.append(_french_millions(language))
    found += _without_cents(language)
    found += ranges.patterns(language)
    if language.decimal == ",":
        found += [_section(language), _wireless(language)]
    after = _AFTER.get(code, r"(?![^\W\d_])" if language.spaced else r"(?![A-Za-z])")
    pattern = re.compile(number(language) + after + UNREAD)

    def words(match: re.Match[str]) -> str | None:
        whole, part = number_of(match)
        sign = signed(match, language)
        if not part and match["whole"].isdigit() and not sign and language.counts_years and _is_year(match, language):
            return year(int(whole), language)
        word = NEXT_WORD.match(match.string, match.end())
        if part or word is None or labelled(match, language):
            return sign + decimal(whole, part, language)
        if word[1] == "mil":
            return sign + _thousands(match, whole, word.end(), language)
        said = _agreeing(match, whole, word[1], language)
        if said is None or re.fullmatch(language.alone, word[1], re.IGNORECASE):
            return None if said is None else sign + said
        return sign + f"{said} {of_million(said, word[1], language)}".rstrip()

    return [*found, (pattern, partial(_apart, words) if code == "fa" else words)]


_AFTER = {
    "fa": r"(?![A-Za-z])",
    "ko": r"(?=\s|$|[^\w\s]|년|월|일|원|분|초|층|번|호|위|도|세기|만|억|조|퍼센트|미터|킬로)",
    "ru": r"(?![^\W\d_]|-[а-яё])",
}


def _apart(words: Callable[[re.Match[str]], str | None], found: re.Match[str]) -> str | None:
    """A number and a blank, where a word is glued to it: ۱۰متر."""
    said = words(found)
    return said if said is None or not found.string[found.end() : found.end() + 1].isalpha() else f"{said} "


_IN_YEAR = re.compile(r"(?:(?<!\w)(?:en|desde|hasta|em|até)|[a-zç]{2}(?:o|e|il) de)\s$", re.IGNORECASE)  # en 1616 murió


_SECOND_WORD = re.compile(r"\s[^\W\d_]+\s([^\W\d_]{3,})\b")
_DETERMINERS = {
    "es": re.compile(r"(?<!\w)(?:l|un|est|es|aquell|nuestr|vuestr|otr)(?P<gender>[oa])s\s$", re.IGNORECASE),
    "pt": re.compile(
        r"(?<!\w)(?:[dn]?(?:|est|ess|aquel)|pel|noss|voss|outr|a(?=os))(?P<gender>[oaà])s\s$", re.IGNORECASE
    ),
}


def _agreeing(found: re.Match[str], whole: str, word: str, language: Language) -> str | None:
    """A number as it stands before a word, or in a row before the word after that; None where it is not known."""
    said = None
    alone = re.fullmatch(language.alone, word, re.IGNORECASE) is not None
    if told := _DETERMINERS.get(language.locale):
        article = told.search(found.string[max(0, found.start() - 12) : found.start()])
        feminine = article is not None and article["gender"] in "aàAÀ"
        if article and (feminine or not alone):  # los 101 dálmatas, las 21 que vinieron
            return cardinal(whole, language, "hora" if feminine else "\0")
    if row := _ROW.match(found.string, found.end()):
        said = before_word(whole, row[1], language)
    if said is None:
        said = before_word(whole, word, language)
    if said is None and language.locale in ("es", "fr", "it", "pt"):
        after = _SECOND_WORD.match(found.string, found.end())
        if after and not re.fullmatch(language.alone, after[1], re.IGNORECASE):
            said = before_word(whole, after[1], language)  # 21 autres personnes
    if language.locale == "de" and whole == "1" and not re.fullmatch(language.alone, word, re.IGNORECASE):
        before = found.string[max(0, found.start() - 40) : found.start()]
        said = "ein" if word == "Uhr" else german.one(before, word) or said
    if said is None and is_year(whole) and _IN_YEAR.search(found.string[max(0, found.start() - 9) : found.start()]):
        return cardinal(whole, language)
    return said


def _thousands(found: re.Match[str], whole: str, after: int, language: Language) -> str:
    """The 31 of 31 mil pessoas, which agrees with the noun after mil."""
    noun = NEXT_WORD.match(found.string, after)
    said = None if noun is None or whole == "1" else before_word(f"{whole}000", noun[1], language)
    return (said or cardinal(f"{whole}000" if whole != "1" else whole, language, "\0")).removesuffix(" mil")


def _without_cents(language: Language) -> list[Reading]:
    """5,– Euro."""
    if language.decimal != "," or language.number_words is None:
        return []
    even = re.compile(rf"{guard(language)}(?P<n>\d{{1,3}}(?:\.\d{{3}})*),[–—-]{{1,2}}(?=\s|[.;:!?)]|$)")
    return [(even, lambda found: cardinal(found["n"].replace(".", ""), language))]


def labelled(found: re.Match[str], language: Language) -> bool:
    """True where a number stands for itself, after the word that it numbers: page 1, Formel 1, loi n° 78-17."""
    before = found.string[max(0, found.start() - 30) : found.start()]
    if language.locale[:2] in ("es", "fr", "it", "pt") and _ACRONYM.search(before):
        return True  # le TGV 8541 a du retard
    return _label(language.locale).search(before) is not None


_ACRONYM = re.compile(r"(?:^|[a-zà-ÿ]['’\s])[A-Z]{2,5}\s$")


@lru_cache(maxsize=32)
def _label(code: str) -> re.Pattern[str]:
    own = table(code)
    words = [*own.roman.numbered, *own.labels, *(key[:-1] for key in own.abbreviations if key[-1] == "#")]
    if not words:
        return re.compile("(?!)")
    names = "|".join(re.escape(each) for each in {*words, *(each[0].upper() + each[1:] for each in words)})
    return re.compile(rf"(?<!\w)(?:{names})\s?$|§\s?$")


_OF_YEARS = re.compile(
    r"\b(?:in|since|until|till|by|from|to|before|after|around|circa|year|of|late|early|mid|the|this|that|spring|summer|"
    r"autumn|fall|winter|and|or|between|during|January|February|March|April|May|June|July|August|September|October|"
    r"November|December|AD|ad|for|through|class),?\s$",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\s(?:people|men|women|children|feet|fish|sheep|"
    r"(?!was|is|has|as|does|its|this|us|less|always|perhaps|across)[a-z]{2,}s)(?!\w)"
)
_OLD_YEARS = re.compile(
    r"\b(?:in|since|until|till|by|from|before|after|year|around|circa|AD|between|and|or|to|of)\s$", re.IGNORECASE
)


def _is_year(found: re.Match[str], language: Language) -> bool:
    """True where four figures are read as a year: in English not before what is counted (2020 people)."""
    digits = found["whole"]
    if language.locale != "en":
        return is_year(digits)
    before = found.string[max(0, found.start() - 20) : found.start()]
    counted = _COUNTED.match(found.string, found.end()) is not None
    if len(digits) == 4 and 1001 <= int(digits) <= 1099:
        return _OLD_YEARS.search(before) is not None and not counted
    return is_year(digits) and (not counted or _OF_YEARS.search(before) is not None)


def _decades(code: str, language: Language) -> list[Reading]:
    """The 1960s, die 90er, anni '80."""
    found: list[Reading] = []
    if code == "en":
        decade = r"(?:(?<![\w.,:/$-])|(?<=[a-z]-))(?:['’](?P<short>[2-9]0)|(?P<n>(?:1\d|20)\d0|[2-9]0))['’]?s\b"
        span = r"(?<![\w.,:/$-])(?P<first>(?:1\d|20)\d0)s\s?[–-]\s?(?P<last>(?:1\d|20)?\d0)s\b"
        found.append((re.compile(span), lambda match: f"{_of_decade(match['first'])} to {_of_decade(match['last'])}"))
        found.append((re.compile(decade), _decade))
        early = r"(?:(?<=\b[Tt]he )|(?<=\b[Mm]id-)|(?<=\bearly )|(?<=\blate ))(?P<n>[1-9]\d0)s(?!\w)"  # the 830s
        found.append((re.compile(early), lambda match: _of_decade(match["n"])))
    if code == "de":
        decade = rf"{guard(language)}(?P<n>(?:1[1-9]|20)?\d0|[1-9]\d|[2-9]|[1-9]00)er(?=n?\b|-?Jahre)"
        found.append((re.compile(decade), lambda match: year(int(match["n"]), language) + "er"))
        percent = rf"{number(language)}{BLANK}%-?(?P<ending>ig(?:e[nmrs]?)?)\b"
        found.append(
            (re.compile(percent), lambda match: f"{decimal(*number_of(match), language)}prozent{match['ending']}")
        )
    if code in ("it", "es", "fr", "pt", "de", "nl", "pl"):  # anni '80
        short = re.compile(r"(?<!\w)['’](?P<n>[2-9]0)(?![\w'’])")
        found.append((short, lambda match: cardinal(match["n"], language)))
    if language.scripts == ("LATIN",):  # summer of '69
        found.append((_SHORT_YEAR, lambda match: _short_year(match, language)))
    return found


_BEFORE_YEAR = re.compile(
    r"(?:\b(?:of|[Ii]n|since|[Yy]ear|class|season|[Nn]el|[Dd][ea]l|[Ii]l|en|depuis|mai|de|el|em|[Jj]ahr|[Ss]ommer|seit|"
    r"[Aa]nno|sinds|jaren|anni|roku|May|June|July|aprile|maggio|giugno|luglio|agosto|settembre|ottobre)|\d,)\s$"
)


_SHORT_YEAR = re.compile(r"(?<!\w)['’](?P<n>\d\d)(?![\w'’])")


def _short_year(found: re.Match[str], language: Language) -> str:
    digits = found["n"]
    zero = {"en": "oh ", "de": "null ", "nl": "nul "}.get(language.locale, "") if digits[0] == "0" else ""
    if not zero and _BEFORE_YEAR.search(found.string[max(0, found.start() - 12) : found.start()]) is None:
        return ELSEWHERE
    return zero + cardinal(str(int(digits)), language)


def _section(language: Language) -> Reading:
    """Kapitel 1.2, chapitre 2.10: parts of a number after the word that it numbers."""
    version = r"\d{1,3}\.\d{1,2}"
    pattern = rf"{guard(language)}(\d{{1,3}})\.(\d{{1,2}})(?![\w.,:/–-]*\d)(?!\w)"
    row = re.compile(rf"(?:{version}(?:,|,?\s(?:und|oder|bis|en|of|tot|et|ou|e|y|o))\s)+$")

    def words(found: re.Match[str]) -> str | None:
        point = table(language.locale).signs.point
        before = row.sub("", found.string[max(0, found.start() - 40) : found.start()])
        product = _PRODUCT.search(before) or (language.locale == "ru" and _LATIN.search(before))
        if not point or not (product or labelled(found, language)):
            return None
        return f"{cardinal(found[1], language)} {point} {cardinal(found[2], language)}"

    return re.compile(pattern), words


def _wireless(language: Language) -> Reading:
    """802.11ax, a standard of networks."""

    def words(found: re.Match[str]) -> str:
        point = table(language.locale).signs.point
        letters = f" {' '.join(found['letters'])}" if found["letters"] else ""
        return f"{cardinal('802', language)} {point} {cardinal('11', language)}{letters}" if point else ELSEWHERE

    return re.compile(r"(?<![\w.,])802\.11(?P<letters>[a-z]{0,2})(?![\w]|[.,]\d)"), words


_LATIN = re.compile(r"(?<!\w)[A-Za-z]{2,}\s$")
_PRODUCT = re.compile(  # USB 3.0
    r"(?<!\w)(?:USB|HTML|CSS|HTTP|PHP|SQL|PDF|HDMI|TLS|LTE|iOS|macOS|Java|Bluetooth|Windows|Ubuntu|Debian|Fedora|"
    r"(?:Python|Android|Linux)[a-z]{0,3}|CUDA|Node(?:\.js)?|Kernel|Kubernetes|Docker|Django|Angular|React|Rust|Kotlin|"
    r"Redis|Git|SATA|Postgres|GCC|PCIe|[Mm]ot(?:eur|ore?)|[A-Za-z]*[a-z][A-Z]\w*|[A-Z]{2,}[a-z]+|"  # PyTorch, CMake
    r"[Vv]ersion(?:en)?|[Vv]ersies?|Web|Industrie|Industria|Indústria|Industry|Firmware|Release|Update|Firefox|Chrome|"
    r"Office|GPT|Llama|Gemini|Claude)[\s-](?:[<>≤≥=]\s)?$"
)


def _share(found: re.Match[str], language: Language) -> str:
    said = before_word(found["n"], found["noun"], language) or ""
    return said if said.endswith("a") else cardinal(found["n"], language)  # uno de cada cuatro niños


def _short_scales(code: str, language: Language) -> list[Reading]:
    """100K views, 5bn: in figures of people and things."""
    scales = table(code).scales_of_numbers
    if not scales:
        return []

    def words(found: re.Match[str]) -> str | None:
        whole, part = number_of(found)
        if found["scale"] in ("K", "k") and len(whole) < 2:
            return ELSEWHERE  # 4K is a format
        ran = _RAN.search(found.string[max(0, found.start() - 24) : found.start()])
        if found["scale"] == "K" and (ran or _RACE.match(found.string, found.end())):
            return ELSEWHERE  # a 10K race
        scale = scales[found["scale"]]
        scale = singular_scale(scale, 1, language) if whole == "1" and not part else scale
        return f"{signed(found, language)}{decimal(whole, part, language)} {scale}"

    counted = r"people|users|view(?:er)?s|followers|subscribers|customers|voters|homes|jobs|copies|visitors|members"
    counted += (
        r"|miles|mi|dollars|words|steps|lines|rows|downloads|students|employees|residents|fans|likes|units|pounds"
    )
    counted += r"|req|requests|tokens|ops|queries|IOPS|QPS"
    small = rf"{number(language)}(?P<scale>[mk])(?=\s(?:{counted})\b)"  # 1.2m people, 120k miles
    names = {"m": "million", "k": "thousand"}
    millions = [(re.compile(small), lambda found: f"{decimal(*number_of(found), language)} {names[found['scale']]}")]
    millions.append(
        (re.compile(rf"{number(language)}(?P<scale>m)(?![\w'’])"), lambda found: _of_people(found, language))
    )
    millions.append((re.compile(rf"{number(language)}k(?![\w'’-])"), lambda found: _of_thousands(found, language)))
    shorts = "|".join(sorted(map(re.escape, scales), key=len, reverse=True))
    blank = BLANK if code != "en" else ""
    found = [(re.compile(rf"{number(language)}{blank}(?P<scale>{shorts})(?![\w-])"), words)]
    return [*found, *(millions if code == "en" else [])]


_BILLIONS = {
    "en": ({"B": "billion", "T": "trillion"}, "param|token|model|weights|user|people|view|download|device|record|row"),
    "de": ({"B": "Milliarden", "T": "Billionen"}, "Param|Token|Modell|Gewicht"),
    "nl": ({"B": "miljard", "T": "biljoen"}, "param|token|model|gewicht"),
}


def _of_models(code: str, language: Language) -> list[Reading]:
    """70B parameters, 1.4T tokens."""
    if code not in _BILLIONS:
        return []
    scales, nouns = _BILLIONS[code]
    pattern = re.compile(
        rf"(?=\d[\d.,]{{0,9}}{BLANK}[BT][ -]){number(language)}{BLANK}(?P<scale>[BT])(?=[ -](?:{nouns}))"
    )

    def words(found: re.Match[str]) -> str:
        joint = "-" if code != "en" and found.string[found.end()] == "-" else " "  # das 70B-Modell
        return f"{decimal(*number_of(found), language)}{joint}{scales[found['scale']]}"

    return [(pattern, words)]


_PEOPLE = re.compile(
    r"\b(?:population|people|viewers|users|subscribers|customers|voters|visitors|tourists|residents|inhabitants)\b"
    r"(?:[^.!?]|\.\d){0,60}\b(?:to|of|from|at|by|is|was|reached|about|around|over|nearly|some) $|\bpop\. $",
    re.IGNORECASE,
)


def _of_people(found: re.Match[str], language: Language) -> str:
    """The population grew to 8.1m, which are no meters."""
    if _PEOPLE.search(found.string[max(0, found.start() - 80) : found.start()]) is None:
        return ELSEWHERE
    return f"{signed(found, language)}{decimal(*number_of(found), language)} million"


def _of_thousands(found: re.Match[str], language: Language) -> str:
    """1.6k of the 10k bricks, but a 10k run, which is ten k."""
    whole, part = number_of(found)
    counts = part or len(whole) > 2 or _THINGS.match(found.string, found.end()) is not None
    return f"{signed(found, language)}{decimal(whole, part, language)} {'thousand' if counts else 'k'}"


_THINGS = re.compile(
    r"\s(?:[a-z]{2,}s\b(?<!\bis)(?<!\bwas)(?<!\bhas)(?<!\bas)(?<!\bruns)(?<!ors)|of\b|people\b|more\b)"
)


_RACE = re.compile(r"\s(?:time|run|race|walk|event|course|PB|finish)\b")


_RAN = re.compile(
    r"\b(?:r[au]n|runs|running|raced?|jogg?(?:ed|ing)?|finish\w*|complet\w*|won)\s(?:an?|the|her|his|my|our|their)\s(?:[a-z]+\s)?$"
)


def _french_millions(language: Language) -> Reading:
    """1 000 000 habitants: un million d'habitants; the blank before the noun goes with the vowel of "de"."""
    figures = rf"(?=[\d{BLANKS}]{{0,20}}?(?:[{BLANKS}]?000){{2}}[{BLANKS}](?!\d))\d[\d{BLANKS}]{{4,20}}\d"
    pattern = rf"{guard(language)}(?P<n>{figures})[{BLANKS}](?!(?:{language.alone})\b)(?={ELIDED})"
    return (re.compile(pattern), lambda found: cardinal(re.sub(r"\D", "", found["n"]), language) + " d'")


def _decade(found: re.Match[str]) -> str:
    return _of_decade(found["n"] or found["short"])


def _of_decade(digits: str) -> str:
    words = cardinal(digits, LANGUAGES["en"]) if len(digits) == 2 else year(int(digits), LANGUAGES["en"])
    if len(digits) == 3 and not digits.endswith("00"):
        words = f"{cardinal(digits[0], LANGUAGES['en'])} {cardinal(digits[1:], LANGUAGES['en'])}"
    elif digits.endswith("00") and digits != "2000":
        words = f"{cardinal(digits[:-2], LANGUAGES['en'])} hundred"
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def _scaled(language: Language) -> Reading:
    """5 млн: the number and the plural of its scale."""
    from babel import Locale

    plural = Locale.parse(language.locale).plural_form
    scales = "|".join(re.escape(each) for each in language.scales)

    def words(found: re.Match[str]) -> str:
        whole, part = number_of(found)
        noun = language.scales[found["scale"]][plural(value(whole, part))]
        return f"{decimal(whole, part, language, noun)} {noun}"

    return (re.compile(rf"{number(language)}{BLANK}(?P<scale>{scales})(?!\w)"), words)
