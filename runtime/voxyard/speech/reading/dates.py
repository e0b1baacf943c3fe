"""Dates in words: 2024-03-05, 5.3.2024, March 5, 2024."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

from voxyard.speech.reading import chinese, german, persian
from voxyard.speech.reading.languages import LANGUAGES, Language
from voxyard.speech.reading.number_words import cardinal, ordinal, year
from voxyard.speech.reading.numbers import labelled
from voxyard.speech.reading.patterns import ELSEWHERE
from voxyard.speech.reading.tables import table

Words = Callable[[re.Match[str]], str | None]

_ISO = r"(?<![\w.,:/-])(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?![\w:/-]|\.\d)"
_BEFORE_DAY = re.compile(r"\b(?:am|zum|vom|v\.|bis|dem|den|der|ab)\s$", re.IGNORECASE)
_DAY_OF_WEEK = re.compile(
    r"\b(?:(?:Mon|Diens|Donners|Frei|Sams|Sonn)tag|Mittwoch|Sonnabend|Mo|Di|Mi|Do|Fr|Sa|So)(?:\.?,|\.)\s$",
    re.IGNORECASE,
)
_A_NUMBER_OF = re.compile(
    r"\s(?:men|women|people|soldiers|others|more|[a-z]{3,}s)\b(?<!\bis)(?<!\bwas)(?<!\bhas)(?<!\bas)"
)
_DAY, _MONTH = r"(?:3[01]|[12]\d|0?[1-9])(?!\d)", r"(?:1[0-2]|0?[1-9])(?!\d)"
_KOREAN_MONTHS = {6: "유월", 10: "시월"}
_UNELIDED = {
    "dell": "del ",
    "dall": "dal ",
    "nell": "nel ",
    "sull": "sul ",
    "all": "al ",
    "l": "il ",
}  # l'1 aprile, il primo
_LEFT_YEARS = {"ru": r"(?:год|г\.)"}


def patterns(code: str, region: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of dates, with their words; a date whose order is ambiguous stays as it is."""

    if code == "fa":
        return persian.dates(language)

    def whole(found: re.Match[str]) -> str | None:
        return spoken(code, language, int(found["year"]), int(found["month"]), int(found["day"]), found)

    iso = _ISO if language.spaced else _ISO.replace(r"\w", "A-Za-z0-9_")
    found: list[tuple[re.Pattern[str], Words]] = [(re.compile(iso), whole)]
    if first := {"de": _german_ranges, "it": _from_the_first}.get(code):
        found += first(language)
    if language.numeric_date:
        sign = f"(?P<sign>[{re.escape(language.numeric_date)}]) ?"
        word = {"ru": r"(?:\s?(?:года|г\.)(?!\w))?", "pl": r"(?:\s(?:roku|r\.)(?!\w))?"}.get(
            code, ""
        )  # which the words of the date have
        numbers = rf"(?P<day>{_DAY}){sign}(?P<month>{_MONTH})(?P=sign) ?(?P<year>\d{{4}}){word}"
        found.append((_numeric(numbers), whole))
    found += [*_of_century(code, language), *_slashed(code, language, whole), *_month_of_year(code, language)]
    if code == "de":  # am 1.1.
        short = r"(?<![\w.,:/-])(?P<n>\d{1,2})\. ?(?P<month>1[0-2]|0?[1-9])\.(?!\w| ?\d)"
        found.append((re.compile(short), _german_short))
        old = rf"(?P<day>{_DAY})\.(?P<month>{_MONTH})\.(?P<year>[1-9]\d\d)"  # am 25.12.800
        found.append((_numeric(rf"(?:(?<=\bam )|(?<=\bvom )|(?<=\bdem )){old}"), whole))
    if code == "en":
        found += [(_SPAN, lambda match: _span(match, region)), (_DUE, lambda match: _due(match, region))]
        pattern = _numeric(r"(?P<first>\d{1,2})(?P<sign>[/.-])(?P<second>\d{1,2})(?P=sign)(?P<year>[12]\d{3})")
        found.append((pattern, lambda match: _english_numeric(match, region)))
        in_short = _numeric(r"(?P<first>\d{1,2})(?P<sign>/)(?P<second>\d{1,2})/(?P<year>\d\d)")  # 3/15/24
        found.append((in_short, lambda match: _english_numeric(match, region)))
    if code == "en":
        found.append(_days_of_month(language))
    if code in ("en", "nl"):
        found += _between_months(language)
    if language.months:
        found += [*_with_month_names(code, language), *_with_short_months(code, language)]
    if code in ("ja", "ko", "zh"):
        y, m, d = {"ja": ("年", "月", "日"), "zh": ("年", "月", "[日号]"), "ko": ("년", "월", "일")}[code]
        pattern = re.compile(
            rf"(?<![\d.,])(?:(?P<year>\d{{4}}){y} ?)?(?P<month>\d{{1,2}}){m} ?(?P<day>\d{{1,2}})(?P<last>{d})"
        )
        found.append((pattern, lambda match: _eastern(code, language, match)))
    if code in _LEFT_YEARS:  # the case of their ordinals depends on the sentence
        found.append((re.compile(rf"(?<![\w.,-])\d{{4}}(?=\s{_LEFT_YEARS[code]})"), lambda _: None))
    return found


