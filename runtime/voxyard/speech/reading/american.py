"""English figures and short forms that belong to a place: zip codes, 3M, 7 out of 10."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import UNITS, Language
from voxyard.speech.reading.names import number
from voxyard.speech.reading.number_words import cardinal, decimal, ordinal, year
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.tables import table
from voxyard.speech.reading.units import unit_name

_STATES = (
    "AL|AK|AZ|AR|CA|CO|CT|DE|DC|FL|GA|HI|ID|IL|IN|IA|KS|KY|LA|ME|MD|MA|MI|MN|MS|MO|MT|NE|NV|NH|NJ|NM|NY|NC|ND|OH|OK|"
    "OR|PA|RI|SC|SD|TN|TX|UT|VT|VA|WA|WV|WI|WY"
)
_STATE_NAMES = (
    "Alabama|Alaska|Arizona|Arkansas|California|Colorado|Connecticut|Delaware|D C|Florida|Georgia|Hawaii|Idaho|"
    "Illinois|Indiana|Iowa|Kansas|Kentucky|Louisiana|Maine|Maryland|Massachusetts|Michigan|Minnesota|Mississippi|"
    "Missouri|Montana|Nebraska|Nevada|New Hampshire|New Jersey|New Mexico|New York|North Carolina|North Dakota|"
    "Ohio|Oklahoma|Oregon|Pennsylvania|Rhode Island|South Carolina|South Dakota|Tennessee|Texas|Utah|Vermont|"
    "Virginia|Washington|West Virginia|Wisconsin|Wyoming"
)
_STATE_OF = dict(zip(_STATES.split("|"), _STATE_NAMES.split("|"), strict=True))
_NAMES = {"3M": "three M", "401(k)": "four oh one k", "401k": "four oh one k", "7-Eleven": "seven eleven"}

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]


def patterns(language: Language) -> list[Reading]:
    """Patterns with their words, before which no other rule may take the figures."""

    def by_digits(found: re.Match[str]) -> str:
        return ", ".join(" ".join(cardinal(digit, language) for digit in part) for part in found[0].split("-"))

    def lap(found: re.Match[str]) -> str:
        seconds = ("oh " if found["seconds"][0] == "0" else "") + decimal(
            str(int(found["seconds"])), found["part"], language
        )
        return f"{cardinal(found['minutes'], language)} {seconds}"

    def out_of(found: re.Match[str]) -> str:
        return f"{decimal(found['whole'], found['part'] or '', language)} out of {cardinal(found['best'], language)}"

    def thirds(found: re.Match[str]) -> str:
        return f"{cardinal(found['above'], language)} third{'s' if found['above'] != '1' else ''}"

    def average(found: re.Match[str]) -> str:
        return f"point {' '.join(cardinal(digit, language) for digit in found['digits'] or found['part'])}"

    def military(found: re.Match[str]) -> str:
        hour, minute = found["hour"] or found["whole"], int(found["minute"] or 0)
        hours = f"zero {cardinal(hour[1], language)}" if hour[0] == "0" else cardinal(hour, language)
        zero = "zero " if 0 < minute < 10 else ""
        said = f"{hours} {zero}{cardinal(str(minute), language) if minute else 'hundred'}"
        return f"{said} hours" if found["hours"] or found["whole"] else said

    def pence(found: re.Match[str]) -> str:
        whole, _, part = found["n"].partition(".")
        return f"{decimal(whole, part, language)} {'penny' if found['n'] == '1' else 'pence'}"

    def half_day(found: re.Match[str]) -> str:
        ends = [(found[f"h{n}"], int(found[f"m{n}"] or 0), found[f"half{n}"]) for n in (1, 2) if found[f"h{n}"]]
        if len(ends) == 2 and not any(minute or half == "a" for _, minute, half in ends):
            return ELSEWHERE  # from 5p to 9p, of pence
        said = []
        for hour, minute, half in ends:
            minutes = f" {'oh ' * (minute < 10)}{cardinal(str(minute), language)}" if minute else ""
            said.append(f"{cardinal(hour, language)}{minutes} {half}m")
        return " to ".join(said)

    best = r"(?P<best>5|10|100)(?=\s(?:stars?|points?|on|for|in)\b|[.,;!?)]|\s*$)"
    return [
        (_HALF_DAY, half_day),
        (_CENTS, lambda found: _cents(found, language)),
        (_AGO, lambda found: _ago(found, language)),
        (_QUARTER, lambda found: _quarter(found, language)),
        (_LEANING, lambda found: _leaning(found, language)),
        (_ASKED, lambda found: f"{cardinal(found['n'], language)} minus {cardinal(found['m'], language)}"),
        (_CLOSED, lambda found: _DAYS[found[0][:2]] + "day"),
        (_SIDES, lambda found: _sides(found, language)),
        (_ROOMS, lambda found: _rooms(found, language)),
        (
            re.compile(r"(?<![\w.,$€£/-])(?P<n>\d{1,3})[kK](?=-[a-z]{3})(?!-(?:run|race))"),
            lambda found: f"{cardinal(found['n'], language)}-thousand",
        ),  # a 2k-word essay
        (
            re.compile(r"(?=[1-9])(?:(?<=§ )|(?<=§)|(?<=\b[Ss]ection ))[1-9]\d[1-9]\d(?![\w]|[.,:–-]\d)"),
            lambda found: number(found[0], "en", language),
        ),  # § 1030
        (re.compile(rf"(?<=[a-z], )(?:{_STATES})(?=,? \d{{5}}(?!\d))"), lambda found: _STATE_OF[found[0]]),
        (re.compile(rf"(?<=\b[A-Z][A-Z]\s)(?<=(?:{_STATES})\s)\d{{5}}(?:-\d{{4}})?(?![\w-]|[.,]\d)"), by_digits),
        (
            re.compile(r"(?<![\w.,:/-])(?P<minutes>[1-5]?\d):(?P<seconds>[0-5]\d)\.(?P<part>\d{1,3})(?![\w:]|[.,]\d)"),
            lap,
        ),
        (
            re.compile(
                rf"(?=\d)(?:(?<=\bscored )|(?<=\brated )|(?<=\brating of )|(?<=\brating: )|(?<=\bgot )|(?<=\bgave it ))"
                rf"(?P<whole>\d{{1,3}})(?:\.(?P<part>\d))?/{best}"
            ),
            out_of,
        ),
        (re.compile(r"½(?=-[a-z])"), lambda _: "half"),  # ½-price
        (
            re.compile(
                r"(?:(?:(?<=\s)|^)\.(?P<digits>\d{3})|(?:(?<=[<>=≈≤≥])|(?<=[<>=≈≤≥] ))\.(?P<part>\d{1,4}))(?!\w|\.\d)"
            ),
            average,
        ),  # he bats .312
        (re.compile(r"(?<![\w.,/-])(?P<above>\d{1,2})/3rds?\b"), thirds),
        (
            re.compile(
                r"(?<![\w.,$€£-])(?:3M|401\(k\)|401k|7-Eleven)(?![\w-])(?!\s(?:people|users|views|followers|jobs|homes))"
            ),
            lambda found: _NAMES[found[0]],
        ),
        (re.compile(r"(?<![\w.,:/$£€-])(?P<n>\d{1,2})(?=ish\b)"), lambda found: f"{cardinal(found['n'], language)}-"),
        (
            re.compile(r"(?<![\w.,:/$£€-])(?P<n>[2-9]|10)/(?=[$£€]\d)"),
            lambda found: f"{cardinal(found['n'], language)} for ",
        ),
        (  # 9 st 6 lb, weighs 14 st
            re.compile(
                r"(?:(?<![\w.,$€£-])(?=\d\d? ?st \d\d? ?lb)|(?<=\bweigh )|(?<=\bweighs )|(?<=\bweighed ))"
                r"(?P<n>\d\d?) ?st(?!\w)"
            ),
            lambda found: f"{cardinal(found['n'], language)} stone",
        ),
        (
            re.compile(r"(?<=\bpp\. )(?P<n>\d{1,4})ff?\.(?!\w)"),
            lambda found: f"{cardinal(found['n'], language)} and following",
        ),
        (_MILITARY, military),
        (_ODDS, lambda found: _odds(found, language)),
        (re.compile(r"(?<=\d)-yr-old(?=s?\b)"), lambda _: "-year-old"),
        (
            re.compile(r"(?<![\w.,£$-])(?P<n>[1-9]\d?|[1-9]\d{0,3}\.\d{1,2})p(?![\w'’/-])(?!\s?\d)"),
            pence,
        ),  # 50p, 312.5p
        (re.compile(r"(?<=[¼½¾])p(?![\w'’/-])"), lambda _: " pence"),
        (_POINTS, lambda found: f"{cardinal(found['n'], language)}-point"),
        (re.compile(r"(?<![\w#])(?P<note>[A-G])#(?![\w#])"), lambda found: f"{found['note']} sharp"),
        (re.compile(r"(?<=[\w).]\s)@(?=\s?[$£€]?\d)"), lambda _: "at"),  # 100 shares @ $24.50
        (re.compile(r"(?<=\d{4} )est\.(?=[);,])"), lambda _: "estimate"),  # 8.9m (2019 est.)
        (_COLD, lambda found: f"minus {cardinal(found['n'], language)} degrees {_SCALES[found['scale']]}"),
        (_ORDER, lambda found: _order(found, language)),
        (_OVEN, lambda found: _oven(found, language)),
        (_CHIP, lambda found: number(found[0], "en", language)),
        (re.compile(r"(?P<hour>12|1[0-1]|[1-9]):00(?=\s(?:noon|midnight)\b)"), lambda f: cardinal(f["hour"], language)),
    ]


_QUARTER = re.compile(r"(?<![\w.,/-])(?P<n>[1-4])Q\s?(?:20)?(?P<year>[0-4]\d)(?![\w/]|[.,]\d)")


def _quarter(found: re.Match[str], language: Language) -> str:
    """2Q22."""
    return f"{ordinal(int(found['n']), language)} quarter of {year(2000 + int(found['year']), language)}"


_LEANING = re.compile(
    r"(?<![\w.,$€£)])\.(?P<part>\d{1,3})\s?(?P<unit>kg|g|mg|lbs?|oz|km|mi|cm|mm|in|ft|ml|GB|MB)(?!\w)"
)


def _leaning(found: re.Match[str], language: Language) -> str | None:
    """.5kg."""
    name = unit_name(language, {**UNITS, **table("en").units}[found["unit"]], 2)
    return None if name is None else f"point {' '.join(cardinal(digit, language) for digit in found['part'])} {name}"


_ASKED = re.compile(
    r"(?:(?<=\b[Ww]hat is )|(?<=\b[Ww]hat's )|(?<=\b[Cc]ompute )|(?<=\b[Cc]alculate ))"
    r"(?P<n>\d{1,4})\s?[-–−]\s?(?P<m>\d{1,4})(?![\w/–-]|[.,:]\d)"
)
_DAYS = {"Mo": "Mon", "Tu": "Tues", "We": "Wednes", "Th": "Thurs", "Fr": "Fri", "Sa": "Satur", "Su": "Sun"}
_CLOSED = re.compile(
    r"(?<![\w.-])(?<![Tt]he )(?:Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)(?=:?\s(?:closed|CLOSED|Closed|only)\b)"
)


_CENTS = re.compile(r"(?<![\w$€£])(?P<sign>[$€£])\.(?P<n>\d\d)(?!\d|\s?(?:[mb]illion|[kKmMbB])\b)")


def _cents(found: re.Match[str], language: Language) -> str:
    """A penny is $.01."""
    names = table("en").cents[{"$": "USD", "€": "EUR", "£": "GBP"}[found["sign"]]]
    return f"{cardinal(str(int(found['n'])), language)} {names[int(found['n']) != 1]}"


_SPANS = {
    "s": "second", "m": "minute", "min": "minute", "h": "hour", "hr": "hour", "d": "day", "w": "week", "wk": "week",
    "mo": "month", "y": "year", "yr": "year",
}  # fmt: skip
_AGO = re.compile(rf"(?<![\w.,:/$€£-])(?P<n>\d{{1,3}})(?P<unit>{'|'.join(_SPANS)})(?=\sago\b)")


def _ago(found: re.Match[str], language: Language) -> str:
    """1m ago, 2d ago."""
    return f"{cardinal(found['n'], language)} {_SPANS[found['unit']]}{'s' * (found['n'] != '1')}"


_ODDS = re.compile(
    r"(?<![\w.,:/$£€–-])(?P<n>[1-9]\d{0,3})[-–/](?P<m>[1-9]\d{0,2})(?![\w/–-]|[.,:]\d)"
    r"(?P<after>\s(?:odds|favou?rites?|outsiders?|shots?|long ?shots?|chances?)\b)?"
)
_BETTING = re.compile(
    r"\b(?:odds(?:\s(?:of|are|were|is|at|stand|stood|about|on|to))*|(?:priced|backed|quoted|tipped|starting) at|"
    r"(?:odds|bookm\w+|bett?ing|favou?rite)\b[^.!?;]{0,30}\bat)\s$"
)


def _odds(found: re.Match[str], language: Language) -> str:
    """Odds of 100-1, a 5-1 shot."""
    before = found.string[max(0, found.start() - 60) : found.start()]
    if not (found["after"] and found["m"] in ("1", "2", "4")) and _BETTING.search(before) is None:
        return ELSEWHERE
    return f"{cardinal(found['n'], language)} to {cardinal(found['m'], language)}{found['after'] or ''}"


_SIDES = re.compile(  # 24"W x 18"D x 30"H
    r"(?<![\w.,/'′’°-])\d{1,3}(?:\.\d{1,2})?\s?[\"″”]\s?[WDHL](?:\s?[xX×]\s?\d{1,3}(?:\.\d{1,2})?\s?[\"″”]\s?[WDHL]){0,2}(?![\w'’])"
)
_DIRECTIONS = {"W": "wide", "D": "deep", "H": "high", "L": "long"}


def _sides(found: re.Match[str], language: Language) -> str:
    sides = re.findall(r"(\d+)(?:\.(\d+))?\s?.\s?([WDHL])", found[0])
    return " by ".join(
        f"{decimal(whole, part, language)} inch{'es' * ((whole, part) != ('1', ''))} {_DIRECTIONS[side]}"
        for whole, part, side in sides
    )


_ROOMS = re.compile(
    r"(?<![\w.,/-])(?P<n>\d)\s?(?:BR|BD|bd|bed)\s?/\s?(?P<m>\d)(?P<half>\.5)?\s?(?:BA|ba|bath)\b(?P<noun>\s[a-z]+)?"
)


def _rooms(found: re.Match[str], language: Language) -> str:
    """A 3BR/2BA ranch."""
    after = found["noun"] or ""
    described = after and after.strip() not in table("en").no_attribute
    half = " and a half" if found["half"] else ""
    rooms = ((found["n"], "", "bedroom"), (found["m"], half, "bathroom"))
    said = (
        f"{cardinal(n, language)}{more} {noun}{'s' * (not described and (n != '1' or bool(more)))}"
        for n, more, noun in rooms
    )
    return ", ".join(said) + after


_HOUR = r"(?P<h{0}>1[0-2]|[1-9])(?::(?P<m{0}>[0-5]\d))"
_HALF_DAY = re.compile(  # 8:10a, 6a-10p, arrives 6p; but 50p are pence
    rf"(?<![\w.,:/$£€–-])(?:{_HOUR.format(1)}?(?P<half1>[ap])"
    rf"(?:(?:\s?[–-]\s?|\sto\s){_HOUR.format(2)}?(?P<half2>[ap])|(?:(?<=:\d\d[ap])|"
    r"(?<=arrive \d[ap])|(?<=arrives \d[ap])|(?<=depart \d[ap])|(?<=departs \d[ap])|(?<=opens \d[ap])|"
    r"(?<=closes \d[ap])|(?<=until \d[ap])|(?<=arrives \d\d[ap])|(?<=closes \d\d[ap])|(?<=at \da)|(?<=at \d\da)))"
    r")(?![\w'’/])(?!\s(?:each|per|a|off|coins?)\b)"
)
_MILITARY = re.compile(  # 0630 hours, at 0900, at 1400 hours
    r"(?<![\w.,:/$£€-])(?:(?:(?<=\bat )|(?<=\bby )|(?<=\bfrom )|(?<=\bto )|(?<=\buntil )|(?<=\b[Tt]he )|(?=0))"
    r"(?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)"
    r"(?:(?P<hours>\s?(?:hrs\b\.?|hours\b))(?! of\b| a\b| per\b)|(?<=\b0[1-9]00)(?! \d)(?![\w.,-]\d))"
    r"(?!\w)|(?P<whole>[01]\d|2[0-3])00hrs\b)"
)
_POINTS = re.compile(
    r"(?<![\w.,-])(?P<n>\d{1,3})-pt\.?(?=\s(?:range|shot|line|shoot\w*|attempts?|field|lead|win|loss|game|play|margin|deficit|font|type))"
)
_ORDER = re.compile(  # order #45-7781, invoice no. 2024-0117
    r"(?P<sign>(?<![\w#&])#|(?:(?<=\b[Nn]o\. )|(?<=\b[Ii]nvoice )|(?<=\b[Tt]icket )|(?<=\b[Bb]ooking )|"
    r"(?<=\b[Rr]eference )|(?<=\b[Rr]ef\. )|(?<=\b[Cc]laim )|(?<=\bSKU )))"
    r"(?P<parts>\d{1,6}-\d{4,6}|(?<=SKU )\d{2,6}-\d{2,6}|(?:19|20)\d\d-\d{1,6})(?![\w/-]|[.,]\d)"
)


def _order(found: re.Match[str], language: Language) -> str:
    said = ", ".join(number(part, "en", language) for part in found["parts"].split("-"))
    return f"number {said}" if found["sign"] else said


_SCALES = {"C": "Celsius", "F": "Fahrenheit"}
_COLD = re.compile(r"(?<![\w)\]-])[-−](?P<n>\d{1,2})(?P<scale>[CF])(?![\w-])")  # -15F
_OVEN = re.compile(  # 180C/160C fan
    r"(?<![\w.,/-])\d{2,3} ?[CF](?:(?=/\d{2,3} ?[CF]\b)(?:/\d{2,3} ?[CF])+|(?=[ /](?:fan|gas|oven)\b)|"
    r"(?<=(?:oven to|Bake at|bake at|Cook at|cook at|heat to|Heat to) \d\d\d[CF]))(?![\w-])"
)


def _oven(found: re.Match[str], language: Language) -> str:
    degree = "degree" if re.match(r" oven\b", found.string[found.end() : found.end() + 6]) else "degrees"
    heats = (
        f"{cardinal(n, language)} {degree} {_SCALES[scale]}" for n, scale in re.findall(r"(\d+) ?([CF])", found[0])
    )
    return " or ".join(heats)


_CHIP = re.compile(
    r"(?<![\w.,/-])(?:(?<=\b[RG]TX )|(?<=\bRX )|(?<=\bGT )|(?<=\bRyzen [3579] )|(?<=\bXeon ))\d{3,4}(?!\w|[.,-]\d)"
)
