"""How long something took: 42:17 min, in 25:30, 1h32min07s, the mile in 4'07"."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from voxyard.speech.reading.digits import one_by_one
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal, decimal
from voxyard.speech.reading.patterns import BLANK, ELSEWHERE
from voxyard.speech.reading.tables import table
from voxyard.speech.reading.units import is_quoted, unit_name

Words = Callable[[re.Match[str]], str | None]


def patterns(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of durations, before which no time of day is read, with their words."""
    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    sign = r"(?::|\.(?=\d\d,\d))" if language.decimal == "," else ":"  # 3.41,25
    lap = rf"(?<![{letters}:.,/–-])(?P<minutes>\d{{1,2}}){sign}(?P<seconds>[0-5]\d)(?P<part>[.,]\d{{1,3}})?"
    lap += rf"(?![{letters}:]|[.,–-]\d)(?(part)(?:{BLANK}[Mm]in\b)?)"
    durations = rf"(?<![{letters}:.,/–-])(?P<minutes>\d{{1,3}}):(?P<seconds>[0-5]\d)[  ]?{_MINUTES}"
    paces = rf"(?<![{letters}:.,/–-])(?P<minutes>\d{{1,2}}):(?P<seconds>[0-5]\d)(?:[  ]?(?:min|мин))?[  ]?/[  ]?"
    paces += rf"(?P<per>{'|'.join(_DISTANCES)})(?!\w)"
    whole = rf"(?<![{letters}:.,/–-])(?P<hours>\d{{1,2}}):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d)"
    whole += rf"(?![{letters}:]|[.,–-]\d)"
    exact = rf"(?<![{letters}:.,/–-])(?P<hours>\d{{1,2}}){BLANK}h{BLANK}(?P<minutes>[0-5]?\d){BLANK}(?:min|mn|m){BLANK}"
    exact += r"(?P<seconds>[0-5]?\d)\s?s(?!\w)"  # 1h32min07s
    exact_minutes = rf"(?<![{letters}:.,/–-])(?P<minutes>\d{{1,3}}){BLANK}(?:min|mn)\s?(?P<seconds>[0-5]?\d)\s?s(?!\w)"
    primes = rf"(?<![{letters}:.,/–-])(?P<hours>\d{{1,2}}){BLANK}h{BLANK}(?P<minutes>[0-5]?\d)['′’]{BLANK}"
    primes += r"(?P<seconds>[0-5]?\d)(?:[\"″”]|'')(?!\w)"
    glued = rf"(?<![{letters}:.,/–-])(?P<hours>\d{{1,3}}){BLANK}h{BLANK}(?P<minutes>[0-5]?\d)"  # 2h 15m, 1h 52'
    glued += rf"(?:{BLANK}(?:min|mn|m)\b|['’′](?!\w))"
    return [
        *_primed(language),
        *_ago(language),
        (re.compile(paces), partial(_pace, language)),
        (re.compile(whole), partial(_long, language)),
        (re.compile(durations), partial(_duration, language)),
        (re.compile(lap), partial(_lap, code, language)),
        (re.compile(exact), partial(_hours_and_minutes, language)),
        (re.compile(exact_minutes), partial(_hours_and_minutes, language)),  # 41min32s
        (re.compile(primes), partial(_hours_and_minutes, language)),
        (re.compile(glued), partial(_hours_and_minutes, language)),
    ]