def _of_century(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Am 15.7.25, op 15-07-25, van 24-12 t/m 1-1."""
    if code not in ("de", "nl"):
        return []
    before, sign = {"de": ("am vom bis ab zum seit den", r"\."), "nl": ("op tot vanaf per sinds vóór", "-")}[code]
    behind = "|".join(rf"(?<=\b[{each[0].upper()}{each[0]}]{each[1:]} )" for each in before.split())
    day = rf"(?=\d)(?:{behind})(?P<day>{_DAY}){sign}(?P<month>{_MONTH}){sign}(?P<year>\d\d)"

    def words(found: re.Match[str]) -> str | None:
        return spoken(code, language, _whole_year(found["year"]), int(found["month"]), int(found["day"]), found)

    def span(found: re.Match[str]) -> str:
        first, last = (_day_in_words(code, language, int(found[a]), int(found[b])) for a, b in ("ab", "cd"))
        return f"{first} tot en met {last}"

    both = _numeric(rf"(?P<a>{_DAY})-(?P<b>{_MONTH}) t/m (?P<c>{_DAY})-(?P<d>{_MONTH})(?!\s(?:jaar|jr|pers))")
    return [(_numeric(day), words), *([(both, span)] if code == "nl" else [])]


def _month_of_year(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """TÜV bis 8/25, APK tot 8-2025, since 03/2024: a month and its year."""
    before = {
        "de": ("bis", "ab", "seit", "im", "TÜV", "EZ", "HU"),
        "nl": ("tot", "vanaf", "sinds", "APK", "in"),
        "en": ("[Ee]xp\\.", "[Ee]xpires", "[Ee]xpiry", "until", "since"),
        "es": ("desde", "hasta", "en", "de", "[Cc]aducidad:", "caduca en"),
        "fr": ("depuis", "dès", "en", "fin", "expire en"),
        "it": ("da", "dal", "fino al", "entro", "[Ss]cadenza:"),
        "pt": ("desde", "até", "em", "de", "[Vv]alidade:"),
    }.get(code)
    if before is None:
        return []
    behind = "|".join(rf"(?<=\b{each} )" for each in before)
    pattern = rf"(?=\d)(?:{behind})(?P<month>0?[1-9]|1[0-2])[/-](?P<year>20\d\d|[0-4]\d(?<=/\d\d))(?![\w/-]|[.,]\d)"
    pattern = pattern if code in ("de", "nl") else pattern.replace("20\\d\\d|[0-4]\\d(?<=/\\d\\d)", "(?:19|20)\\d\\d")
    if code in ("es", "fr", "it", "pt"):  # 09/2026, which is no law
        pattern += r"|(?<![\w.,:/-])(?<![º°.]\s)(?P<may>0[1-9])/(?P<of>(?:19|20)\d\d)(?![\w/-]|[.,]\d)"
    joint = " de " if code in ("es", "pt") else " "

    def words(found: re.Match[str]) -> str:
        month, of_year = (
            (found["may"], found["of"]) if found.groupdict().get("may") else (found["month"], found["year"])
        )
        return f"{month_names(language)[int(month) - 1]}{joint}{year(_whole_year(of_year), language)}"

    return [(re.compile(pattern), words)]


_BEFORE_DAY_MONTH = {
    "es": "el El del al día desde hasta lunes martes miércoles jueves viernes sábado domingo",
    "fr": "le Le du Du au dès jeudi lundi mardi mercredi vendredi samedi dimanche",
    "nl": "op vóór voor tot vanaf per [Tt]/m ma di wo do vr za zo",
    "it": "il Il dal Dal al del entro giorno lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "pt": "em Em até dia Dia de a no desde segunda terça quarta quinta sexta sábado domingo feira segunda, terça, "
    "quarta, quinta, sexta, sábado, domingo, feira,",
}


def _slashed(code: str, language: Language, whole: Words) -> list[tuple[re.Pattern[str], Words]]:
    """2024/5/1, 4/5（金）, 12/31まで, el 17/05: dates whose order the language or a word beside them tells."""
    found: list[tuple[re.Pattern[str], Words]] = []
    before = r"(?<![A-Za-z0-9_.,:/-])"
    sign = "[/.-]" if code in ("ja", "zh") else "/"
    in_full = rf"{before}(?P<year>\d{{4}})(?P<sign>{sign})(?P<month>\d{{1,2}})(?P=sign)(?P<day>\d{{1,2}})"
    found.append((re.compile(rf"{in_full}(?![A-Za-z0-9_/-]|[.,:]\d)"), whole))
    if code in ("ja", "zh"):
        weekday = (  # with Friday in brackets after it
            rf"{before}(?P<year>)(?P<month>{_MONTH})/(?P<day>{_DAY})(?P<last>)"
            r"(?=\s?[(（](?:周|星期)?[日月火水木金土一二三四五六祝])"
        )
        found.append((re.compile(weekday), lambda match: _eastern(code, language, match)))
    if code == "ja":  # which is no fraction
        due = rf"{before}(?P<year>)(?P<month>1[0-2]|0?[1-9])/(?P<day>\d\d?)(?P<last>)(?![\d/A-Za-z])"
        due += r"(?:(?=まで|から|発売|開催|公開|締切|締め切り|[〜~～])|(?:(?<=/1[3-9])|(?<=/[23]\d))(?=[にのは、。で]))"
        found.append((re.compile(due), lambda match: _eastern(code, language, match)))
    if code in _BEFORE_DAY_MONTH and "/" in language.numeric_date:  # 15/03/24
        in_short = _numeric(rf"(?P<day>{_DAY})/(?P<month>{_MONTH})/(?P<year>\d\d)")
        found.append(
            (
                in_short,
                lambda match: spoken(
                    code, language, _whole_year(match["year"]), int(match["month"]), int(match["day"]), match
                ),
            )
        )
    if code in _BEFORE_DAY_MONTH:
        shorts = [each for short in table(code).days for each in (short, short.capitalize())]
        words = [*_BEFORE_DAY_MONTH[code].split(), *(each + end for each in shorts for end in (r"\.", r"\.,", ","))]
        behind = "|".join(rf"(?<=(?<!\w){each}\s)" for each in words)
        if code in _FROM_TO:
            found.append(_from_to(code, language))
        at_a_time = r"(?=\s(?:à|às|a\slas?|alle)\s\d)"  # le 5/3 à 21:42
        the = r"(?:(?<=\b[IiEe]l {0})|(?<=\b[Ll]e {0}))"  # consegnato il 3/6, but le 3/4 du temps
        the = f"(?:{the.format('[2-9]/')}|{the.format('1[0-2]/')})"
        on = rf"{the}[1-9](?<!2/3)(?<!3/4)(?!\sd)"
        if code == "nl":  # huur per 1-6
            on = r"(?:(?<=\bper \d-)|(?<=\bper \d\d-))[1-9](?=[.,;)]|\s*$)"
        sign = "[-/]" if code == "nl" else "/"
        row = r"(?<=\d t/m [1-9][/-])[1-9]|" if code == "nl" else ""  # 5 t/m 8/9
        month = rf"(?P<month>0[1-9]|1[0-2]|{row}(?<=1[3-9][/-])[1-9]|(?<=[23]\d[/-])[1-9]|{on}|[1-9]{at_a_time})"
        short = rf"(?=\d\d?[/-]\d)(?:{behind})(?P<day>{_DAY}){sign}{month}(?![\w/]|[.,-]\d)(?!\s?h)"
        if code == "nl":
            days = "|".join(rf"(?<=\b{each}{end} )" for each in table(code).days for end in ("", r"\."))
            after_day = rf"(?=\d\d?-\d)(?:{days})(?P<day>{_DAY})-(?P<month>{_MONTH})(?![\w/-]|[.,]\d)"
            verbs = "ver|ge|be|af|aan|op|uit|in|tussen|tegen"
            after_day += rf"(?!\s?(?:u|uur|gewonnen|verloren)\b|\s(?!{verbs})[a-z]{{3,}}(?:en|s)\b)"
            found.append(
                (re.compile(after_day), lambda match: _day_and_month(code, language, match))
            )  # ma 2-12, not do 8-10 personen
            short += r"(?!\s?(?:uur|u)\b|\s[a-z]{3,}(?:en|s)\b)"  # voor 8-10 personen
        found.append((re.compile(short), lambda match: _day_and_month(code, language, match)))
    return found


def _from_the_first(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Dall'1/6, l'1/9/2025: dal primo giugno, il primo settembre duemilaventicinque."""
    articles = "|".join(f"[{each[0].upper()}{each[0]}]{each[1:]}" for each in _UNELIDED)
    pattern = rf"(?<!\w)(?P<article>{articles})['’]0?1(?P<sign>[/.])(?P<month>{_MONTH})"
    pattern += r"(?:(?P=sign)(?P<year>\d{4})|(?<=all['’]1/\d)|(?<=all['’]1/\d\d)|(?<=all['’]01/\d\d))(?![\w/]|[.,-]\d)"

    def words(found: re.Match[str]) -> str:
        article = _UNELIDED[found["article"].lower()]
        article = article.capitalize() if found["article"][0].isupper() else article
        stated = f" {year(int(found['year']), language)}" if found["year"] else ""
        return f"{article}primo {month_names(language)[int(found['month']) - 1]}{stated}"

    return [(re.compile(pattern), words)]


_FROM_TO = {"fr": ("du", "au"), "es": ("del", "al"), "it": ("dal", "al"), "pt": ("de", "a")}


def _from_to(code: str, language: Language) -> tuple[re.Pattern[str], Words]:
    """(1/07-31/08), del 1/6 al 15/9: two days, of which one is surely no fraction."""
    day, month = (
        rf"(?P<day{{0}}>{_DAY})/(?P<month{{0}}>{_MONTH})",
        rf"(?P<joint>\s?[–-]\s?|\s(?:{'|'.join(_JOINED)})\s)",
    )
    pattern = rf"(?<![\w.,:/-]){day.format('')}{month}{day.format(2)}(?![\w/]|[.,-]\d)"

    def words(found: re.Match[str]) -> str:
        first, last = ((found[f"day{n}"], found[f"month{n}"]) for n in ("", 2))
        if max(int(first[0]), int(last[0])) <= 12 and first[1][0] != "0" and last[1][0] != "0":
            return ELSEWHERE
        if code == "it" and int(first[0]) == 1 and found.string[: found.start()].endswith(("'", "’")):
            return ELSEWHERE  # dall'1/6
        begin, end = (_day_in_words(code, language, *map(int, each)) for each in (first, last))
        if found["joint"].strip() not in ("-", "–"):
            return f"{begin}{found['joint']}{end}"
        before, to = _FROM_TO[code]
        return f"{before} {begin} {to} {end}"

    return re.compile(pattern), words


_JOINED = ("au", "al", "a", "até", "e", "et", "y")


def _day_and_month(code: str, language: Language, found: re.Match[str]) -> str:
    return _day_in_words(code, language, int(found["day"]), int(found["month"]))


def _day_in_words(code: str, language: Language, day: int, month: int) -> str:
    name = month_names(language)[month - 1]
    first = {"pt": "primeiro", "fr": "premier", "it": "primo"}.get(code) if day == 1 else None
    return f"{first or cardinal(str(day), language)}{' de ' if code in ('es', 'pt') else ' '}{name}"


def _german_short(found: re.Match[str]) -> str | None:
    """Am ersten Januar; with the full stop where the sentence ends."""
    before = german.before_row(found)
    language, day = LANGUAGES["de"], int(found["n"])
    month = month_names(language)[int(found["month"]) - 1]
    if labelled(found, language):
        return ELSEWHERE  # Abb. 2.1.
    if not 1 <= day <= 31 or not (_BEFORE_DAY.search(before[-8:]) or _DAY_OF_WEEK.search(before)):
        return None
    return f"{german.inflected(found, day, date=True)} {month}"


def _german_ranges(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Vom 1.–3. Juni, am 24./25.12., 24.12.–2.1.2024: two days with a sign between them."""
    known = _known_months("de", language)
    name = "|".join(re.escape(each) for each in sorted(known, key=len, reverse=True))
    month = rf"(?:\s?(?P<{{0}}>{name})(?!\w)|\s?(?P<{{0}}_number>1[0-2]|0?[1-9])\.)"
    pattern = (
        rf"(?<![\w.,:/-])(?P<first>{_DAY})\.{month.format('begin')}?(?:\s?(?P<sign>[–/+-])\s?|\sbis\s)"
        rf"(?P<n>{_DAY})\.{month.format('end')}(?:\s?(?P<year>[12]\d{{3}}))?(?!\w|[.,]\d)"
    )

    def month_of(found: re.Match[str], group: str) -> str:
        number = found[f"{group}_number"]
        return month_names(language)[int(number) - 1] if number else known.get(found[group] or "", "")

    def words(found: re.Match[str]) -> str:
        days = [german.inflected(found, int(found[each]), date=True) for each in ("first", "n")]
        months = [month_of(found, each) for each in ("begin", "end")]
        stated = year(int(found["year"]), language) if found["year"] else ""
        joint = "und" if found["sign"] in ("/", "+") else language.to
        return " ".join(filter(None, (days[0], months[0], joint, days[1], months[1], stated)))

    return [(re.compile(pattern), words)]


_THE = re.compile(r"\b[Tt]he\s$")


def _days_of_month(language: Language) -> tuple[re.Pattern[str], Words]:
    """3–7 Nov, the first day before the month too."""
    known = _known_months("en", language)
    name = "|".join(re.escape(each) for each in sorted(known, key=len, reverse=True))
    day = r"(?P<{}>3[01]|[12]\d|[1-9])(?:st|nd|rd|th)?"
    pattern = rf"(?<![\w.,:/$£€–-]){day.format('a')}\s?[–-]\s?{day.format('b')}\s(?P<month>{name})(?!\w)"

    def words(found: re.Match[str]) -> str:
        if int(found["a"]) >= int(found["b"]):
            return ELSEWHERE
        a, b = (ordinal(int(found[each]), language) for each in "ab")
        article = "" if _THE.search(found.string[max(0, found.start() - 4) : found.start()]) else "the "
        return f"{article}{a} to the {b} of {known[found['month']]}"

    return re.compile(pattern), words


def _between_months(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """The dash of Aug. 25–Dec. 12 and of 28 aug. – 3 sept."""
    name = "|".join(each[:3] for each in month_names(language))
    name = rf"(?i:{name}|mrt)[a-z]{{0,6}}\.?"
    day = r"\d{1,2}(?:st|nd|rd|th)?"
    date = rf"(?:{name} {day}|{day} {name})"
    before = re.compile(rf"(?<!\w){date}$")

    def words(found: re.Match[str]) -> str:
        told = before.search(found.string[max(0, found.start() - 16) : found.start()].rstrip())
        blank = "" if found.string[found.start() - 1].isspace() else " "
        return ELSEWHERE if told is None else f"{blank}{language.to}{blank}"

    return [(re.compile(rf"[–-](?=\s?{date}(?!\w))"), words)]


def _numeric(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.,:/-]){pattern}(?![\w/-]|[.,:]\d)")


def _english_numeric(found: re.Match[str], region: str) -> str | None:
    first, second = int(found["first"]), int(found["second"])
    month_first = second > 12 or (region == "us" and first <= 12)
    if (region == "" and first <= 12 and second <= 12 and first != second) or max(first, second) > 31:
        return None
    month, day = (first, second) if month_first else (second, first)
    return spoken("en", LANGUAGES["en"], _whole_year(found["year"]), month, day, found)


def _whole_year(digits: str) -> int:
    """2024 for 24, 1998 for 98."""
    return int(digits) if len(digits) > 2 else int(digits) + (2000 if int(digits) < 50 else 1900)


_BEFORE_DUE = (
    *("[Oo]n", "[Bb]y", "[Uu]ntil", "[Bb]efore", "[Aa]fter", "[Ss]ince", "[Ff]rom", "[Dd]ue"),
    *(
        "through",
        "thru",
        "dated",
        "starting",
        "ending",
        "expires",
        "expiring",
        "[Ss]tarts",
        "[Ee]nds",
        "[Aa]vail\\.",
        "avail",
    ),
    "[Aa]vailable",
)
_DUE = re.compile(  # on 12/25, which is no fraction
    r"(?=\d)(?:"
    + "|".join(rf"(?<=\b{each} )" for each in _BEFORE_DUE)
    + r"|(?<=day )|(?<=day, )|(?<=\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )|(?<=ate: )|(?<=\d\d/\d\d to ))"
    r"(?P<first>\d{1,2})/(?P<second>\d{1,2})(?![\w/]|[.,]\d|\s?(?:of|inch|in\.|cup|\")|-)"
)


_SPAN = re.compile(
    r"(?<![\w.,:/-])(?P<a>\d{1,2})/(?P<b>\d{1,2})\s?[–-]\s?(?P<c>\d{1,2})/(?P<d>\d{1,2})(?![\w/]|[.,]\d)"
)


def _span(found: re.Match[str], region: str) -> str | None:
    """6/1–6/30, of which one day tells the order; without it both stay."""
    a, b, c, d = (int(found[each]) for each in "abcd")
    day_first = region == "gb" or (max(a, c) > 12 and region != "us")
    if not day_first and region == "" and max(b, d) <= 12:
        return None
    days = ((b, a), (d, c)) if day_first else ((a, b), (c, d))
    if not all(1 <= month <= 12 and 1 <= day <= 31 for month, day in days):
        return ELSEWHERE
    english = LANGUAGES["en"]
    return " to ".join(f"{month_names(english)[month - 1]} {ordinal(day, english)}" for month, day in days)


def _due(found: re.Match[str], region: str) -> str | None:
    first, second = int(found["first"]), int(found["second"])
    month, day = (second, first) if first > 12 or region == "gb" else (first, second)
    if not (1 <= month <= 12 and 1 <= day <= 31) or (first, second) == (9, 11):
        return ELSEWHERE
    if region == "" and max(first, second) <= 12 and first != second:
        if first < second and second in (2, 3, 4, 5, 8):
            return ELSEWHERE  # by 1/4
        return f"{cardinal(str(first), LANGUAGES['en'])} {cardinal(str(second), LANGUAGES['en'])}"
    return f"{month_names(LANGUAGES['en'])[month - 1]} {ordinal(day, LANGUAGES['en'])}"


def spoken(code: str, language: Language, y: int, m: int, d: int, found: re.Match[str]) -> str | None:
    """A day, as it is said where `found` stands; None for one that the calendar has not."""
    try:
        dt.date(y, m, d)
    except ValueError:
        return None
    name = month_names(language)[m - 1]
    match code:
        case "en":
            return f"{name} {ordinal(d, language)}, {year(y, language)}"
        case "de":
            return f"{german.inflected(found, d, date=True)} {name} {year(y, language)}"
        case "es" | "pt":
            day = "primeiro" if d == 1 and code == "pt" else cardinal(str(d), language)
            return f"{day} de {name} de {year(y, language)}"
        case "fr" | "it":
            day = {"fr": "premier", "it": "primo"}[code] if d == 1 else cardinal(str(d), language)
            return f"{day} {name} {year(y, language)}"
        case "ru" | "pl":
            return _slavic(code, language, d, name, y)
        case "zh":
            return f"{chinese.one_by_one(str(y))}年{chinese.cardinal(m)}月{chinese.cardinal(d)}日"
        case "ja":
            return f"{cardinal(str(y), language)}年{cardinal(str(m), language)}月{cardinal(str(d), language)}日"
        case "ko":
            return _korean(language, y, m, d)
        case _:
            return f"{cardinal(str(d), language)} {name} {year(y, language)}"


def _korean(language: Language, y: int | None, m: int, d: int) -> str:
    month = _KOREAN_MONTHS.get(m, cardinal(str(m), language) + "월")
    start = "" if y is None else f"{cardinal(str(y), language)}년 "
    return f"{start}{month} {cardinal(str(d), language)}일"


def _eastern(code: str, language: Language, found: re.Match[str]) -> str | None:
    y = int(found["year"]) if found["year"] else None
    m, d = int(found["month"]), int(found["day"])
    if not (1 <= m <= 12 and 1 <= d <= 31):
        return None
    if code == "ko":
        return _korean(language, y, m, d)
    said = chinese.one_by_one(found["year"] or "") if code == "zh" else cardinal(found["year"] or "0", language)
    start = "" if y is None else f"{said}年"
    return f"{start}{cardinal(str(m), language)}月{cardinal(str(d), language)}{found['last'] or '日'}"


def _slavic(code: str, language: Language, d: int, name: str, y: int | None) -> str:
    """The day and the year in the genitive: on the fifth of March of the year 2024."""
    day = _genitive(code, language, d)
    if y is None:
        return f"{day} {name}"
    return f"{day} {name} {_genitive(code, language, y)} {'года' if code == 'ru' else 'roku'}"


def _genitive(code: str, language: Language, number: int) -> str:
    if code == "ru":
        return ordinal(number, language, case="g", gender="m")
    words = ordinal(number, language)
    return re.sub(r"i\b", "iego", re.sub(r"(?<!c)y\b", "ego", re.sub(r"gi\b", "giego", words)))


def month_names(language: Language) -> list[str]:
    """Names of the months in full, as they stand in a date."""
    from babel.dates import get_month_names

    names = get_month_names("wide", "format", language.locale)
    return [names[number] for number in range(1, 13)]


def _known_months(code: str, language: Language) -> dict[str, str]:
    """Names of months, long and short, and the long ones."""
    months = month_names(language)
    known = {name: name for name in months}
    if code in ("en", "de"):
        short = [name for name in months if len(name) > 3]
        known |= {name[:3]: name for name in short} | {name[:3] + ".": name for name in short}
        known |= {"Sept": months[8], "Sept.": months[8], "Jän.": months[0]} if code == "en" else {"Sept.": months[8]}
    if code == "pl":
        known |= dict(zip(_POLISH.split("|"), months, strict=True))
    return known


_POLISH = "sty.|lut.|mar.|kwi.|maj.|cze.|lip.|sie.|wrz.|paź.|lis.|gru."
_TURKISH = "Oca|Şub|Mar|Nis|May|Haz|Tem|Ağu|Eyl|Eki|Kas|Ara"
_AFTER_DAYS = {  # which are other words without a day before them
    "es": "2:feb. 2:febr. 3:mar. 5:may. 9:set. 9:sep.",
    "it": "2:feb. 3:mar. 4:apr. 5:mag. 9:set. 9:sett.",
    "pt": "1:jan. 3:mar. 5:mai. 9:set.",
    "tr": " ".join(
        f"{number}:{short}{stop}" for number, short in enumerate(_TURKISH.split("|"), 1) for stop in (".", "")
    ),
}


def _with_short_months(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """31 déc. 2025, 31 dic., by the short months of the language's abbreviations."""
    joint = {"es": " de ", "pt": " de ", "fr": " ", "it": " ", "tr": " "}.get(code)
    months = month_names(language)
    shorts = {key.rstrip("$"): name for key, name in table(code).abbreviations.items() if name in months}
    more = _AFTER_DAYS.get(code, "").split()
    shorts |= {short: months[int(number) - 1] for number, _, short in (each.partition(":") for each in more)}
    if joint is None or not shorts:
        return []
    first = {"pt": "primeiro", "fr": "premier", "it": "primo"}.get(code, "")
    names = "|".join(re.escape(each) for each in sorted(shorts, key=len, reverse=True))
    pattern = re.compile(
        rf"(?<![\w.,:/-])(?P<n>\d{{1,2}})(?:er|[°º])?\s(?:de\s)?(?P<month>{names})(?!\w)(?:\s(?:de\s)?(?P<year>[12]\d{{3}})(?![\w/–-]|[.,:]\d))?"
    )

    def words(found: re.Match[str]) -> str:
        day = first if found["n"] == "1" and first else cardinal(found["n"], language)
        after = f"{joint}{year(int(found['year']), language)}" if found["year"] else ""
        return f"{day}{joint}{shorts[found['month']]}{after}"

    return [(pattern, words)]


def _with_month_names(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    known = _known_months(code, language)
    name = "|".join(re.escape(each) for each in sorted(known, key=len, reverse=True))
    before = r"(?<![\w.,:/–-])" if code == "pl" else r"(?<![\w.,:/-])"  # 3–5 maja

    def words(found: re.Match[str]) -> str | None:
        day, stated = int(found["n"]), found["year"]
        if not 1 <= day <= 31:
            return None
        month = known[found["month"]]
        after = "" if not stated else f"{', ' if code == 'en' else ' '}{year(int(stated), language)}"
        if code in ("ru", "pl"):
            return _slavic(code, language, day, month, int(stated) if stated else None)
        if code == "de":
            return f"{german.inflected(found, day, date=True)} {month}{after}"
        if code == "en" and found.start("month") < found.start("n"):
            if not stated and month in ("March", "May") and _A_NUMBER_OF.match(found.string, found.end()):
                return f"{found['month']} {cardinal(found['n'], language)}"  # men to the gate
            return f"{month} {ordinal(day, language)}{after}"
        if code == "en":
            article = (
                ""
                if re.search(r"\bthe\s+$", found.string[max(0, found.start() - 8) : found.start()], re.IGNORECASE)
                else "the "
            )
            return f"{article}{ordinal(day, language)} of {month}{after}"
        first = {"fr": "premier", "it": "primo"}.get(code)
        elided = found.groupdict().get("elided") or ""
        article = _UNELIDED.get(elided.lower().rstrip("'’"), "")
        article = article.capitalize() if elided[:1].isupper() else article
        return f"{article}{first} {month}{after}" if first and day == 1 else None

    tail = r"(?P<year>[12]\d{3})(?![\w]|[.,:]\d|[–-]\d)"
    match code:
        case "en":
            one = rf"{before}(?P<month>{name})\s(?P<n>\d{{1,2}})(?:st|nd|rd|th)?(?![\w:]|[.,]\d|[–-]\d)(?:,?\s{tail})?"
            two = rf"{before}(?P<n>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?(?P<month>{name})(?!\w)(?:,?\s{tail})?"
            return [(re.compile(one), words), (re.compile(two), words)]
        case "de":
            return [(re.compile(rf"{before}(?P<n>\d{{1,2}})\.\s?(?P<month>{name})(?!\w)(?:\s{tail})?"), words)]
        case "ru" | "pl":
            ends = {"ru": r"(?:\s(?:года|г\.))?", "pl": r"(?:\s(?:roku|r\.))?"}[code]
            return [(re.compile(rf"{before}(?P<n>\d{{1,2}})\s(?P<month>{name})(?!\w)(?:\s{tail}{ends})?"), words)]
        case "fr" | "it":
            elided = rf"(?P<elided>\b(?i:{'|'.join(_UNELIDED)})['’])?" if code == "it" else ""
            return [(re.compile(rf"{before}{elided}(?P<n>1)(?:er|[°º])?\s(?P<month>{name})(?!\w)(?:\s{tail})?"), words)]
        case _:
            return []
