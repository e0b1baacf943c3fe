"""Times of day in words: 14:30, 14h30."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal, decimal, in_case, ordinal
from voxyard.speech.reading.numbers import near_score
from voxyard.speech.reading.patterns import BLANK, ELSEWHERE
from voxyard.speech.reading.tables import table
from voxyard.speech.reading.units import is_quoted, unit_name

Words = Callable[[re.Match[str]], str | None]

_TIME = r"(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?P<second>:[0-5]\d)?"
_HOURS_OF = r"(?P<h{0}>[01]?\d|2[0-4]) ?h ?(?P<m{0}>[0-5]\d)?"
_HOURS = {"fr": ("heure", "heures"), "pt": ("hora", "horas"), "ru": ("час", "часа", "часов")}
# of 13:00 h., whose point ends no sentence before a small letter
_WITH_UNIT = r"(?: ?h(?:rs?|s)?\b(?:\.(?=\s[^\W\d_A-ZÀ-Þ]))?)?"
_KOREAN_HOURS = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉", "열", "열한", "열두")


def patterns(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of times, with their words."""

    def between(found: re.Match[str]) -> str | None:
        after = found.string[found.end() : found.end() + 6]
        first = _spoken(code, language, int(found["h1"]), int(found["m1"] or 0), after)
        last = _spoken(code, language, int(found["h2"]), int(found["m2"] or 0), after)
        blank = " " if language.spaced else ""
        return None if first is None or last is None else f"{first.rstrip()}{blank}{language.to}{blank}{last}"

    def words(found: re.Match[str]) -> str | None:
        if found["second"]:
            return _with_seconds(code, language, found)
        if ":" in found[0] and _is_score(found, code):
            ratio = table(code).signs.ratio
            return f"{cardinal(found['hour'], language)} {ratio} {cardinal(str(int(found['minute'])), language)}"
        if code == "pl":
            return _polish(
                language,
                int(found["hour"]),
                int(found["minute"]),
                found.string[max(0, found.start() - 8) : found.start()],
            )
        return _spoken(
            code, language, int(found["hour"]), int(found["minute"]), found.string[found.end() : found.end() + 6]
        )

    def korean_hour(found: re.Match[str]) -> str:
        return _KOREAN_HOURS[int(found["hour"])] + " 시"

    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    if code == "en":
        time = rf"(?<![\w:.,/–-]){_TIME}(?:(?=[AaPp]\.?[Mm]\b)|(?!\w))(?!:|[.,]\d|[–-]\w)"  # 9:30PM
    else:
        start = rf"(?<![{letters}:.,/–-])" if language.spaced else rf"(?<![{letters}./–-])(?<!\d[:,])"
        time = rf"{start}{_TIME}(?![{letters}:]|[.,]\d|[–-]\w)"
    lap = rf"(?<![{letters}:.,/–-])(?P<minutes>\d{{1,2}}):(?P<seconds>[0-5]\d)(?P<part>[.,]\d{{1,3}})?"
    lap += rf"(?![{letters}:]|[.,–-]\d)"
    durations = rf"(?<![{letters}:.,/–-])(?P<minutes>\d{{1,3}}):(?P<seconds>[0-5]\d)[  ]?{_MINUTES}"
    exact = rf"(?<![{letters}:.,/–-])(?P<hours>\d{{1,2}}){BLANK}h{BLANK}(?P<minutes>[0-5]?\d){BLANK}(?:min|mn|m){BLANK}"
    exact += r"(?P<seconds>[0-5]?\d)\s?s(?!\w)"  # 1h32min07s
    glued = rf"(?<![{letters}:.,/–-])(?P<hours>\d{{1,3}})h(?P<minutes>[0-5]?\d){BLANK}(?:min|mn)\b"
    if code == "en":  # 2h 15m
        glued = rf"(?<![\w:.,/–-])(?P<hours>\d{{1,3}})h{BLANK}(?P<minutes>[0-5]?\d){BLANK}m(?:in)?\b"
    lasted: list[tuple[re.Pattern[str], Words]] = [
        (re.compile(durations), partial(_duration, language)),
        (re.compile(lap), partial(_lap, code, language)),
        (re.compile(exact), partial(_hours_and_minutes, language)),
        (re.compile(glued), partial(_hours_and_minutes, language)),
    ]
    hours = r"(?(second)(?: (?:Stunden|Std\.|hours|hrs|heures|horas|ore|часа|часов|ساعت)(?!\w))?|)"
    suffix = {"de": r"(?: ?Uhr\b)?", "nl": r"(?: ?uur\b)?"} | dict.fromkeys(("es", "fr", "it", "pt"), _WITH_UNIT)
    found: list[tuple[re.Pattern[str], Words]] = [
        *lasted,
        (re.compile(time + hours + suffix.get(code, "")), words),
    ]
    if language.to:  # 10:30–12:30 Uhr
        dots = "[.:]" if code == "de" else ":"
        end = r" ?Uhr\b" if code == "de" else suffix.get(code, "")
        clock = rf"(?P<h{{0}}>[01]?\d|2[0-4]){dots}(?P<m{{0}}>[0-5]\d)"
        start = rf"(?<![{letters}:.,/–-])" if language.spaced else rf"(?<![{letters}./–-])(?<!\d[:,])"
        both = rf"{start}{clock.format(1)} ?[–-] ?{clock.format(2)}(?![{letters}:]|[.,]\d|[–-]\w){end}"
        found.append((re.compile(both), between))
    full_stop = r"(?<![\w:.,/–-])(?P<hour>[01]?\d|2[0-4])\.(?P<minute>[0-5]\d)(?P<second>)?"
    found += _with_full_stop(code, full_stop, words)
    if code == "en":
        found.insert(0, (re.compile(_ENGLISH_HOURS, re.IGNORECASE), partial(_english_hours, language)))
        found.append((re.compile(rf"{full_stop}(?=\s?[ap]\.?m\b)", re.IGNORECASE), words))
        hour = r"(?<![\w:.,/–-])(?P<hour>1[0-2]|[1-9])(?=[ap]\.?m\b)"  # 9pm
        found.append((re.compile(hour, re.IGNORECASE), lambda match: cardinal(match["hour"], language) + " "))
    found = [*_primed(language), *_russian(code, language), *_minutes_of_a_match(code, language), *found]
    found += [*_with_h(code, language, words, between), *_after_article(code, language)]
    if code == "ko":
        found.append((re.compile(r"(?<![\w.,:])(?P<hour>1[0-2]|[1-9])시(?!간)"), korean_hour))
    return found


