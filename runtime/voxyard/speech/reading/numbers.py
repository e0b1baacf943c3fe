"""Numbers in words: 1,234,567 and 3.14, years, decades, ranges, scores and ratios, 100K."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

from voxyard.speech.reading import chinese, german
from voxyard.speech.reading.languages import LANGUAGES, Language
from voxyard.speech.reading.number_words import (
    ELIDED,
    around_range,
    before_range,
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
from voxyard.speech.reading.patterns import BLANK, BLANKS, UNREAD, bare_range, guard, number, number_of, stays
from voxyard.speech.reading.tables import table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

_YEAR = r"((?:1[1-9]|20)\d\d)"
_NEXT_WORD = re.compile(r"[\s-](?:[^\S\n])?(?![^\W\d_]\.)([^\W\d_]+)")  # no d. C.
_ROW = re.compile(r"\s(?:oder|bis|ou|o|u|ed?|e|y|a|à)\s\d{1,3}\s([^\W\d_]{3,})")  # 2 ou 3 vezes


def patterns(code: str, language: Language) -> list[Reading]:
    """Patterns of numbers, those first that others must not take apart, with their words."""
    found = _decades(code, language)
    if code in ("pl", "tr"):  # an ordinal whose ending its sentence decides, unless a line begins with it
        found.append((re.compile(r"(?<=[^\s\d][ \t])\d{1,4}\.(?=\s+\w)"), stays))
    if code == "zh":
        found += _chinese(language)
    found += _short_scales(code, language)
    if language.scales:
        found.append(_scaled(language))
    if code == "fr":
        found.append(_french_millions(language))
    found += _without_cents(language)
    if language.to:
        found += _ranges(language)
    found += _ratios(language)
    if language.decimal == ",":
        found.append(_section(language))
    after = _AFTER.get(code, r"(?![^\W\d_])" if language.spaced else r"(?![A-Za-z])")
    pattern = re.compile(number(language) + after + UNREAD)

    def words(match: re.Match[str]) -> str | None:
        whole, part = number_of(match)
        sign = signed(match, language)
        if not part and match["whole"].isdigit() and not sign and language.counts_years and _is_year(match, language):
            return year(int(whole), language)
        word = _NEXT_WORD.match(match.string, match.end())
        if part or word is None or labelled(match, language):
            return sign + decimal(whole, part, language)
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


def _agreeing(found: re.Match[str], whole: str, word: str, language: Language) -> str | None:
    """A number as it stands before a word, or in a row before the word after that; None where it is not known."""
    said = None
    if row := _ROW.match(found.string, found.end()):
        said = before_word(whole, row[1], language)
    if said is None:
        said = before_word(whole, word, language)
    if language.locale == "de" and whole == "1" and not re.fullmatch(language.alone, word, re.IGNORECASE):
        said = german.one(found.string[max(0, found.start() - 40) : found.start()], word) or said
    return said


def _without_cents(language: Language) -> list[Reading]:
    """5,– Euro."""
    if language.decimal != "," or language.number_words is None:
        return []
    even = re.compile(rf"{guard(language)}(?P<n>\d{{1,3}}(?:\.\d{{3}})*),[–—-]{{1,2}}(?=\s|[.;:!?)]|$)")
    return [(even, lambda found: cardinal(found["n"].replace(".", ""), language))]


def labelled(found: re.Match[str], language: Language) -> bool:
    """True where a number stands for itself, after the word that it numbers: page 1, Formel 1, loi n° 78-17."""
    before = found.string[max(0, found.start() - 30) : found.start()]
    return _label(language.locale).search(before) is not None


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
        found.append((re.compile(decade), _decade))
    if code == "de":
        decade = rf"{guard(language)}(?P<n>(?:1[1-9]|20)?\d0|[1-9]\d|[2-9]|[1-9]00)er(?=n?\b|-?Jahre)"
        found.append((re.compile(decade), lambda match: year(int(match["n"]), language) + "er"))
        percent = rf"{number(language)}{BLANK}%-?(?P<ending>ig(?:e[nmrs]?)?)\b"
        found.append(
            (re.compile(percent), lambda match: f"{decimal(*number_of(match), language)}prozent{match['ending']}")
        )
    if code in ("it", "es", "fr", "pt", "de"):  # anni '80
        short = re.compile(r"(?<!\w)['’](?P<n>[2-9]0)(?![\w'’])")
        found.append((short, lambda match: cardinal(match["n"], language)))
    return found


def _ranges(language: Language) -> list[Reading]:
    """Two numbers with a dash between them: 3–5, 2-3 weeks, 1914 – 1918, which is no subtraction, and 1939–45."""
    blank = " " if language.spaced else ""
    dash = "–|-" if language.spaced else "–|-|〜|~|～"

    def between(match: re.Match[str]) -> str | None:
        word = _NEXT_WORD.match(match.string, match.end())
        said = [whole_number(match[n], language, word and word[1]) for n in (1, 2)]
        start, joint = ("", language.to) if is_year(match[1]) else around_range(match, language)
        return None if None in said else start + f"{blank}{joint}{blank * bool(joint)}".join(filter(None, said))

    def years(match: re.Match[str]) -> str | None:
        first, last = (whole_number(match[n], language, None) for n in (1, 2))
        return f"{first}{blank}{language.to}{blank}{last}" if match[1] < match[2] else None

    def rising(match: re.Match[str]) -> str | None:
        if _is_score(match, language):
            return _pair(match, language)
        return between(match) if int(match[1]) < int(match[2]) else _pair(match, language)

    def grouped(match: re.Match[str]) -> str | None:
        word = _NEXT_WORD.match(match.string, match.end())
        start = before_range(match, language, word[1] if word else "")
        whole, part = number_of(match)
        said = before_word(whole, word[1], language) if word and not part else None
        return None if start is None else start + (said or decimal(whole, part, language))

    def numbered(match: re.Match[str]) -> str:
        return " ".join(cardinal(match[n], language) for n in (1, 2))

    def short_years(match: re.Match[str]) -> str | None:
        first, last = match[1], match[2]
        if int(last) <= int(first[2:]):
            return None
        to = f"{blank}{language.to}{blank}"
        zero = "oh " if language.locale == "en" and last[0] == "0" else ""
        return f"{whole_number(first, language, None)}{to}{zero}{cardinal(str(int(last)), language)}"

    start = guard(language)
    end = rf"(?![\w.,:/–-]*\d)(?!\w){UNREAD}" if language.spaced else rf"(?![.,:/–-]*\d)(?![A-Za-z]){UNREAD}"
    season = rf"{start}((?:1\d|20)\d\d)/(\d\d){end}"
    found: list[Reading] = [
        (re.compile(season), lambda match: f"{whole_number(match[1], language, None)} {cardinal(match[2], language)}"),
        (re.compile(rf"{start}((?:1\d|20)\d\d)[–-](\d\d){end}"), short_years),
        (re.compile(rf"{start}{_YEAR}(?:–|-| – ){_YEAR}{end}"), years),
        (re.compile(rf"{start}([1-9]\d?|0)–([1-9]\d?|0){end}"), rising),
        (re.compile(rf"{start}(\d{{1,6}})–(\d{{1,6}}){end}"), between),
        (re.compile(rf"{start}([1-9]\d{{0,2}}|0)-([1-9]\d{{0,2}}|0){end}"), rising),
    ]
    if not language.spaced:
        found.append((re.compile(rf"{start}(\d{{1,6}})(?:{dash})(\d{{1,6}}){end}"), between))
    else:  # 1,000–1,500, 1,5–2
        mark = f"[.,{BLANKS}]"
        either = rf"(?=\d+{mark}\d|\d+(?: – |–|-)\d+{mark}\d)"
        both = bare_range(language).replace(")?(?P<number>", ")(?P<number>", 1)
        found.append((re.compile(f"{guard(language)}{either}{both}{end}"), grouped))
    if language.spaced and (code_of_law := _law(language)):  # n° 78-17
        found.insert(0, (re.compile(rf"{code_of_law}{start}(\d{{1,4}})-(\d{{1,4}}){end}"), numbered))
    if language.spaced:  # Boeing 737-800
        found.insert(0, (re.compile(rf"{start}(7[0-8]7)-([1-9]00?0?){end}"), lambda match: _aircraft(match, language)))
    return found


def _law(language: Language) -> str:
    """Looks behind a number of two parts for the abbreviation that numbers it; "" where the language has none."""
    shorts = [key[:-1] for key in table(language.locale).abbreviations if key in ("n°#", "nº#", "n.º#", "Nr.#", "No.#")]
    return "(?:" + "|".join(rf"(?<=(?<!\w){re.escape(each)} )" for each in shorts) + ")" if shorts else ""


def _aircraft(found: re.Match[str], language: Language) -> str:
    first = found[1] if language.locale != "en" else None
    head = cardinal(first, language) if first else f"seven {cardinal(found[1][1:], language)}"
    return f"{head} {cardinal(found[2], language)}"


_NEAR_SCORE = 60  # characters
_AFTER_SCORE = re.compile(  # no noun, which would be counted
    r"\s*(?:$|[.,;:!?)\n])|\s(?:in|at|to|against|over|on|after|when|and|but|gegen|im|nach|bei|und|contre|en|à|et|contra|"
    r"ante|y|e|em|ao|contro|al|a)\b"
)


def _is_score(found: re.Match[str], language: Language) -> bool:
    """True where a word of a game stands in the same sentence before two numbers, or other scores beside them."""
    before = found.string[max(0, found.start() - _NEAR_SCORE) : found.start()]
    if _beside_scores(before, found.string[found.end() : found.end() + _NEAR_SCORE]):
        return True
    return _AFTER_SCORE.match(found.string, found.end()) is not None and near_score(before, language.locale)


_ROW_JOINT = r"(?:\(\d{1,2}\))?(?:[,،、，;/]\s?|\s(?:and|und|et|y|e|и|و)\s|\s)"
_BEFORE_PAIR = re.compile(rf"(?:(?<![A-Za-z0-9_.:/-])\d{{1,3}}[-–:]\d{{1,3}}{_ROW_JOINT})+$")
_AFTER_PAIR = re.compile(rf"(?:{_ROW_JOINT}\d{{1,3}}[-–:]\d{{1,3}}(?![A-Za-z0-9_:/-]))+")


def _beside_scores(before: str, after: str) -> bool:
    """True for 3-6 in the row 6-4, 3-6: a pair whose first number is the larger one is no range."""
    rows = (_BEFORE_PAIR.search(before), _AFTER_PAIR.match(after))
    pairs = (pair for row in rows if row for pair in re.findall(r"(\d+)[-–:](\d+)", row[0]))
    return any(int(first) > int(second) for first, second in pairs)


def near_score(before: str, code: str) -> bool:
    """True where the last sentence of these words tells of a game: they lost, das Spiel endete."""
    words = table(code).scores
    if not words:
        return False
    return re.search(rf"(?<!\w)(?:{'|'.join(words)})", re.split(r"[.!?;。！？]", before)[-1], re.IGNORECASE) is not None


def _pair(found: re.Match[str], language: Language) -> str | None:
    """A score: 6-4."""
    if language.locale not in _SCORED:
        return None
    blank = " " if language.spaced else ""
    between = table(language.locale).signs.score
    return blank.join(filter(None, (cardinal(found[1], language), between, cardinal(found[2], language))))


_SCORED = ("en", "de", "fr", "es", "it", "pt", "ja", "zh", "fa")


def _ratios(language: Language) -> list[Reading]:
    """3:1, which is no time."""
    word = table(language.locale).signs.ratio
    if not word:
        return []
    blank = " " if language.spaced else ""

    def words(found: re.Match[str]) -> str:
        return f"{cardinal(found[1], language)}{blank}{word}{blank}{cardinal(found[2], language)}"

    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    pattern = rf"(?<![{letters}.,:/–-])(\d{{1,4}}):(\d{{1,4}})(?![{letters}:/])(?![.,–-]\d)"
    return [(re.compile(pattern), words)]


def _section(language: Language) -> Reading:
    """Kapitel 1.2, chapitre 2.10: parts of a number after the word that it numbers."""
    pattern = rf"{guard(language)}(\d{{1,2}})\.(\d{{1,2}})(?![\w.,:/–-]*\d)(?!\w)"

    def words(found: re.Match[str]) -> str | None:
        point = table(language.locale).signs.point
        if not point or not labelled(found, language):
            return None
        return f"{cardinal(found[1], language)} {point} {cardinal(found[2], language)}"

    return re.compile(pattern), words


def _short_scales(code: str, language: Language) -> list[Reading]:
    """100K views, 5bn: in figures of people and things."""
    scales = table(code).scales_of_numbers
    if not scales:
        return []

    def words(found: re.Match[str]) -> str | None:
        whole, part = number_of(found)
        if found["scale"] in ("K", "k") and len(whole) < 2:
            return None  # 4K is a format
        if found["scale"] == "K" and _RACE.match(found.string, found.end()):
            return None  # a 10K race
        scale = scales[found["scale"]]
        scale = singular_scale(scale, 1, language) if whole == "1" and not part else scale
        return f"{signed(found, language)}{decimal(whole, part, language)} {scale}"

    counted = r"people|users|view(?:er)?s|followers|subscribers|customers|voters|homes|jobs|copies|visitors|members"
    counted += r"|miles|dollars|words|steps|lines|rows|downloads|students|employees|residents|fans|likes|units|pounds"
    small = rf"{number(language)}(?P<scale>[mk])(?=\s(?:{counted})\b)"  # 1.2m people, 120k miles
    names = {"m": "million", "k": "thousand"}
    millions = [(re.compile(small), lambda found: f"{decimal(*number_of(found), language)} {names[found['scale']]}")]
    shorts = "|".join(sorted(map(re.escape, scales), key=len, reverse=True))
    blank = BLANK if code != "en" else ""
    found = [(re.compile(rf"{number(language)}{blank}(?P<scale>{shorts})(?![\w-])"), words)]
    return [*found, *(millions if code == "en" else [])]


_RACE = re.compile(r"\s(?:time|run|race|walk|event|course|PB|finish)\b")


def _chinese(language: Language) -> list[Reading]:
    """Years and rooms digit by digit, and the 2 of what is counted."""
    to = language.to
    pattern = rf"{guard(language)}([12]\d{{3}})(?:(?:-|–|~|～|至|到)([12]\d{{3}}))?(?=年(?!间隔|级))"

    def years(found: re.Match[str]) -> str:
        return to.join(chinese.one_by_one(each) for each in found.groups() if each)

    room = re.compile(rf"{guard(language)}(\d{{3,4}})(?=室|号房|房间|号楼|路|次列车|航班)")
    before_christ = re.compile(r"(?:(?<=公元)|(?<=公元前))(\d{1,4})(?=年)")
    height = re.compile(rf"{guard(language)}([1-9])米([1-9]\d)(?![\d.厘]|厘米)")
    mobile = re.compile(rf"{guard(language)}(1[3-9]\d{{9}})(?!\d)")
    two = re.compile(rf"(?<!第)(?<![-–~～〜]){guard(language)}2(?=[{chinese.TWO_OF}]|点(?!\d(?!刻)))")
    return [
        (re.compile(pattern), years),
        (before_christ, lambda found: chinese.one_by_one(found[1])),
        (height, lambda found: f"{cardinal(found[1], language)}米{chinese.one_by_one(found[2])}"),
        (mobile, lambda found: chinese.one_by_one(found[1])),
        (room, lambda found: chinese.one_by_one(found[1])),
        (two, lambda _: "两"),
    ]


def _french_millions(language: Language) -> Reading:
    """1 000 000 habitants: un million d'habitants; the blank before the noun goes with the vowel of "de"."""
    figures = rf"(?=[\d{BLANKS}]{{0,20}}?(?:[{BLANKS}]?000){{2}}[{BLANKS}](?!\d))\d[\d{BLANKS}]{{4,20}}\d"
    pattern = rf"{guard(language)}(?P<n>{figures})[{BLANKS}](?!(?:{language.alone})\b)(?={ELIDED})"
    return (re.compile(pattern), lambda found: cardinal(re.sub(r"\D", "", found["n"]), language) + " d'")


def whole_number(digits: str, language: Language, word: str | None) -> str | None:
    """A whole number, or a year, as it stands before a word; None where that has an unknown gender."""
    if is_year(digits) and language.counts_years:
        return year(int(digits), language)
    return before_word(digits, word, language) if word else cardinal(digits, language)


def _decade(found: re.Match[str]) -> str:
    digits = found["n"] or found["short"]
    words = cardinal(digits, LANGUAGES["en"]) if len(digits) == 2 else year(int(digits), LANGUAGES["en"])
    if digits.endswith("00") and digits != "2000":
        words = f"{cardinal(digits[:2], LANGUAGES['en'])} hundred"
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
