"""Times of day in words: 14:30, 14h30."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from voxyard.speech.reading import german, laps, polish_cases
from voxyard.speech.reading.languages import LANGUAGES, Language
from voxyard.speech.reading.number_words import around_range, before_word, cardinal, in_case, ordinal
from voxyard.speech.reading.patterns import BLANK, ELSEWHERE
from voxyard.speech.reading.ranges import near_score
from voxyard.speech.reading.tables import table

Words = Callable[[re.Match[str]], str | None]

_TIME = r"(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?P<second>:[0-5]\d)?"
_TIME_OF = r"(?P<h{0}>[01]?\d|2[0-4])[.:](?P<m{0}>[0-5]\d)"
_HOURS_OF = r"(?P<h{0}>[01]?\d|2[0-4]) ?[hH](?: ?(?P<m{0}>[0-5]\d))?"
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
        blank, to = " " if language.spaced else "", around_range(found, language)[1] or language.to
        return None if first is None or last is None else f"{first.rstrip()}{blank * (code != 'ko')}{to}{blank}{last}"

    def words(found: re.Match[str]) -> str | None:
        if found["second"]:
            return _with_seconds(code, language, found)
        if found[0][-1] in "hu" and _TAKES.search(found.string[max(0, found.start() - 20) : found.start()]):
            parts = (("hour", int(found["hour"])), ("minute", int(found["minute"])))
            return " ".join(laps.unit(language, name, count) for name, count in parts if count) or None
        if ":" in found[0] and _SCALED.match(found.string, found.end()):
            return ELSEWHERE  # 1:14 Mio.
        if ":" in found[0] and _is_score(found, code):
            ratio = table(code).signs.ratio
            second = cardinal(str(int(found["minute"])), language)
            second = polish_cases.in_case(second, "genitive") if code == "pl" else second
            return f"{cardinal(found['hour'], language)} {ratio} {second}"
        if code == "pl":
            return _polish(
                language,
                int(found["hour"]),
                int(found["minute"] or 0),
                found.string[max(0, found.start() - 20) : found.start()],
            )
        return _spoken(
            code, language, int(found["hour"]), int(found["minute"]), found.string[found.end() : found.end() + 6]
        )

    letters = r"\w" if language.spaced and code != "ko" else "A-Za-z0-9_"  # 6:45에
    if code == "en":
        time = rf"(?<![\w:.,/–-]){_TIME}(?:(?=[AaPp]\.?[Mm]\b)|(?!\w))(?!:|[.,]\d|[–-]\w)"  # 9:30PM
    else:
        start = rf"(?<![{letters}:.,/–-])" if language.spaced else rf"(?<![{letters}./–-])(?<!\d[:,])"
        start += r"(?<!\d~)"
        glued = r"(?= ?[uh]\b(?! ?[–~-] ?\d))|" if code in ("de", "nl") else ""
        time = rf"{start}{_TIME}(?:{glued}(?![{letters}:]|[.,]\d|[–~-]\w))"
    hours = r"(?(second)(?: (?:Stunden|Std\.|hours|hrs|heures|horas|ore|часа|часов|ساعت)(?!\w))?|)"
    suffix = {"de": r"(?: ?(?:Uhr|h)\b)?", "nl": r"(?: ?(?:uur|[uh])\b(?:\.(?=\s[a-z]))?)?"} | dict.fromkeys(
        ("es", "fr", "it", "pt"), _WITH_UNIT
    )
    suffix |= {"zh": "分?(?!钟)", "ja": "分?(?!間)"}
    found: list[tuple[re.Pattern[str], Words]] = [(re.compile(time + hours + suffix.get(code, "")), words)]
    if language.to:  # 10:30–12:30 Uhr
        dots = "[.:]" if code in ("de", "tr") else ":"
        end = rf"(?: ?(?:Uhr|h)\b|(?<=:\d\d)|{_MORE_HOURS})" if code == "de" else suffix.get(code, "")
        clock = rf"(?P<h{{0}}>[01]?\d|2[0-4]){dots}(?P<m{{0}}>[0-5]\d)"
        start = rf"(?<![{letters}:.,/–-])" if language.spaced else rf"(?<![{letters}./–-])(?<!\d[:,])"
        both = rf"{start}{clock.format(1)} ?[–~-] ?{clock.format(2)}(?![{letters}:]|[.,]\d|[–-]\w){end}"
        found.append((re.compile(both), between))
        if code == "nl":  # 9.00-17.00 uur
            clock = clock.replace("):", r")\.")
            both = rf"{start}{clock.format(1)} ?[–-] ?{clock.format(2)}"
            both += r"(?: ?(?:uur|u)\b(?:\.(?=\s[a-z]))?|(?= en \d\d?\.\d\d))"
            found.append((re.compile(both), between))
    found[:0] = _halves_of_day(code, language)
    full_stop = r"(?<![\w:.,/–-])(?P<hour>[01]?\d|2[0-4])\.(?P<minute>[0-5]\d)(?P<second>)?"
    found += _with_full_stop(code, language, full_stop, words, between)
    if code == "en":
        found.insert(0, (re.compile(_ENGLISH_HOURS, re.IGNORECASE), partial(_english_hours, language)))
        found.append((re.compile(rf"{full_stop}(?=\s?[ap]\.?m\b)", re.IGNORECASE), words))
        hour = r"(?<![\w:.,/–-])(?P<hour>1[0-2]|[1-9])(?=[ap]\.?m\b)"  # 9pm
        found.append((re.compile(hour, re.IGNORECASE), lambda match: cardinal(match["hour"], language) + " "))
        noon = r"(?:noon|midnight)\b"
        before = r"(?:(?<=\d)|(?<=[ap]m)|(?<=[ap]\.m\.))(?P<blank>\s?)[–-](?P=blank)(?=" + noon + ")"
        after = r"(?:(?<=\bnoon)|(?<=midnight))(?:[–-]|\s[–-]\s(?=\d\d?(?:[:.]\d\d)?(?:\s?[ap]\.?m\b|[,;.)]|$)))"
        after += r"(?P<hour>1[0-2]|[1-9])(?:[:.](?P<minute>[0-5]\d))?(?![\w%/]|[-–.,]\w)"
        found.insert(0, (re.compile(before), lambda _: " to "))  # 9-noon
        found.insert(0, (re.compile(after), partial(_after_noon, language)))
    found = [
        *_every(code, language),
        *laps.patterns(code, language),
        *_added(language),
        *_over_night(code, language),
        *_after_day(code, between),
        *_russian(code, language),
        *_minutes_of_a_match(code, language),
        *found,
    ]
    found += _after_slash(code, language)
    return [*found, *_with_h(code, language, words, between), *_after_article(code, language)]


_TAKES = re.compile(
    r"(?:dauer\w*|duur\w*|(?:fahr|flug|geh|gesamt|lauf|reise|back|koch|wart)e?(?:ns)?zeit|(?:reis|rij|vlieg|wacht|bak|kook)tijd)"
    r"(?:\svon|\svan|\sbeträgt)?:?\s(?:ca\.\s|circa\s|etwa\s|rund\s)?$",
    re.IGNORECASE,
)
_MORE_HOURS = (  # 8.30–12.30 und 14–18 Uhr
    r"(?=(?:(?:,|\su\.|\s?/|\sund|\ssowie)\s?\d{1,2}(?:[.:]\d\d)?\s?[–-]\s?\d{1,2}(?:[.:]\d\d)?){1,3}\s?Uhr\b)"
)


_DAYS = re.compile(
    r"\b(?:Mo|Di|Mi|Do|Fr|Sa|So|[Mm]a|[Dd]i|[Ww]o|[Dd]o|[Vv]r|[Zz]a|[Zz]o|[^\W\d_]*(?:tags?|dags?|täglich|dagelijks))\.?:?\s$"
)
_ROW_OF_HOURS = re.compile(r"(?:\d\d?[.:]\d\d\s?[–-]\s?\d\d?[.:]\d\d(?:,|\su\.|\sund|\sen|\s?/)\s?)+$")


def _after_day(code: str, between: Words) -> list[tuple[re.Pattern[str], Words]]:
    """Mo–Fr 8.30–12.30, 14.00–18.00: hours after the name of a day, or after others of it."""
    if code == "en":  # Mon-Fri 8-5
        both = r"(?<![\w:.,/–-])(?P<h1>1[0-2]|[1-9])[–-](?P<h2>1[0-2]|[1-9])(?![\w/–-]|[.,:]\d|\s?[ap]\.?m\b)"
        return [(re.compile(both), _after_english_day)]
    if code not in ("de", "nl"):
        return []
    clock = r"(?P<h{0}>[01]?\d|2[0-4])\.(?P<m{0}>[0-5]\d)"
    both = rf"(?<![\w:.,/–-]){clock.format(1)}\s?[–-]\s?{clock.format(2)}(?![\w–-]|[.,:]\d|\s?(?:Uhr|uur|u)\b|\s?[€%°])"

    def words(found: re.Match[str]) -> str | None:
        before = _ROW_OF_HOURS.sub("", found.string[max(0, found.start() - 60) : found.start()])
        return between(found) if _DAYS.search(before) else ELSEWHERE

    minutes, noun = r"(?:[.:](?P<m{0}>[0-5]\d))?", {"de": "Uhr", "nl": "(?:uur|u)"}[code]  # 19–20.30 Uhr
    clock = rf"(?P<h{{0}}>[01]?\d|2[0-4]){minutes}"
    either = rf"(?<![\w:.,/–-])(?=[\d.:]+\s?[–-]\s?\d\d?[.:]|\d\d?[.:]){clock.format(1)}\s?[–-]\s?{clock.format(2)}"
    with_h = rf"(?<![\w:.,/–-]){_TIME_OF.format(1)} ?[uh] ?[–-] ?{_TIME_OF.format(2)} ?[uh]\b"  # 18:30h - 19:00h
    return [(re.compile(both), words), (re.compile(rf"{either} ?{noun}\b"), between), (re.compile(with_h), between)]


_ENGLISH_DAYS = re.compile(
    r"\b(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|Mon|Tues?|Wed|Thurs?|Fri|Sat|Sun|M[–-]F)\.?[:,]?\s"
    r"(?:\d\d?[–-]\d\d?(?:,| and| &)\s)*$"
)


def _after_english_day(found: re.Match[str]) -> str:
    """Monday to Friday eight to five, which is no score."""
    before = found.string[max(0, found.start() - _NEAR) : found.start()]
    if not _ENGLISH_DAYS.search(before) or near_score(before, "en"):
        return ELSEWHERE
    return f"{cardinal(found['h1'], LANGUAGES['en'])} to {cardinal(found['h2'], LANGUAGES['en'])}"


_NEAR = 60
_TRAVEL = re.compile(
    r"\b(?:(?:[Tt]rein|[Vv]ertr[eo]|[Aa]ankom|[Ss]printer|[Ii]ntercity|[Oo]verstap)\w*|[Aa]ank\.|[Bb]us)\s(?:[^!?;.]|\.\d)*"
    r"(?<!\w)[A-Z][a-z]+\s$"
)


def _after_station(found: re.Match[str], words: Words) -> str | None:
    """Vertrek Utrecht 10.05, aankomst Zwolle 11.02; bus 12: 7.05, 7.35, 8.05."""
    before = found.string[max(0, found.start() - _NEAR) : found.start()]
    return words(found) if _TRAVEL.search(before) or _is_in_row(found, before) else ELSEWHERE


_TIMETABLE = re.compile(r"\b(?:bus|lijn|tram|trein|veer|metro|vertrek|tijden|dienst|voorstelling|film)", re.IGNORECASE)


def _is_in_row(found: re.Match[str], before: str) -> bool:
    """True for a time of 7.05, 7.35, 8.05, which rise, and for vertrek 7.12."""
    time, joint = r"(?:[01]?\d|2[0-4])\.[0-5]\d", r"(?:,| en| of)\s"
    first = re.search(rf"(?:{time}{joint})*$", before)
    after = re.match(rf"(?:{joint}{time}(?!\w|\.\d))*", found.string[found.end() :][:_NEAR])
    row = re.findall(time, (first[0] if first else "") + found[0] + (after[0] if after else ""))
    rising = len(row) > 2 and row == sorted({*row}, key=float) and _TIMETABLE.search(before) is not None
    return rising or re.search(r"\b(?:[Vv]ertrek|[Aa]ankomst):?\s$", before) is not None


def _over_night(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """22–5 Uhr: the first hour is the larger one, and neither a score."""
    noun = {"de": "Uhr", "nl": "(?:uur|u)"}.get(code)
    span = rf"(?<![\w:.,/–-])(?P<a>1[2-9]|2[0-4])\s?[–-]\s?(?P<b>1[01]|\d)(?=\s?{noun}\b)"
    words = rf"{{}} {language.to} {{}}"
    return (
        [(re.compile(span), lambda found: words.format(_hour(found["a"], language), _hour(found["b"], language)))]
        if noun
        else []
    )


def _every(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """De 12/12 h: every twelve hours."""
    if code != "pt":
        return []
    hours = re.compile(r"(?<![\w.,/-])(?P<n>\d{1,2})/(?P=n)\s?h(?:s|oras)?(?!\w)")

    def words(found: re.Match[str]) -> str:
        count = before_word(found["n"], "horas", language) or cardinal(found["n"], language)
        return f"{count} em {count} horas"

    return [(hours, words)]


def _after_slash(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """10 a.m. EST/3 p.m. GMT, 16 Uhr MEZ/15 Uhr GMT."""
    ends = {"en": r"(?=\s?[ap]\.?m\b)", "de": r"(?P<noun> ?Uhr)\b", "nl": r"(?P<noun> ?uur)\b"}
    if code not in ends:
        return []
    clock = r"(?<=[A-Za-z.])\s?/\s?(?P<hour>[01]?\d|2[0-4])(?:[:.](?P<minute>[0-5]\d))?"

    def words(found: re.Match[str]) -> str:
        after = found.string[found.end() : found.end() + 6]
        return f", {_spoken(code, language, int(found['hour']), int(found['minute'] or 0), after)}"

    return [(re.compile(clock + ends[code], re.IGNORECASE), words)]


def _with_full_stop(
    code: str, language: Language, full_stop: str, words: Words, between: Words
) -> list[tuple[re.Pattern[str], Words]]:
    """10.30 Uhr; alle 8.30, alle ore 20.45."""
    if code == "it":
        at = r"(?:(?<=\b[Aa]lle )|(?<=\b[Dd]alle )|(?<=\b[Dd]elle )|(?<=\b[Oo]re )|(?<=\b[Ll]e )|"
        at += r"(?<=\bpart\. )|(?<=\barr\. )|"
        at += r"(?<=\b[Aa]ll['’])(?=1\.)|(?<=\b[Dd]all['’])(?=1\.))"
        end = r"(?![\w:]|[.,]\d|\s(?:euro|milioni|miliardi|per cento))"
        after_day = "|".join(rf"(?<={day} )|(?<={day}\. )" for day in table(code).days)
        after_day += r"|(?<=\b[Oo]rario )|(?<=\b[Oo]rario: )|(?<=\b[Oo]rari: )|(?<=\b[Oo]re )|(?<=\d e )|(?<=\d\d/)"
        span = rf"(?=\d)(?:{after_day})(?=[\d–-]*\.)(?P<h1>[01]?\d|2[0-4])(?:\.(?P<m1>[0-5]\d))?\s?[–-]\s?"
        span += r"(?P<h2>[01]?\d|2[0-4])(?:\.(?P<m2>[0-5]\d))?(?![\w:]|[.,]\d)"  # mar.-dom. 10-19.30

        def from_to(found: re.Match[str]) -> str:
            first, last = (_spoken(code, language, int(found[f"h{n}"]), int(found[f"m{n}"] or 0), "") for n in (1, 2))
            return f"da {first} a {last}"

        return [(re.compile(span), from_to), (re.compile(at + full_stop + end), words)]
    if code == "tr":  # saat 08.30, 14.05'te
        case = r"(?=['’](?:y?[ae]|[dt][ae]n?|y?[ıiuü]|n?[ıiuü]n)(?!\w))"
        at = rf"(?<=\b[Ss]aat ){full_stop}(?![\w:]|[.,]\d)"
        return [(re.compile(at), words), (re.compile(full_stop + case), words)]
    if code == "pl":  # o 12.15, o 20
        at = r"(?:(?<=\b[Oo] )|(?<=\b[Oo]d )|(?<=\b[Dd]o )|(?<=godz\. )|(?<=godzinie ))"
        sharp = r"(?<![\w:.,/–-])(?P<hour>1?\d|2[0-4])(?P<minute>)(?P<second>)"
        sharp += r"(?=[,;!?)](?!\d)|\.?$|\.\s|\s(?:rano|wieczorem|w nocy|po południu))"
        return [
            (re.compile(at + full_stop + r"(?![\w:]|[.,]\d)"), words),
            (re.compile(rf"(?<=\b[Oo] ){sharp}"), words),
        ]
    if code in ("de", "nl", "es", "pt"):
        hours = {"de": r" ?(?:Uhr|h)\b", "nl": r" ?(?:uur|[uh])\b(?:\.(?=\s[a-z]))?"}.get(
            code, r" ?h(?:rs?|s)?\b\.?(?!\w)"
        )
        until = {
            "nl": r"|(?<=\b[Vv]an \d\.\d\d)(?= tot )|(?<=\b[Vv]an \d\d\.\d\d)(?= tot )"
            r"|(?<=\b[Tt]ussen \d\.\d\d)(?= en )|(?<=\b[Tt]ussen \d\d\.\d\d)(?= en )"
        }.get(code, "")
        if code in ("de", "nl"):  # von 8.30 bis 12.00 und 13.00 bis 17.30 Uhr
            time, noun = r"(?:[01]?\d|2[0-4])\.[0-5]\d", {"de": "Uhr", "nl": "uur"}[code]
            joint = r"\s?(?:[–-]|,|\b(?:bis|und|oder|tot|en|of)\b)\s?"
            until += rf"|(?=(?:{joint}{time}){{1,5}} ?{noun}\b)"
        if code == "es":  # a las 8.15, de 9.30 a 14 h, a 13.30 horas
            until = r"|(?:(?<=\b[Ll]as \d\.\d\d)|(?<=\b[Ll]as \d\d\.\d\d)|(?<=\b[Aa] la 1\.\d\d)|(?=\shoras\b)|"
            until += r"(?=\s(?:a|hasta)(?:\slas)?\s\d\d?(?:\.[0-5]\d)?\s(?:h|horas)\b))"
            until += r"(?![\w:]|[.,]\d|\s?[%€$]|\s(?:euros|millones|por|mil)\b)"
        found = [(re.compile(f"{full_stop}(?:{hours}{until})"), words)]
        if code == "es":  # 9.30-14.00 h
            clock = r"(?P<h{0}>[01]?\d|2[0-4])(?:\.(?P<m{0}>[0-5]\d))?"
            both = rf"(?<![\w:.,/–-])(?=[\d–-]*\.){clock.format(1)}\s?[–-]\s?{clock.format(2)}\s?h\b\.?(?!\w)"
            found.insert(0, (re.compile(both), between))
        if code == "nl":
            found.append((re.compile(rf"{full_stop}(?![\w–-]|[.,:]\d)"), lambda match: _after_station(match, words)))
        return found
    return []


_OF_MATCH = {
    "it": r"(?P<before>\b(?i:al|dal|nel|il|del)\s|\b(?i:all|dall|nell|dell|l)['’])",
    "es": r"(?P<before>\b(?i:el|del|al|minuto)\s|\()",
    "pt": r"(?P<before>\b(?i:aos?|nos?|dos?|minuto)\s|\()",
    "fr": r"(?P<before>\b(?i:la|minute)\s|\()",
}


_ADDED = (  # 90+3', 90'+3; the stops are German
    r"(?<![\w.,:/-])(?P<n>\d{2,3})(?:['’′]\+|\+(?=\d\d?['’′])|\.['’′]?\+)(?P<more>\d\d?)(?!\d)"
    r"(?P<stop>\.(?=\s\S))?['’′]?(?P<minute>\sMin(?:\.(?!\s[A-ZÄÖÜ])|ute\b|\b))?"
)


def _added(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """A goal (45'+2); in der 45.+2. Minute, in der 90.+3 Minute, (90.+3 Min.)."""
    if language.locale not in ("en", "de", "nl"):
        return []

    def words(found: re.Match[str]) -> str:
        first, last = cardinal(found["n"], language), cardinal(found["more"], language)
        plus = f" {table(language.locale).signs.operators['+']} "
        if language.locale != "de":
            return f"{first}{plus}{last}{found[0][found.end('more') - found.start() :].strip(_PRIMES)}"
        if found["stop"] and found["minute"]:
            return f"{first}{plus}{ordinal(int(found['more']), language)}n Minute"
        inflected = german.inflected(found, int(found["n"])) if found["minute"] else None
        if inflected is not None:
            return f"{inflected}{plus}{last} Minute"
        return f"{'Minute ' * bool(found['minute'])}{first}{plus}{last}{found['stop'] or ''}"

    return [(re.compile(_ADDED), words)]


_PRIMES = "'’′"


def _minutes_of_a_match(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Gol all'89', al 90'+3, en el 89', (89')."""
    if code == "de":
        return [(_GERMAN_MINUTES, partial(_german_minutes, language))]
    if code in _OF_NAME:
        before = f"{{}} {_OF_NAME[code]}"  # 23' Brobbey 1-0
        return [
            (_IN_BRACKETS, partial(_bracketed_minutes, code, language)),
            (_BEFORE_NAME, lambda found: before.format(ordinal(int(found["n"]), language))),
        ]
    if code not in _OF_MATCH:
        return []
    noun = "minute" if code == "fr" else "minuto"
    more = r"(?: ?\+ ?(?P<more>\d{1,2})['’′]?)?(?![\w\"”])"
    pattern = re.compile(rf"{_OF_MATCH[code]}(?P<n>[1-9]\d?|1[0-2]\d)['’′]{more}(?:(?P<noun>\s{noun})(?!\w))?")

    def words(found: re.Match[str]) -> str:
        more = f" {table(code).signs.plus} {cardinal(found['more'], language)}" if found["more"] else ""
        number, before = cardinal(found["n"], language) + more, found["before"]
        if code == "it":
            return f"{before}{ordinal(int(found['n']), language)}{more}{found['noun'] or ''}"
        if code == "fr" and before.lower() == "la ":
            return f"{before}{ordinal(int(found['n']), language)} minute{more}"
        if before.lower().startswith("minut"):
            return f"{before}{number}"
        if code == "pt" and before.lower() in ("aos ", "nos ", "dos "):
            return f"{before}{number} minutos"
        return f"{before}{noun} {number}"

    others = re.compile(  # goles de Isco, 23', y Abde, 67'
        rf"(?<![\w.,/°-])(?P<n>[1-9]\d?|1[0-2]\d)['’′](?:\+(?P<more>\d\d?)['’′]?)?"
        rf"(?=[,;)]|\s(?:{_AND[code]}\s(?:\d|[A-ZÀ-Ý])|[A-ZÀ-Ý][a-zà-ÿ]|rig\. |de la |do )|\.?$)"
    )

    def another(found: re.Match[str]) -> str:
        before = found.string[max(0, found.start() - 100) : found.start()]
        named = found.string[found.end() : found.end() + 2].strip().isupper() and not before.endswith(
            (": ", ", ", "; ")
        )
        if named or _GOALS.search(before) is None:
            return ELSEWHERE
        more = f" {table(code).signs.plus} {cardinal(found['more'], language)}" if found["more"] else ""
        if code == "it":
            return ordinal(int(found["n"]), language) + more
        number = cardinal(found["n"], language) + more
        return f"{number} minutos" if _AFTER_MINUTES.search(found.string[: found.start()]) else f"{noun} {number}"

    long = "|".join(rf"(?<=\b{each} )" for each in _LASTING[code].split())
    lasting = rf"(?=\d)(?:{long})(?P<n>[1-9]\d?|1[0-2]\d)['’′](?=[,;:.)]|\s[a-zà-ÿ]|$)"
    how_long = (re.compile(lasting), lambda found: laps.unit(language, "minute", int(found["n"])))
    return [(pattern, words), (others, another), how_long]


_LASTING = {  # words before so many minutes
    "it": "per [Dd]opo circa ogni",
    "es": "durante [Tt]ras unos cada los",
    "pt": "por [Aa]pós durante cada",
    "fr": "pendant [Aa]près durant environ",
}
_AND = {"it": "e", "es": "y", "pt": "e", "fr": "et"}
_GOALS = re.compile(r"\b(?:[Gg]ole?s?|[Gg]olos?|[Bb]uts?|[Rr]eti|[Dd]o(?:ppietta|blete|ublé)|\d-\d)\b[^!?]*$")
_AFTER_MINUTES = re.compile(r"\b(?:aos|nos|dos) \d+['’′](?:, \d+['’′])*,? e $")


_OF_NAME = {"en": "minute", "nl": "minuut"}
_IN_BRACKETS = re.compile(r"(?<=\()(?P<minutes>[1-9]\d{0,2}['’′](?:(?:,| and| en)\s[1-9]\d{0,2}['’′])*)(?=\)|,\s[a-z])")
_BEFORE_NAME = re.compile(
    r"(?<![\w.,+])(?P<n>[1-9]\d?|1[0-2]\d)['’′](?=\s[A-ZÀ-Ý][^,;\n]{1,24}\s\d{1,2}[-–:]\d{1,2}(?!\w))"
)


def _bracketed_minutes(code: str, language: Language, found: re.Match[str]) -> str:
    """Kane (12'), Saka (45', 78')."""
    if re.search(r"\b[A-ZÀ-Ý][\w'’-]+\s\($", found.string[max(0, found.start() - 40) : found.start()]) is None:
        return ELSEWHERE
    said = re.sub(r"(\d+)['’′]", lambda each: ordinal(int(each[1]), language), found["minutes"])
    return f"{said} {_OF_NAME[code]}"


_GERMAN_MINUTES = re.compile(  # 2:1 Reus (89.), Kane (12., 34., Elfmeter)
    r"(?<=\()(?P<minutes>[1-9]\d{0,2}\.(?:(?:,|/|\sund)\s?[1-9]\d{0,2}\.)*)(?=\)|,\s[A-ZÄÖÜ])"
)
_GOAL = re.compile(r"\d:\d[^()\n]{1,40}\($")


def _german_minutes(language: Language, found: re.Match[str]) -> str:
    if _GOAL.search(found.string[max(0, found.start() - 48) : found.start()]) is None:
        return ELSEWHERE
    said = re.sub(r"(\d+)\.", lambda each: ordinal(int(each[1]), language), found["minutes"])
    return f"{said.replace('/', ', ')} Minute"


def _russian(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """С 9.00 до 18.30, к 21:00."""
    if code != "ru":
        return []
    hour, minute = r"(?P<hour>[01]?\d|2[0-4])", r"(?P<minute>[0-5]\d)(?![\w:%]|[.,]\d)"
    after = rf"(?<![\w.,/–-])(?P<before>(?i:с|со|до|от|около|после|к|ко|в)\s){hour}"
    signs = (r"(?=:|(?<=[вВ]\s\d)\.|(?<=[вВ]\s\d\d)\.)[.:]", r"\.(?=00|1[3-9]|[2-5])")
    clock = r"(?P<h{0}>[01]?\d|2[0-4]):(?P<m{0}>[0-5]\d)"
    both = rf"(?<![\w.,:/–-]){clock.format(1)}\s?[–—-]\s?{clock.format(2)}(?![\w:–-]|[.,]\d)"  # 8:00–20:00
    return [
        (re.compile(both), partial(_russian_hours_open, language)),
        *((re.compile(f"{after}{sign}{minute}"), partial(_russian_time, language)) for sign in signs),
    ]


def _with_h(code: str, language: Language, words: Words, between: Words) -> list[tuple[re.Pattern[str], Words]]:
    """12h30, 9h-12h, um 8h."""
    found: list[tuple[re.Pattern[str], Words]] = []
    if code in ("fr", "pt", "es"):
        both = rf"(?<![\w:.,/-]){_HOURS_OF.format(1)} ?[–-] ?{_HOURS_OF.format(2)}\b"
        minutes = rf"(?P<minute>[0-5]\d)(?P<second>)?\b(?!{BLANK}(?:min|mn)\b)"  # 2 h 35 min: how long
        hours = rf"(?<![\w:.,/-])(?P<hour>[01]?\d|2[0-4]){BLANK}[hH]{BLANK}{minutes}"
        found += [(re.compile(both), between), (re.compile(hours), words)]
    if code in ("de", "nl"):  # von 8h-12h, 17h10, um 8h
        glued = _HOURS_OF.replace(" ?", "").replace("[hH]", "[hu]")
        both = rf"(?<![\w:.,/-]){glued.format(1)} ?[–-] ?{glued.format(2)}\b"
        hours = r"(?<![\w:.,/-])(?P<hour>[01]?\d|2[0-4])h(?P<minute>[0-5]\d)(?P<second>)?(?!\w)"
        found += [(re.compile(both), between), (re.compile(hours), words)]
        at = r"(?=\d)(?:(?<=punkt: )|(?<=[Bb]eginn: )|(?<=Einlass: )|(?<=Start: )|"
        at += r"(?<=\b[Uu]m )|(?<=\b[Aa]b )|(?<=\bbis )|(?<=\bgegen )|(?<=\bvon )(?=\d{1,2} ?h bis\b))"
        long = r"(?!\s(?:vor|nach|zuvor|im\sVoraus|lang|spät|na\b|later))"  # bis 24 h vorher
        hours = rf"{at}(?P<hour>[01]?\d|2[0-4]) ?h\b{long}"
        found.append((re.compile(hours), lambda match: _spoken(code, language, int(match["hour"]), 0, "")))
    if code == "de":  # Sa 9–16 h
        span = r"(?<![\w:.,/-])(?P<a>[01]?\d|2[0-4])\s?[–-]\s?(?P<b>[01]?\d|2[0-4])\s?h\b"
        found.append((re.compile(span), lambda match: _opened(match, language)))
    return found


_DAYS_BEFORE = re.compile(
    r"(?:\b(?:Mo|Di|Mi|Do|Fr|Sa|So|werktags|täglich|geöffnet|[^\W\d_]*(?:tags?|woch|zeit|zeiten))\b\.?:?,?|\d h und)\s$"
)


def _opened(found: re.Match[str], language: Language) -> str:
    """Neun bis sechzehn Uhr; hours that it takes where no day or opening stands before them."""
    if _DAYS_BEFORE.search(found.string[max(0, found.start() - 20) : found.start()]) is None:
        return ELSEWHERE
    return f"{_hour(found['a'], language)} bis {_hour(found['b'], language)} Uhr"


def _hour(digits: str, language: Language) -> str:
    return "ein" if int(digits) == 1 and language.locale == "de" else cardinal(str(int(digits)), language)


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
    clock = rf"{article}(?P<hour>1?\d|2[0-4])(?![\w:/]|[.,]\d|\.?[ªº]|\s?[ªº%€$]|\s(?!{_AFTER_HOUR})[^\W\d_])"
    return [(re.compile(clock), lambda found: cardinal(found["hour"], language, noun))]


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
    r"took|lasted|w|czasem|czas:?|trwał[ay]?|dauerte?n?|dur(?:ó|ò|ou|é|ata|ato)|длил\w+|врем\w+|результат\w*|in|of|time:?|nach|von|Zeit|en|de|em|di|за|temps|tiempo|tempo|duration:?|Dauer:?)\s$|(?:成绩|用时|以|马拉松|(?:タイム|記録|マラソン)(?:は|が|を)?|"
    r"زمان|رکورد)[:：]?\s?$",
    re.IGNORECASE,
)
_OF_HOURS = re.compile(r"\s?(?:Stunden|Std\.|hours|hrs|heures|horas|ore|часа|часов|ساعت)$")
_LONGEST_RUN = 9  # hours of a race


def _with_seconds(code: str, language: Language, found: re.Match[str]) -> str | None:
    """23:59:59, an hour of the day, or in 2:15:30, how long a race took."""
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"][1:])
    blank = " " if language.spaced else ""
    if language.number_words is None or code == "ko":
        return None
    before = found.string[max(0, found.start() - 12) : found.start()]
    told = _OF_HOURS.search(found[0]) is not None
    in_persian = code == "fa" and laps.IN_PERSIAN.match(found.string, found.end()) is not None
    ran = _LASTED.search(before) is not None or in_persian
    if told or (len(found["hour"]) == 1 and hour <= _LONGEST_RUN and ran) or (code == "ru" and second):
        parts = (("hour", hour), ("minute", minute), ("second", second))
        return blank.join(laps.unit(language, name, count) for name, count in parts if count)
    if code == "pl":
        clock = _polish(language, hour, minute, before)
        return f"{clock} i {laps.unit(language, 'second', second)}" if second else clock
    if not second:
        return _spoken(code, language, hour, minute, "") if hour or minute or code != "en" else "midnight"
    seconds = laps.unit(language, "second", second)
    if not language.spaced:
        return f"{_spoken(code, language, hour, minute, '')}{cardinal(str(second), language)}秒"
    joint = _AND.get(code)
    added = minute % 10 == 0 and second < 10 and code in ("es", "fr", "it")  # treinta y cinco segundos
    if minute and (added or code == "pt"):
        hours, minutes = laps.unit(language, "hour", hour), laps.unit(language, "minute", minute)
        return f"{hours}, {minutes} {joint} {seconds}"
    said = _spoken(code, language, hour, minute, "")
    if said is None or joint is None:
        return None
    if code == "en" and not hour:
        said = f"zero hours {laps.unit(language, 'minute', minute)}" if minute else "midnight"
    return f"{said} {joint} {seconds}"


_SCALED = re.compile(r"\s(?:Mio|Mrd|Millionen|million|billion|millones|milioni|milhões|mln)\b")
_AFTER_HOUR = r"(?:de|da|del|di|y|e|en|em|o|ou|a|hasta|até|menos|meno|às|para|se|no|não|non)\b"
_AT = re.compile(
    r"\b(?:in|um|ab|bis|gegen|von|seit|vor|nach|at|from|until|till|by|since|before|after|a las?|às?|alle|à|vers)\s$",
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


_HALVES_OF_DAY = {"zh": ("上午", "下午"), "ja": ("午前", "午後"), "ko": ("오전 ", "오후 ")}


def _halves_of_day(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """3:40pm, in languages that have words for it."""
    if code not in _HALVES_OF_DAY:
        return []
    half = (
        r"(?<![A-Za-z0-9_.,:/-])(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?\s?(?P<half>[aApP])\.?[mM](?![A-Za-z])"
    )
    return [(re.compile(half), lambda match: _with_half(code, language, match))]


def _with_half(code: str, language: Language, found: re.Match[str]) -> str | None:
    """下午三点四十分."""
    half = _HALVES_OF_DAY[code][found["half"] in "pP"]
    told = found.string[: found.start()].rstrip().endswith(half.rstrip())
    said = _spoken(code, language, int(found["hour"]), int(found["minute"] or 0), "")
    return said if told else f"{half}{said}"


_ENGLISH_HOURS = (  # 9am-5pm
    r"(?<![\w:.,/–-])(?P<h1>1[0-2]|[1-9])(?:[:.](?P<m1>[0-5]\d))?\s?(?P<half>[ap]\.?m\.?)?\s?[–-]\s?"
    r"(?P<h2>1[0-2]|[1-9])(?:[:.](?P<m2>[0-5]\d))?(?=\s?[ap]\.?m\b)"
)


def _english_hours(language: Language, found: re.Match[str]) -> str:
    first = _english(language, int(found["h1"]), int(found["m1"] or 0), " am")
    last = _english(language, int(found["h2"]), int(found["m2"] or 0), " am")
    half = f" {found['half']}" if found["half"] else ""
    glued = "" if found.string[found.end() : found.end() + 1].isspace() else " "
    return f"{first}{half} {around_range(found, language)[1]} {last}{glued}"


def _after_noon(language: Language, found: re.Match[str]) -> str:
    """Noon–2 p.m."""
    return f" to {_english(language, int(found['hour']), int(found['minute'] or 0), ' am')}"


def _polish(language: Language, hour: int, minute: int, before: str) -> str:
    """The hour is an ordinal: czternasta trzydzieści, o czternastej trzydzieści."""
    at = re.search(r"\b(?:o|od|do|po|około)\s(?:godz(?:\.|inie|iny)\s?)?$", before, re.IGNORECASE) is not None
    if not hour and not minute and at:
        return "północy"
    hours = ordinal(hour, language) if hour else "zero"
    hours = re.sub(r"i\b", "iej" if at else "ia", re.sub(r"y\b", "ej" if at else "a", hours))
    hours = hours.replace("gia", "ga")
    return hours + (f" {cardinal(f'{minute:02}', language)}" if minute else "")


_RUSSIAN_CASES = {"к": "d", "ко": "d", "в": "n"}  # after all others the genitive
_HOURS_IN_CASE = {"g": ("часа", "часов"), "d": ("часу", "часам")}


def _russian_time(language: Language, found: re.Match[str]) -> str:
    """С девяти часов до восемнадцати тридцати, к двадцати одному часу."""
    return _russian_after(language, found["before"], int(found["hour"]), int(found["minute"]))


def _russian_hours_open(language: Language, found: re.Match[str]) -> str:
    """С восьми часов до двадцати часов."""
    return " ".join(
        _russian_after(language, before, int(found[hour]), int(found[minute]))
        for before, hour, minute in (("с ", "h1", "m1"), ("до ", "h2", "m2"))
    )


def _russian_after(language: Language, before: str, hour: int, minute: int) -> str:
    case = _RUSSIAN_CASES.get(before.strip().lower(), "g")
    hours = in_case(hour, language, case)
    if minute:
        zero = f"{in_case(0, language, case)} " if minute < 10 else ""
        return f"{before}{hours} {zero}{in_case(minute, language, case)}"
    many = _russian_hours(hour) if case == "n" else _HOURS_IN_CASE[case][_russian_hours(hour) != "час"]
    return f"{before}{hours} {many}"


def _russian_hours(hour: int) -> str:
    one, few, many = _HOURS["ru"]
    if hour % 10 == 1 and hour != 11:
        return one
    return few if hour % 10 in (2, 3, 4) and not 12 <= hour <= 14 else many