_RACE = re.compile(
    r"(?:\b(?:won|ran|run|swam|swum|finish\w*|clock\w*|sprint\w*|lief|läuft|gewann|schwamm|couru|court|gagn[ée]\w*|"
    r"nag[ée]\w*|corri[óo]|ganó|nadó|corso|vinto|nuotato|correu|venceu|nadou|mile|Meile|miglio|milla|milha|lap|"
    r"[1-9]\d\d0? ?m(?:et(?:er|re)s)?|[1-9]\d? ?km)\b[^.!?\"”″]{0,40}\b(?:in|en|em)|"
    r"\b(?:(?:split|lap|finish|finishing|best) times?|times?|splits?|Zeit|Zeiten|temps|tiempos?|tempos?)"
    r"(?: ?:| of| de| von| is| was))\s$",
    re.IGNORECASE,
)
_PACE = re.compile(r"\s(?:pace|per (?:mile|km|kilomet)|a mile|au km|le km|split|lap)|/(?:km|mi)\b")
_DESCRIBED = re.compile(r"\s(?:tall|high|long|wide|deep|by|x)\b")
_MOST_INCHES = 12


def _primed(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """The mile in 4'07", 5'30" pace, 9"58: minutes and seconds, where no length is written so."""
    if language.number_words is None or not language.spaced:
        return []
    sign = r"(?:[\"″”]|'')"
    start = r"(?<![\w.,/'’\"“„″°-])(?<!° )"
    minutes = rf"{start}(?P<minutes>\d{{1,2}})['′’](?P<seconds>[0-5]\d)(?P<sign>{sign})(?P<part>\d{{1,2}})?(?!\w)"
    parts = rf"{start}(?P<minutes>)(?P<seconds>[1-5]?\d)(?P<sign>[\"″])(?P<part>\d{{1,2}})(?![\w\"”'’]| ?[x×])"
    tenths = rf"(?:{re.escape(language.decimal)}(?P<part>\d{{1,2}}))?"
    alone = rf"{start}(?P<minutes>)(?P<seconds>[1-5]?\d){tenths}(?P<sign>{sign})(?![\w\"”]| ?[x×])"

    def words(found: re.Match[str]) -> str | None:
        seconds, part, sign = found["seconds"], found["part"], found["sign"]
        quoted = sign != "″" and is_quoted(found.string, found.start())
        ran = _RACE.search(found.string[max(0, found.start() - 80) : found.start()]) is not None
        described = _DESCRIBED.match(found.string, found.end()) is not None
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
        said = [_unit(language, "minute", int(found["minutes"]))] if found["minutes"] else []
        if part:
            noun = unit_name(language, "duration-second", 2) or ""
            said.append(f"{decimal(str(int(seconds)), part, language)} {noun}")
        elif int(seconds):
            said.append(_unit(language, "second", int(seconds)))
        return " ".join(said) + (
            sign if quoted and not part and found.string[found.end() : found.end() + 1] not in ('"', "”") else ""
        )

    return [(re.compile(pattern), words) for pattern in (minutes, parts, alone)]


def _with_full_stop(code: str, full_stop: str, words: Words) -> list[tuple[re.Pattern[str], Words]]:
    """10.30 Uhr; alle 8.30, alle ore 20.45."""
    if code == "it":
        at = r"(?:(?<=\b[Aa]lle )|(?<=\b[Dd]alle )|(?<=\bore )|(?<=\b[Oo]re )|(?<=\b[Ll]e ))"
        end = r"(?![\w:]|[.,]\d|\s(?:euro|milioni|miliardi|per cento))"
        return [(re.compile(at + full_stop + end), words)]
    if code in ("de", "nl"):
        return [(re.compile(full_stop + {"de": r" ?Uhr\b", "nl": r" ?uur\b"}[code]), words)]
    return []


_OF_MATCH = {
    "it": r"(?P<before>\b(?i:al|dal|nel|il|del)\s|\b(?i:all|dall|nell|dell|l)['’])",
    "es": r"(?P<before>\b(?i:el|del|al|minuto)\s|\()",
    "pt": r"(?P<before>\b(?i:aos?|nos?|dos?|minuto)\s|\()",
    "fr": r"(?P<before>\b(?i:la|minute)\s|\()",
}


def _minutes_of_a_match(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Gol all'89', en el 89', (89')."""
    if code not in _OF_MATCH:
        return []
    noun = "minute" if code == "fr" else "minuto"
    pattern = re.compile(rf"{_OF_MATCH[code]}(?P<n>[1-9]\d?|1[0-2]\d)['’′](?![\w\"”])(?:(?P<noun>\s{noun})(?!\w))?")

    def words(found: re.Match[str]) -> str:
        number, before = cardinal(found["n"], language), found["before"]
        if code == "it":
            return f"{before}{ordinal(int(found['n']), language)}{found['noun'] or ''}"
        if code == "fr" and before.lower() == "la ":
            return f"{before}{ordinal(int(found['n']), language)} minute"
        if before.lower().startswith("minut"):
            return f"{before}{number}"
        if code == "pt" and before.lower() in ("aos ", "nos ", "dos "):
            return f"{before}{number} minutos"
        return f"{before}{noun} {number}"

    return [(pattern, words)]


def _russian(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """С 9.00 до 18.30, к 21:00."""
    if code != "ru":
        return []
    hour, minute = r"(?P<hour>[01]?\d|2[0-4])", r"(?P<minute>[0-5]\d)(?![\w:%]|[.,]\d)"
    after = rf"(?<![\w.,/–-])(?P<before>(?i:с|со|до|от|около|после|к|ко|в)\s){hour}"
    signs = (r"(?=:|(?<=[вВ]\s\d)\.|(?<=[вВ]\s\d\d)\.)[.:]", r"\.(?=00|1[3-9]|[2-5])")
    return [(re.compile(f"{after}{sign}{minute}"), partial(_russian_time, language)) for sign in signs]


def _with_h(code: str, language: Language, words: Words, between: Words) -> list[tuple[re.Pattern[str], Words]]:
    """12h30, 9h-12h, um 8h."""
    found: list[tuple[re.Pattern[str], Words]] = []
    if code in ("fr", "pt", "es"):
        both = rf"(?<![\w:.,/-]){_HOURS_OF.format(1)} ?[–-] ?{_HOURS_OF.format(2)}\b"
        minutes = rf"(?P<minute>[0-5]\d)(?P<second>)?\b(?!{BLANK}(?:min|mn)\b)"  # 2 h 35 min: how long
        hours = rf"(?<![\w:.,/-])(?P<hour>[01]?\d|2[0-4]){BLANK}h{BLANK}{minutes}"
        found += [(re.compile(both), between), (re.compile(hours), words)]
    if code in ("de", "nl"):  # um 8h
        at = r"(?:(?<=\b[Uu]m )|(?<=\b[Aa]b )|(?<=\bbis )|(?<=\bgegen )|(?<=\bvon )(?=\d{1,2} ?h bis\b))"
        hours = rf"{at}(?P<hour>[01]?\d|2[0-4]) ?h\b"
        found.append((re.compile(hours), lambda match: _spoken(code, language, int(match["hour"]), 0, "")))
    return found


_CLOCK = {
    "es": (r"(?:(?<=\b[Aa] la )|(?<=\b[Dd]e la )|(?<=\b[Aa] las )|(?<=\b[Ll]as )|(?<=\b[Ll]a )(?=1(?!\d)))", "hora"),
    "pt": (r"(?:(?<=\b[Àà]s )|(?<=\b[Àà] )|(?<=\b[Dd]as ))", "hora"),
    "it": (r"(?:(?<=\b[Aa]ll['’])|(?<=\b[Dd]all['’])|(?<=\b[Dd]ell['’])|(?<=\b[Ll]['’])(?=1(?!\d)))", "ora"),
}


def _after_article(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """A la 1, às 2, all'1: an hour, which is feminine."""
    if code not in _CLOCK:
        return []
    article, noun = _CLOCK[code]
    clock = rf"{article}(?P<hour>1?\d|2[0-4])(?![\w:]|[.,]\d|\.?[ªº]|\s?[ªº%€$]|\s(?!{_AFTER_HOUR})[^\W\d_])"
    return [(re.compile(clock), lambda found: cardinal(found["hour"], language, noun))]


_MINUTES = r"(?:min(?:ute[sn]?|s|utos|uti|uten)?\b\.?(?!\w)|мин(?:ут[ыа]?)?\b\.?|Min\.|Minuten\b)"
_AND = {
    "en": "and",
    "de": "und",
    "fr": "et",
    "es": "y",
    "it": "e",
    "pt": "e",
    "ru": "и",
    "fa": "و",
    "nl": "en",
    "pl": "i",
}
_LASTED = re.compile(
    r"\b(?:(?:marathon|maratona|maratón|марафон|semi)\s?:|ran|clocked|lief|couru|corrió|corso|correu|пробежала?|"
    r"took|lasted|dauerte?n?|dur(?:ó|ò|ou|é|ata|ato)|длил\w+|in|of|time:?|nach|von|Zeit|en|de|em|di|за|temps|tiempo|tempo|duration:?|Dauer:?)\s$|(?:成绩|用时|以|タイム(?:は|が)?|"
    r"زمان|رکورد)[:：]?\s?$",
    re.IGNORECASE,
)
_RAN = re.compile(
    r"\b(?:in|en|em|за)\s$|\b(?:time|lap|Zeit|Rundenzeit|temps|tiempo|tempo|время)\b[^.!?\d]{0,12}$|"
    r"(?:成绩|用时|以|タイム|زمان|رکورد)(?:是|为|は|が)?[:：]?\s?$",
    re.IGNORECASE,
)
_IN_PERSIAN = re.compile(r"\s(?:دوید|پیمود|شنا کرد|رکورد|به پایان|تمام کرد)")  # after "in", which is "at" too
_OF_HOURS = re.compile(r"\s?(?:Stunden|Std\.|hours|hrs|heures|horas|ore|часа|часов|ساعت)$")
_LAST_HOUR = 24
_LONGEST_RUN = 9  # hours of a race


def _lap(code: str, language: Language, found: re.Match[str]) -> str | None:
    """In 25:30, in 1:54,73: minutes and seconds of a race."""
    minutes, part = int(found["minutes"]), found["part"]
    ran = _RAN.search(found.string[max(0, found.start() - 24) : found.start()]) is not None
    if code == "fa":
        ran = ran or _IN_PERSIAN.match(found.string, found.end()) is not None
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
    if part and (part[0] != language.decimal or code == "en"):
        return ELSEWHERE
    blank = " " if language.spaced else ""
    said = [_unit(language, "minute", minutes)] if minutes else []
    if code == "de" and ran and minutes == 1:
        said = ["einer Minute"]
    if part:
        noun = unit_name(language, "duration-second", 2) or ""
        said.append(f"{decimal(seconds, part[1:], language)}{blank}{noun}")
    elif int(seconds):
        said.append(_unit(language, "second", int(seconds)))
    return blank.join(said)


_IN = re.compile(r"\b(?:in|en|em|за)\s$")
_SHORT_RACE = re.compile(
    r"\b(?:mil(?:e|la|ha)|miglio|Meile|милю|lap|Runde|tour|vuelta|giro|volta|круг|[1-9]\d\d\d?\s?[mм])\b", re.IGNORECASE
)
_FEWEST_MINUTES = 10  # of a race, that are no hours: 2:15


def _unit(language: Language, name: str, count: int) -> str:
    from babel.numbers import format_decimal
    from babel.units import format_unit

    form = format_unit(count, f"duration-{name}", "long", locale=language.locale)
    noun = form.replace(format_decimal(count, locale=language.locale), "").strip()
    blank = " " if language.spaced else ""
    number = "两" if language.locale == "zh" and count == 2 else cardinal(str(count), language, noun)
    return f"{number}{blank}{noun}"


def _duration(language: Language, found: re.Match[str]) -> str:
    """42:17 min: forty-two minutes seventeen seconds."""
    blank = " " if language.spaced else ""
    said = _unit(language, "minute", int(found["minutes"]))
    if int(found["seconds"]):
        said += f"{blank}{_unit(language, 'second', int(found['seconds']))}"
    after = found.string[found.end() :].lstrip()
    return said + "." if found[0].endswith(".") and (not after or after[0].isupper()) else said


def _hours_and_minutes(language: Language, found: re.Match[str]) -> str:
    """2h15min, how long."""
    blank = " " if language.spaced else ""
    names = [name for name in ("hours", "minutes", "seconds") if name in found.re.groupindex]
    return blank.join(_unit(language, name[:-1], int(found[name])) for name in names)


def _with_seconds(code: str, language: Language, found: re.Match[str]) -> str | None:
    """23:59:59, an hour of the day, or in 2:15:30, how long a race took."""
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"][1:])
    blank = " " if language.spaced else ""
    if language.number_words is None or code == "ko":
        return None
    before = found.string[max(0, found.start() - 12) : found.start()]
    told = _OF_HOURS.search(found[0]) is not None
    in_persian = code == "fa" and _IN_PERSIAN.match(found.string, found.end()) is not None
    ran = _LASTED.search(before) is not None or in_persian
    if told or (len(found["hour"]) == 1 and hour <= _LONGEST_RUN and ran):
        parts = (("hour", hour), ("minute", minute), ("second", second))
        return blank.join(_unit(language, name, count) for name, count in parts if count)
    if not second:
        return _spoken(code, language, hour, minute, "") if hour or minute or code != "en" else "midnight"
    seconds = _unit(language, "second", second)
    if not language.spaced:
        return f"{_spoken(code, language, hour, minute, '')}{cardinal(str(second), language)}秒"
    joint = _AND.get(code)
    said = _spoken(code, language, hour, minute, "") if code != "pl" else None
    if said is None or joint is None:
        return None
    if code == "en" and not hour:
        said = f"zero hours {_unit(language, 'minute', minute)}" if minute else "midnight"
    return f"{said} {joint} {seconds}"


_AFTER_HOUR = r"(?:de|da|del|di|y|e|en|em|o|ou|a|hasta|até|menos|meno|às|para|se|no|não|non)\b"
_AT = re.compile(
    r"\b(?:um|ab|bis|gegen|von|seit|vor|nach|at|from|until|till|by|since|before|after|a las?|às?|alle|à|vers)\s$",
    re.IGNORECASE,
)


def _is_score(found: re.Match[str], code: str) -> bool:
    """True for 21:19 in the story of a game, where no word says that it is an hour."""
    before, after = (
        found.string[max(0, found.start() - 60) : found.start()],
        found.string[found.end() : found.end() + 8],
    )
    is_hour = _AT.search(before) or re.search(r"\s?(?:Uhr|h\b|[ap]\.?m\b)", found[0] + after, re.IGNORECASE)
    return not is_hour and code not in ("ja", "zh", "ko") and near_score(before, code) and bool(table(code).signs.ratio)


def _spoken(code: str, language: Language, hour: int, minute: int, after: str) -> str | None:
    if code == "en":
        glued = " " if re.match(r"[ap]\.?m\b", after, re.IGNORECASE) else ""
        return _english(language, hour, minute, after) + glued
    minutes = cardinal(f"{minute:02}" if code in ("es", "ru", "tr") and minute else str(minute), language)
    match code:
        case "de" | "nl":
            word = {"de": "Uhr", "nl": "uur"}[code]
            return f"{cardinal(str(hour), language, word)} {word}" + (f" {minutes}" if minute else "")
        case "fr" | "pt":
            noun = _HOURS[code][hour > 1]
            start = f"{cardinal(str(hour), language, noun)} {noun}"
            return start + (f"{' e' if code == 'pt' else ''} {minutes}" if minute else "")
        case "es" | "it":
            hours = cardinal(str(hour), language, "hora" if code == "es" else "ora")
            return hours + (
                f"{' e' if code == 'it' else ''} {minutes}"
                if minute
                else (" horas" if code == "es" and hour != 1 else "")
            )
        case "ru":
            hours = cardinal(str(hour), language)
            return f"{hours} {minutes}" if minute else f"{cardinal(str(hour), language, 'час')} {_russian_hours(hour)}"
        case "fa":
            return cardinal(str(hour), language) + (f" و {minutes} دقیقه" if minute else "")
        case "tr":
            return cardinal(str(hour), language) + (f" {minutes}" if minute else "")
        case "ja":
            return cardinal(str(hour), language) + "時" + (f"{minutes}分" if minute else "")
        case "zh":
            hours = "两" if hour == 2 else cardinal(str(hour), language)
            return f"{hours}点" + (f"{'零' if minute < 10 else ''}{minutes}分" if minute else "")
        case "ko":
            start = _KOREAN_HOURS[hour] if 1 <= hour <= 12 else cardinal(str(hour), language)
            return f"{start} 시" + (f" {minutes} 분" if minute else "")
    return None


def _english(language: Language, hour: int, minute: int, after: str) -> str:
    half = re.match(r"\s?[ap]\.?m\b", after, re.IGNORECASE) is not None
    hours = cardinal(str(hour), language)
    if not minute:
        return hours if half else f"{hours} o'clock" if 1 <= hour <= 12 else f"{hours} hundred"
    return f"{hours} {'oh ' if minute < 10 else ''}{cardinal(str(minute), language)}"


_ENGLISH_HOURS = (  # 9am-5pm
    r"(?<![\w:.,/–-])(?P<h1>1[0-2]|[1-9])(?::(?P<m1>[0-5]\d))?\s?(?P<half>[ap]\.?m\.?)?\s?[–-]\s?"
    r"(?P<h2>1[0-2]|[1-9])(?::(?P<m2>[0-5]\d))?(?=\s?[ap]\.?m\b)"
)


def _english_hours(language: Language, found: re.Match[str]) -> str:
    first = _english(language, int(found["h1"]), int(found["m1"] or 0), " am")
    last = _english(language, int(found["h2"]), int(found["m2"] or 0), " am")
    half = f" {found['half']}" if found["half"] else ""
    glued = "" if found.string[found.end() : found.end() + 1].isspace() else " "
    return f"{first}{half} to {last}{glued}"


def _polish(language: Language, hour: int, minute: int, before: str) -> str:
    """The hour is an ordinal: czternasta trzydzieści, o czternastej trzydzieści."""
    at = re.search(r"\b(?:o|od|do|po|około)\s$", before, re.IGNORECASE) is not None
    hours = ordinal(hour, language) if hour else "zero"
    hours = re.sub(r"i\b", "iej" if at else "ia", re.sub(r"y\b", "ej" if at else "a", hours))
    hours = hours.replace("gia", "ga")
    return hours + (f" {cardinal(f'{minute:02}', language)}" if minute else "")


_RUSSIAN_CASES = {"к": "d", "ко": "d", "в": "n"}  # after all others the genitive
_HOURS_IN_CASE = {"g": ("часа", "часов"), "d": ("часу", "часам")}


def _russian_time(language: Language, found: re.Match[str]) -> str:
    """С девяти часов до восемнадцати тридцати, к двадцати одному часу."""
    hour, minute = int(found["hour"]), int(found["minute"])
    case = _RUSSIAN_CASES.get(found["before"].strip().lower(), "g")
    hours = in_case(hour, language, case)
    if minute:
        zero = f"{in_case(0, language, case)} " if minute < 10 else ""
        return f"{found['before']}{hours} {zero}{in_case(minute, language, case)}"
    many = _russian_hours(hour) if case == "n" else _HOURS_IN_CASE[case][_russian_hours(hour) != "час"]
    return f"{found['before']}{hours} {many}"


def _russian_hours(hour: int) -> str:
    one, few, many = _HOURS["ru"]
    if hour % 10 == 1 and hour != 11:
        return one
    return few if hour % 10 in (2, 3, 4) and not 12 <= hour <= 14 else many