def hundredths(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """9秒98, 9초 98: the hundredths of a second, digit by digit; 9s85; de 8/8 h, how often."""
    if joint := _BEFORE_HUNDREDTHS.get(language.locale):
        after_unit = re.compile(r"(?<![\w.,:/–-])(?P<n>\d{1,2})s(?P<part>\d\d)(?!\w|[.,]\d)")
        found: list[tuple[re.Pattern[str], Words]] = [(after_unit, partial(_seconds, joint, language))]
        often = re.compile(r"(?<=\bde )(?P<n>\d{1,2})/(?P=n) ?h(?:oras)?(?!\w)")
        return [*found, (often, partial(_every, language))] if language.locale == "pt" else found
    if language.locale not in ("ja", "zh", "ko"):
        return []
    noun = r"[.,:]?[\dA-Za-z]|[~〜%㍱-㏟米回次个個本枚度分公千万圈名人メセ]|\s?[개번명회분도미센킬살]"
    pattern = rf"(?<=\d[秒초]) ?(?P<n>\d\d)(?!{noun})"
    return [(re.compile(pattern), lambda found: " " * language.spaced + one_by_one(found["n"], language))]


_BEFORE_HUNDREDTHS = {"fr": " ", "es": " ", "it": " e ", "pt": " e "}


def _seconds(joint: str, language: Language, found: re.Match[str]) -> str:
    return f"{unit(language, 'second', int(found['n']))}{joint}{cardinal(str(int(found['part'])), language)}"


def _every(language: Language, found: re.Match[str]) -> str:
    hours = cardinal(found["n"], language, "hora")
    return f"{hours} em {hours} horas"


_RACE = re.compile(
    r"(?:\b(?:won|ran|run|swam|swum|finish\w*|clock\w*|sprint\w*|lief|läuft|gewann|schwamm|couru|court|gagn[ée]\w*|"
    r"nag[ée]\w*|corri[óo]|ganó|nadó|corso|vinto|nuotato|correu|venceu|nadou|mile|Meile|miglio|milla|milha|lap|"
    r"[1-9]\d\d0? ?m(?:et(?:er|re)s)?|[1-9]\d? ?km)\b[^.!?\"”″]{0,40}\b(?:in|en|em)|"
    r"\b(?:(?:split|lap|finish|finishing|best) times?|times?|splits?|Zeit|Zeiten|temps|tiempos?|tempos?)"
    r"(?: ?:| of| de| von| is| was))\s$",
    re.IGNORECASE,
)
_PACE = re.compile(r"\s(?:(?:pace|per (?:mile|km)|a mile|au km|le km|splits?|laps?)\b|per kilomet)|/(?:km|mi)\b")
_DESCRIBED = re.compile(r"\s(?:tall|high|long|wide|deep|by|x)\b")
_MOST_INCHES = 12


def _primed(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """The mile in 4'07", 5'30" pace, 9"58: minutes and seconds, where no length is written so."""
    if language.number_words is None or not language.spaced:
        return []
    sign = r"(?:[\"″”]|'')"
    start = r"(?<![\w.,/'’\"“„″°-])(?<!° )"
    minutes = rf"{start}(?P<minutes>\d{{1,2}})['′’](?P<seconds>[0-5]?\d)(?P<sign>{sign})(?P<part>\d{{1,3}})?(?!\w)"
    parts = rf"{start}(?P<minutes>)(?P<seconds>[1-5]?\d)(?P<sign>[\"″])(?P<part>\d{{1,2}})(?![\w\"”'’]| ?[x×])"
    tenths = rf"(?:{re.escape(language.decimal)}(?P<part>\d{{1,2}}))?"
    alone = rf"{start}(?P<minutes>)(?P<seconds>[1-5]?\d){tenths}(?P<sign>{sign})(?![\w\"”]| ?[x×])"

    def words(found: re.Match[str]) -> str | None:
        seconds, part, sign = found["seconds"], found["part"], found["sign"]
        quoted = sign != "″" and is_quoted(found.string, found.start())
        ran = _RACE.search(found.string[max(0, found.start() - 80) : found.start()]) is not None
        described = _DESCRIBED.match(found.string, found.end()) is not None
        ran = ran and not (found["minutes"] and len(seconds) == 1 and described)
        told = ran or _PACE.match(found.string, found.end()) is not None
        figures = int(seconds)
        no_length = found["minutes"] and (figures > _MOST_INCHES or (seconds[0] == "0" and figures and not described))
        if (
            quoted
            and (part is None or found.end("sign") < found.end())
            and not (found["minutes"] and (told or no_length))
        ):
            return ELSEWHERE
        if not (told or no_length or (part and found.end("sign") < found.end())):
            return ELSEWHERE
        said = [unit(language, "minute", int(found["minutes"]))] if found["minutes"] else []
        if part:
            noun = unit_name(language, "duration-second", 2) or ""
            said.append(f"{decimal(str(int(seconds)), part, language)} {noun}")
        elif int(seconds):
            said.append(unit(language, "second", int(seconds)))
        return " ".join(said) + (
            sign if quoted and not part and found.string[found.end() : found.end() + 1] not in ('"', "”") else ""
        )

    return [(re.compile(pattern), words) for pattern in (minutes, parts, alone)]


_MINUTES = r"(?:min(?:ute[sn]?|s|utos|uti|uten)?\b\.?(?!\w)|мин(?:ут[ыа]?)?\b\.?|Min\.|Minuten\b)"


_RAN = re.compile(
    r"\b(?:in|en|em|за)\s$|\b(?:time|lap|Zeit|Rundenzeit|temps|tiempo|tempo|время)\b[^.!?\d]{0,12}$|"
    r"(?:成绩|用时|以|タイム|زمان|رکورد)(?:是|为|は|が)?[:：]?\s?$",
    re.IGNORECASE,
)
IN_PERSIAN = re.compile(r"\s(?:دوید|پیمود|شنا کرد|رکورد|به پایان|تمام کرد)")
"""Words after a time of a race, where "in" is "at" too."""


_LAST_HOUR = 24


def _lap(code: str, language: Language, found: re.Match[str]) -> str | None:
    """In 25:30, in 1:54,73: minutes and seconds of a race."""
    minutes, part = int(found["minutes"]), found["part"]
    ran = _RAN.search(found.string[max(0, found.start() - 24) : found.start()]) is not None
    if code == "fa":
        ran = ran or IN_PERSIAN.match(found.string, found.end()) is not None
    before = found.string[max(0, found.start() - 60) : found.start()]
    if not part and minutes < _FEWEST_MINUTES and code != "en" and _IN.search(before):
        ran = _SHORT_RACE.search(re.split("[,;.]", before)[-1]) is not None
        if not ran and language.number_words:  # 4:12, of hours or of minutes
            return f"{cardinal(found['minutes'], language)} {cardinal(found['seconds'], language)}"
    elif not part and minutes < _FEWEST_MINUTES:
        ran = ran and code == "fa"
    if language.number_words is None or not (part or ran):
        return ELSEWHERE
    seconds = str(int(found["seconds"]))
    if code == "en" and not part:
        zero = "oh " if len(seconds) == 1 else ""
        whole = f"{cardinal(found['minutes'], language)} {zero}{cardinal(seconds, language)}"
        return whole if minutes > _LAST_HOUR else ELSEWHERE
    if part and ((part[0] != language.decimal and ":" not in found[0]) or code == "en"):
        return ELSEWHERE
    blank = " " if language.spaced else ""
    said = [unit(language, "minute", minutes)] if minutes else []
    if code == "de" and ran and minutes == 1:
        said = ["einer Minute"]
    if part:
        noun = unit_name(language, "duration-second", 2) or ""
        said.append(f"{decimal(seconds, part[1:], language)}{blank}{noun}")
    elif int(seconds):
        said.append(unit(language, "second", int(seconds)))
    return blank.join(said)


_IN = re.compile(r"\b(?:in|en|em|за)\s$")
_SHORT_RACE = re.compile(
    r"\b(?:mil(?:e|la|ha)|miglio|Meile|милю|lap|Runde|tour|vuelta|giro|volta|круг|[1-9]\d\d\d?\s?[mм])\b", re.IGNORECASE
)
_FEWEST_MINUTES = 10  # of a race, that are no hours: 2:15


def unit(language: Language, name: str, count: int) -> str:
    """So many hours, minutes or seconds."""
    from babel.numbers import format_decimal
    from babel.units import format_unit

    form = format_unit(count, f"duration-{name}", "long", locale=language.locale)
    noun = form.replace(format_decimal(count, locale=language.locale), "").strip()
    blank = " " if language.spaced else ""
    number = "两" if language.locale == "zh" and count == 2 else cardinal(str(count), language, noun)
    return f"{number}{blank}{noun}".replace("una ora", "un'ora")


def _duration(language: Language, found: re.Match[str]) -> str:
    """42:17 min: forty-two minutes seventeen seconds."""
    blank = " " if language.spaced else ""
    said = unit(language, "minute", int(found["minutes"]))
    if int(found["seconds"]):
        said += f"{blank}{unit(language, 'second', int(found['seconds']))}"
    after = found.string[found.end() :].lstrip()
    return said + "." if found[0].endswith(".") and (not after or after[0].isupper()) else said


def _hours_and_minutes(language: Language, found: re.Match[str]) -> str:
    """2h15min, how long."""
    blank = " " if language.spaced else ""
    names = [name for name in ("hours", "minutes", "seconds") if name in found.re.groupindex]
    return blank.join(unit(language, name[:-1], int(found[name])) for name in names)


_DISTANCES = {"km": "length-kilometer", "mi": "length-mile", "км": "length-kilometer", "100 m": "", "100m": ""}


def _pace(language: Language, found: re.Match[str]) -> str:
    """5:30 min/km, 8:15/mi: minutes and seconds per kilometer."""
    per, name = table(language.locale).signs.per, _DISTANCES[found["per"]]
    noun = unit_name(language, name or "length-meter", 1 if name else 100)
    if not per or not noun or not language.number_words:
        return ELSEWHERE
    blank = " " if language.spaced else ""
    of = noun if name else f"{cardinal('100', language)}{blank}{noun}"
    return f"{_duration(language, found)}{blank}{per}{blank}{of}"


_LASTING = re.compile(
    r"\b(?:duration|runtime|running time|length|elapsed|remaining|lap time|finish(?:ing)? time|total time|time left|"
    r"Dauer|Laufzeit|Länge|Restzeit|Rundenzeit|Gesamtzeit|durée|temps|duración|tiempo|durata|tempo|duração|looptijd|duur|"
    r"süre|czas trwania|длительность|продолжительность)(?: (?:of|is|was|total|restant|final|de))?:?\s$",
    re.IGNORECASE,
)


def _long(language: Language, found: re.Match[str]) -> str:
    """Duration: 01:05:58, lap time 1:02:03: how long, and no time of day."""
    before = found.string[max(0, found.start() - 32) : found.start()]
    if not language.number_words or not _LASTING.search(before):
        return ELSEWHERE
    names = [name for name in ("hours", "minutes", "seconds") if int(found[name])]
    blank = " " if language.spaced else ""
    return blank.join(unit(language, name[:-1], int(found[name])) for name in names) or ELSEWHERE


_AGO = {  # words before and after a short time on a page
    "en": (r"(?<![\w.,:/-])", r"(?=\s(?:ago|left|remaining|read)\b)"),
    "es": (r"(?:(?<=\b[Hh]ace )|(?<=\b[Qq]uedan ))", ""),
    "fr": (r"(?<=\b[Ii]l y a )", ""),
    "pt": (r"(?<=\b[Hh]á )", ""),
    "it": (r"(?<![\w.,:/-])", r"(?=\sfa\b)"),
    "de": (r"(?<=\b[Vv]or )", r"(?!\s(?:dem|der|den)\b)"),
    "nl": (r"(?<![\w.,:/-])", r"(?=\sgeleden\b)"),
}
_SHORT_UNITS = {"s": "second", "m": "minute", "min": "minute", "h": "hour", "d": "day"}
_DATIVE = ((r"^eine (?=[MSW])", "einer "), (r"^ein ", "einem "), (r"(?<=Tage)$", "n"))


def _ago(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """5m ago, 56m remaining, hace 1m: minutes, and no meters."""
    if language.locale not in _AGO:
        return []
    before, after = _AGO[language.locale]

    def words(found: re.Match[str]) -> str:
        said = unit(language, _SHORT_UNITS[found["unit"]], int(found["n"]))
        for pattern, case in _DATIVE if language.locale == "de" else ():
            said = re.sub(pattern, case, said)
        return said

    return [(re.compile(rf"{before}(?P<n>\d{{1,3}})(?P<unit>{'|'.join(_SHORT_UNITS)})(?!\w){after}"), words)]
